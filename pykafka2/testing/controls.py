"""What a test can do to a running cluster: `cluster.controls.crash_broker(1)`, `.cut_link(0, 2)`,
`.hold(FetchRequest)`.

Every call has taken effect when it returns.  Any thread but the cluster's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka2.errors import BrokerError, ConfigurationError
from pykafka2.protocol.struct import Request
from pykafka2.testing.faults import FOR_EVER, Fault, FaultRule
from pykafka2.testing.throttle import ThrottleRule
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.testing.cluster import KafkaCluster

AnyRequest = type[Request[Any]]


class Controls:
    """The levers of one cluster."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    # ------------------------------------------------------------------ brokers

    def crash_broker(self, broker_id: int, *, lose_unreplicated: bool = True) -> None:
        """Kill a broker: its connections are reset, its leaderships move to replicas in sync.

        With `lose_unreplicated` its logs end at its high watermarks afterwards, as if the rest had not
        reached the disk.
        """
        self._cluster.check()
        self._cluster.broker(broker_id).stop(crash=True, lose_unreplicated=lose_unreplicated)

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker in good order: its leaderships move first, nothing is lost."""
        self._cluster.check()
        self._cluster.broker(broker_id).stop(crash=False)

    def restart_broker(self, broker_id: int) -> None:
        """Start a broker again, on the same port and logs; it joins as a follower.  Stops it first if it
        runs.
        """
        self._cluster.check()
        broker = self._cluster.broker(broker_id)
        broker.stop(crash=False)
        broker.start()
        with self._cluster.lock:
            for other in self._cluster.brokers:
                other.fetchers.retry()

    # ------------------------------------------------------------------ partitions

    def move_leader(self, partition: TopicPartition | tuple[str, int], to: int) -> None:
        """Make another replica lead, with a new leader epoch; one that is not in sync loses what it lacks."""
        self._cluster.check()
        with self._cluster.lock:
            self._cluster.controller.move_leader(partition[0], partition[1], to)

    def pause_followers(
        self,
        partition: TopicPartition | tuple[str, int] | None = None,
        *,
        brokers: Iterable[int] | None = None,
    ) -> None:
        """Stop replication: of one partition or all, by some brokers or all.  What is under way still
        arrives.
        """
        chosen = self._cluster.brokers if brokers is None else [self._cluster.broker(one) for one in brokers]
        with self._cluster.lock:
            for broker in chosen:
                broker.fetchers.pause(None if partition is None else [(partition[0], partition[1])])

    def resume_followers(self) -> None:
        """All followers fetch again."""
        with self._cluster.lock:
            for broker in self._cluster.brokers:
                broker.fetchers.resume()

    # ------------------------------------------------------------------ coordinators

    def hold_loading(self, broker: int | None = None) -> None:
        """Let coordinators that are elected (on one broker or all) say COORDINATOR_LOAD_IN_PROGRESS until
        `release_loading`.
        """
        self._cluster.check()
        with self._cluster.lock:
            for one in self._cluster.brokers if broker is None else [self._cluster.broker(broker)]:
                one.coordinators.is_loading_held = True

    def release_loading(self) -> None:
        """Coordinators load their logs now."""
        self._cluster.check()
        with self._cluster.lock:
            for one in self._cluster.brokers:
                one.coordinators.is_loading_held = False
                one.wake()

    # ------------------------------------------------------------------ links between brokers

    def cut_link(self, source: int, target: int, *, one_way: bool = False) -> None:
        """Lose whatever two brokers say to each other (with `one_way`: what `source` says to `target`)."""
        self._check_link(source, target)
        with self._cluster.lock:
            self._cluster.links.cut(source, target)
            if not one_way:
                self._cluster.links.cut(target, source)

    def delay_link(self, source: int, target: int, seconds: float, *, one_way: bool = False) -> None:
        """Carry what two brokers say to each other that much later."""
        self._check_link(source, target)
        with self._cluster.lock:
            self._cluster.links.delay(source, target, seconds)
            if not one_way:
                self._cluster.links.delay(target, source, seconds)

    def heal(self) -> None:
        """Join all links, end all delays of links, let all followers fetch."""
        with self._cluster.lock:
            self._cluster.links.heal()
        self.resume_followers()

    def _check_link(self, source: int, target: int) -> None:
        self._cluster.check()
        self._cluster.broker(source)
        self._cluster.broker(target)
        if source == target:
            raise ConfigurationError("a link joins two brokers")

    # ------------------------------------------------------------------ answers to clients

    def fail_next(
        self,
        request: AnyRequest,
        error: type[BrokerError],
        times: int = 1,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
    ) -> FaultRule:
        """Answer the next requests of this API with an error, without acting on them."""
        return self._plant(Fault.REFUSE, request, times, topic, client_id, broker, error=error)

    def hold(
        self,
        request: AnyRequest,
        *,
        times: int = FOR_EVER,
        topic: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
    ) -> FaultRule:
        """Let requests of this API wait, unread, until `release`; others behind them on a connection wait
        too.
        """
        return self._plant(Fault.HOLD, request, times, topic, client_id, broker)

    def release(self, request: AnyRequest | None = None) -> None:
        """End `hold` (of one API): what was held is handled now."""
        with self._cluster.lock:
            self._cluster.faults.release(request)

    def held(self, request: AnyRequest | None = None) -> int:
        """How many requests are being held."""
        with self._cluster.lock:
            return self._cluster.faults.held(request)

    def delay(
        self,
        request: AnyRequest,
        seconds: float,
        *,
        times: int = FOR_EVER,
        topic: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
    ) -> FaultRule:
        """Handle requests of this API that much later."""
        return self._plant(Fault.DELAY, request, times, topic, client_id, broker, seconds=seconds)

    def lose_reply(
        self,
        request: AnyRequest,
        times: int = 1,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
    ) -> FaultRule:
        """Act on the request, then reset the connection instead of answering."""
        return self._plant(Fault.LOSE_REPLY, request, times, topic, client_id, broker)

    def disconnect_next(
        self,
        request: AnyRequest,
        times: int = 1,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
    ) -> FaultRule:
        """Reset the connection instead of acting on the request."""
        return self._plant(Fault.DISCONNECT, request, times, topic, client_id, broker)

    def throttle(
        self,
        client_id: str | None,
        request: AnyRequest | None,
        seconds: float,
        *,
        times: int = FOR_EVER,
    ) -> ThrottleRule:
        """Throttle a client's requests of one API (None: any client, any API), as when a quota is violated.

        The reply says throttle_time_ms at once, then the connection is not read for so long.
        """
        with self._cluster.lock:
            return self._cluster.throttles.add(client_id, request, seconds, times)

    def unthrottle(self, rule: ThrottleRule | None = None) -> None:
        """End one rule, or all; connections that are muted stay so until their time is up."""
        with self._cluster.lock:
            for known in [rule] if rule is not None else list(self._cluster.throttles.rules):
                self._cluster.throttles.remove(known)

    def clear(self) -> None:
        """Take back every planted fault and throttle, and release what is held."""
        self.unthrottle()
        with self._cluster.lock:
            self._cluster.faults.clear()

    def _plant(
        self,
        fault: Fault,
        request: AnyRequest,
        times: int,
        topic: str | None,
        client_id: str | None,
        broker: int | None,
        *,
        error: type[BrokerError] | None = None,
        seconds: float = 0.0,
    ) -> FaultRule:
        if times != FOR_EVER and times < 1:
            raise ConfigurationError(f"times={times}: say how often, from 1, or {FOR_EVER} for ever")
        rule = FaultRule(fault, request, times, error, seconds, topic, client_id, broker)
        with self._cluster.lock:
            return self._cluster.faults.add(rule)
