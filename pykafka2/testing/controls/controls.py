"""What a test can do to a running cluster: `cluster.controls.crash_broker(1)`, `.cut_link(0, 2)`,
`.hold(FetchRequest)`.

The facade of all controls, with what each promises; how they do it is in the modules of its parts.  Every
call has taken effect when it returns.  Any thread but the cluster's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from pykafka2.broker.config.keys import nearest
from pykafka2.broker.faults.rule import FOR_EVER, FaultRule
from pykafka2.broker.faults.throttle import ThrottleRule
from pykafka2.errors import BrokerError
from pykafka2.testing.controls.access import AccessControls, Resource
from pykafka2.testing.controls.brokers import BrokerControls
from pykafka2.testing.controls.controller import ControllerControls
from pykafka2.testing.controls.isr import IsrControls
from pykafka2.testing.controls.links import LinkControls
from pykafka2.testing.controls.replicas import ReplicaControls
from pykafka2.testing.controls.rules import AnyRequest, Match, Matching, RuleControls
from pykafka2.testing.controls.security import SecurityControls
from pykafka2.testing.running import Running
from pykafka2.types import TopicPartition


class Controls:
    """The controls of one cluster.  A misspelt one raises `AttributeError` that names the nearest."""

    def __init__(self, running: Running) -> None:
        self._brokers = BrokerControls(running)
        self._replicas = ReplicaControls(running)
        self._isr = IsrControls(running)
        self._controller = ControllerControls(running)
        self._links = LinkControls(running)
        self._rules = RuleControls(running)
        self._access = AccessControls(running)
        self._security = SecurityControls(running)

    # ------------------------------------------------------------------ brokers

    def crash_broker(
        self, broker_id: int, *, lose_unreplicated: bool = True, unnoticed: bool = False
    ) -> None:
        """Kill a broker: its connections are reset, its leaderships move to replicas in sync.

        With `lose_unreplicated` its logs end at its high watermarks afterwards, as if the rest had not
        reached the disk.  With `unnoticed` the controller learns of it only when the broker's session has
        ended (broker.session.timeout.ms), and the others miss it only then if it was the controller; by
        default everybody knows at once, which is faster than Kafka.
        """
        self._brokers.crash_broker(broker_id, lose_unreplicated=lose_unreplicated, unnoticed=unnoticed)

    def kill_broker(self, broker_id: int, *, keep_unflushed: bool = False) -> None:
        """As `crash_broker`: with `keep_unflushed` everything was on disk, else what was not replicated is
        lost.
        """
        self._brokers.kill_broker(broker_id, keep_unflushed=keep_unflushed)

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker in good order: its leaderships move first, nothing is lost."""
        self._brokers.stop_broker(broker_id)

    def restart_broker(self, broker_id: int) -> None:
        """Start a broker again, on the same port and logs; it joins as a follower.  Stops it first if it
        runs.
        """
        self._brokers.restart_broker(broker_id)

    def pause_broker(self, broker_id: int) -> None:
        """Let a broker stand still, as by SIGSTOP: connections stay open, nothing is answered, fetched or
        said to the controller, which fences it when its session has ended.
        """
        self._brokers.pause_broker(broker_id)

    def resume_broker(self, broker_id: int) -> None:
        """Let a paused broker go on; what has come meanwhile is handled first, newer metadata comes later."""
        self._brokers.resume_broker(broker_id)

    # ------------------------------------------------------------------ partitions and coordinators

    def move_leader(
        self, partition: TopicPartition | tuple[str, int], to: int, *, unclean: bool = True
    ) -> None:
        """Make another replica lead, with a new leader epoch; what it lacks is lost if it is not in sync.

        With unclean=False such a one is refused, `IneligibleReplica`.
        """
        self._replicas.move_leader(partition, to, unclean=unclean)

    def roll_segments(self, partition: TopicPartition | tuple[str, int] | None = None) -> int:
        """Begin a new segment in every replica's log, of one partition or all; how many logs were rolled.

        Logs whose last segment is empty stay as they are.
        """
        return self._replicas.roll_segments(partition)

    def apply_retention(self, partition: TopicPartition | tuple[str, int] | None = None) -> int:
        """Delete the segments that retention.ms and retention.bytes let go, on every replica of one partition
        or all, without waiting for log.retention.check.interval.ms; how many segments went.
        """
        return self._replicas.apply_retention(partition)

    def pause_followers(
        self,
        partition: TopicPartition | tuple[str, int] | None = None,
        *,
        brokers: Iterable[int] | None = None,
    ) -> None:
        """Stop replication: of one partition or all, by some brokers or all.  What is under way is lost; it
        is fetched again after `resume_followers`.
        """
        self._replicas.pause_followers(partition, brokers=brokers)

    def resume_followers(self) -> None:
        """All followers fetch again."""
        self._replicas.resume_followers()

    def move_coordinator(self, key: str, to: int, kind: str = "group", *, unclean: bool = True) -> None:
        """Have another broker coordinate a group (with kind="transaction" a transactional id), and all others
        of its partition of the internal topic.  Who waits there is told NOT_COORDINATOR.  The cluster's
        `coordinator(key)` says who it is now.
        """
        self._replicas.move_coordinator(key, to, kind, unclean=unclean)

    def hold_loading(self, broker: int | None = None) -> None:
        """Let coordinators that are elected (on one broker or all) say COORDINATOR_LOAD_IN_PROGRESS until
        `release_loading`.
        """
        self._replicas.hold_loading(broker)

    def release_loading(self) -> None:
        """Coordinators load their logs now."""
        self._replicas.release_loading()

    # ------------------------------------------------------------------ who is in sync

    def shrink_isr(self, partition: TopicPartition | tuple[str, int], *brokers: int) -> None:
        """Have the leader drop these followers from the ISR now, and stop them fetching the partition, so
        that they stay out until `expand_isr` or `resume_followers`.
        """
        self._isr.shrink_isr(partition, *brokers)

    def expand_isr(self, partition: TopicPartition | tuple[str, int], *brokers: int) -> None:
        """Let these followers fetch the partition, and wait until they have caught up and are in the ISR."""
        self._isr.expand_isr(partition, *brokers)

    # ------------------------------------------------------------------ the controller

    def move_controller(self, to: int) -> None:
        """Make another broker the controller, in a new controller epoch."""
        self._controller.move_controller(to)

    def hold_elections(self) -> None:
        """Let no broker become the controller until `release_elections`: with the present one gone, the
        cluster is without.
        """
        self._controller.hold_elections()

    def release_elections(self) -> None:
        """End `hold_elections`; if the controller is known to be gone, another is elected at once."""
        self._controller.release_elections()

    def slow_controller(self, seconds: float, times: int = 1) -> None:
        """Let each of the controller's next changes take that long; those behind it wait."""
        self._controller.slow_controller(seconds, times)

    def delay_metadata(self, broker_id: int, seconds: float) -> None:
        """Let a broker learn of changes that much later; 0 ends it.  What is under way keeps its time."""
        self._controller.delay_metadata(broker_id, seconds)

    def hold_metadata(self, broker_id: int) -> None:
        """Let a broker learn of no change until `release_metadata`."""
        self._controller.hold_metadata(broker_id)

    def release_metadata(self, broker_id: int | None = None) -> None:
        """End holding and delays of metadata, to one broker or all; what they lack they learn now."""
        self._controller.release_metadata(broker_id)

    # ------------------------------------------------------------------ links of brokers and clients

    def cut_link(self, source: int, target: int, *, one_way: bool = False) -> None:
        """Lose whatever two brokers say to each other (with `one_way`: what `source` says to `target`)."""
        self._links.cut_link(source, target, one_way=one_way)

    def delay_link(self, source: int, target: int, seconds: float, *, one_way: bool = False) -> None:
        """Carry what two brokers say to each other that much later; 0 ends it."""
        self._links.delay_link(source, target, seconds, one_way=one_way)

    def throttle_link(
        self, source: int, target: int, bytes_per_second: float | None, *, one_way: bool = False
    ) -> None:
        """Carry at most so many bytes a second each way; None ends it."""
        self._links.throttle_link(source, target, bytes_per_second, one_way=one_way)

    def heal(self) -> None:
        """Make every link what it was at first, those of clients too, let all followers fetch, and tell
        every broker what it lacks of the metadata.
        """
        self._links.heal()

    def cut_client(self, client_id: str, broker: int | None = None, *, silently: bool = False) -> None:
        """Cut a client off from a broker, or from all, until `heal`: its connections are reset, and new
        ones at their first request.

        `silently`: connections stay open and nothing is answered, as when packets are lost.  What was under
        way then is acted upon, but its answer is lost.
        """
        self._links.cut_client(client_id, broker, silently=silently)

    def delay_client(self, client_id: str, seconds: float, broker: int | None = None) -> None:
        """Carry a client's requests, and the answers to it, that much later; 0 ends it."""
        self._links.delay_client(client_id, seconds, broker)

    def throttle_client(
        self, client_id: str, bytes_per_second: float | None, broker: int | None = None
    ) -> None:
        """Carry at most so many bytes a second to a client, and from it; None ends it."""
        self._links.throttle_client(client_id, bytes_per_second, broker)

    # ------------------------------------------------------------------ requests and answers

    def rule(self, *, then: str | type[BrokerError] | None = None, **matching: Unpack[Matching]) -> FaultRule:
        """Plant a rule; the arguments are those of `FaultRule`, and `then` may be an error's class.

        Returns the rule: `.fired` counts.  Raises `ConfigurationError` naming the nearest word for a
        misspelt api, key, action or error, and without `then`.
        """
        return self._rules.rule(then=then, **matching)

    def add_rule(self, rule: FaultRule | Mapping[str, Any]) -> FaultRule:
        """Plant a rule that was made before, or one from a mapping, such as JSON."""
        return self._rules.add_rule(rule)

    def rules(self) -> list[FaultRule]:
        """Those planted since the last `clear`, spent ones included: see `seen`, `fired` and `is_spent`."""
        return self._rules.rules()

    def remove_rule(self, rule: FaultRule | int) -> None:
        """Take back a rule (or the one with this id); what it holds goes on."""
        self._rules.remove_rule(rule)

    def clear(self) -> None:
        """Take back every rule and throttle, and release what is held."""
        self._rules.clear()

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
        return self._rules.throttle(client_id, request, seconds, times=times)

    def throttles(self) -> list[ThrottleRule]:
        """Those planted since the last `unthrottle()` or `clear`, spent ones included: see `fired`."""
        return self._rules.throttles()

    def unthrottle(self, rule: ThrottleRule | int | None = None) -> None:
        """End one rule (or the one with this id), or all; connections that are muted stay so until their time
        is up.
        """
        self._rules.unthrottle(rule)

    def hold(self, request: AnyRequest, *, times: int = FOR_EVER, **match: Unpack[Match]) -> FaultRule:
        """Let requests of this API wait, unread, until `release`; others behind them on a connection wait
        too.
        """
        return self._rules.hold(request, times=times, **match)

    def release(self, request: AnyRequest | None = None) -> None:
        """End `hold` (of one API): what was held is handled now, and late frames of `replay` arrive."""
        self._rules.release(request)

    def held(self, request: AnyRequest | None = None) -> int:
        """How many requests are being held."""
        return self._rules.held(request)

    def fail_next(
        self, request: AnyRequest, error: type[BrokerError], times: int = 1, **match: Unpack[Match]
    ) -> FaultRule:
        """Answer the next requests of this API with an error, without acting on them."""
        return self._rules.fail_next(request, error, times, **match)

    def delay(
        self, request: AnyRequest, seconds: float, *, times: int = FOR_EVER, **match: Unpack[Match]
    ) -> FaultRule:
        """Handle requests of this API that much later."""
        return self._rules.delay(request, seconds, times=times, **match)

    def lose_reply(self, request: AnyRequest, times: int = 1, **match: Unpack[Match]) -> FaultRule:
        """Act on the request, then reset the connection instead of answering."""
        return self._rules.lose_reply(request, times, **match)

    def disconnect_next(self, request: AnyRequest, times: int = 1, **match: Unpack[Match]) -> FaultRule:
        """Reset the connection instead of acting on the request."""
        return self._rules.disconnect_next(request, times, **match)

    # ------------------------------------------------------------------ access rules (see cluster.acls)

    def allow_access(self, principal: str, *operations: str, **resource: Unpack[Resource]) -> None:
        """Let a principal do this to a resource: `allow_access("User:ann", "READ", topic="orders")`."""
        self._access.allow_access(principal, *operations, **resource)

    def deny_access(self, principal: str, *operations: str, **resource: Unpack[Resource]) -> None:
        """Keep a principal from doing this, whatever allows it."""
        self._access.deny_access(principal, *operations, **resource)

    def revoke_access(
        self, principal: str | None = None, *operations: str, **resource: Unpack[Resource]
    ) -> int:
        """Take back rules: of this principal (None: of all), for these operations (none: for all), on this
        resource (none: on all); how many went.
        """
        return self._access.revoke_access(principal, *operations, **resource)

    def access_rules(self) -> list[dict[str, str]]:
        """Every rule: permission, principal, host, operation, resource_type, resource, pattern."""
        return self._access.access_rules()

    # ------------------------------------------------------------------ who is let in

    def add_user(self, user: str, password: str, mechanisms: Sequence[str] | None = None) -> None:
        """Let a user log in with this password from now on, by PLAIN and both SCRAM mechanisms or by these
        alone; one that is there gets another password.  Sessions go on.
        """
        self._security.add_user(user, password, mechanisms)

    def remove_user(self, user: str) -> None:
        """Let a user log in no more, by any mechanism with passwords.  Sessions go on (see
        `expire_sessions`).  Raises `ResourceNotFound` if there is none.
        """
        self._security.remove_user(user)

    def refuse_mechanism(self, mechanism: str) -> None:
        """Have no listener offer a SASL mechanism, until `allow_mechanism`."""
        self._security.refuse_mechanism(mechanism)

    def allow_mechanism(self, mechanism: str | None = None) -> None:
        """Offer a SASL mechanism (None: all) wherever it was configured."""
        self._security.allow_mechanism(mechanism)

    def expire_sessions(self, user: str | None = None) -> int:
        """End the sessions of a user, or all, now; how many there were.  A client that has not authenticated
        again by its next request loses its connection (KIP-368).
        """
        return self._security.expire_sessions(user)

    def reload_certificates(self) -> None:
        """Have brokers read their certificates again, for new connections; `KafkaCluster.rotate_certificates`
        also makes new ones.
        """
        self._security.reload_certificates()

    if not TYPE_CHECKING:  # checkers shall see misspelt names too

        def __getattr__(self, name: str) -> NoReturn:
            """Only reached for names that there are not."""
            known = [word for word in dir(type(self)) if not word.startswith("_")]
            raise AttributeError(f"there is no control {name!r}{nearest(name, known)}")
