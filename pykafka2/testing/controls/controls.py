"""Controls of a running cluster: `cluster.controls.crash_broker(1)`, `.cut_link(0, 2)`,
`.hold(FetchRequest)`.

The facade with the documentation of all controls; the modules of its parts implement them.  Every call has
taken effect when it returns.  Any thread except the cluster's own.
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
from pykafka2.testing.controls.quotas import QuotaControls
from pykafka2.testing.controls.replicas import ReplicaControls
from pykafka2.testing.controls.rules import AnyRequest, Match, Matching, RuleControls
from pykafka2.testing.controls.security import SecurityControls
from pykafka2.testing.running import Running
from pykafka2.types import TopicPartition


class Controls:
    """The controls of one cluster.  A misspelt name raises `AttributeError` that names the nearest."""

    def __init__(self, running: Running) -> None:
        self._brokers = BrokerControls(running)
        self._replicas = ReplicaControls(running)
        self._isr = IsrControls(running)
        self._controller = ControllerControls(running)
        self._links = LinkControls(running)
        self._rules = RuleControls(running)
        self._access = AccessControls(running)
        self._security = SecurityControls(running)
        self._quotas = QuotaControls(running)

    def reset(self) -> None:
        """End the effects of all controls: remove rules, throttles, quotas and ACLs, heal links, release
        all that is held, slowed or refused, start and resume brokers.  Moved leaders stay, and all records;
        `KafkaCluster.reset` also deletes topics.
        """
        self._rules.clear()
        self._controller.reset()
        self._links.heal()
        self._brokers.start_all()  # needs a controller and its links
        self._replicas.release_loading()
        self._security.accept_mechanisms()
        self._quotas.clear_quotas()
        if self._access.access_rules():
            self._access.revoke_access()

    # ------------------------------------------------------------------ brokers

    def crash_broker(
        self, broker_id: int, *, lose_unreplicated: bool = True, unnoticed: bool = False
    ) -> None:
        """Kill a broker: its connections are reset, and its leaderships move to replicas in sync.

        With `lose_unreplicated` its logs are truncated to its high watermarks, as if later records had not
        reached the disk.  With `unnoticed` the controller fences it only after the broker's session has timed
        out (broker.session.timeout.ms); if it was the controller, the others also elect only then.  By
        default all brokers are notified at once, which is faster than Kafka.
        """
        self._brokers.crash_broker(broker_id, lose_unreplicated=lose_unreplicated, unnoticed=unnoticed)

    def kill_broker(self, broker_id: int, *, keep_unflushed: bool = False) -> None:
        """Kill a broker like `crash_broker`, as a crash of its machine.  With `keep_unflushed` all records
        survive, as after kill -9.  Otherwise, with a data directory, exactly the records after each log's
        recovery point are lost, which the last flush has set (`flush_logs`); in memory, those above the high
        watermark that no `flush_logs` has covered.
        """
        self._brokers.kill_broker(broker_id, keep_unflushed=keep_unflushed)

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker cleanly: its leaderships move first, and nothing is lost."""
        self._brokers.stop_broker(broker_id)

    def restart_broker(self, broker_id: int) -> None:
        """Start a broker with the same port and logs; it joins as a follower.  Stop it first if it is
        running.
        """
        self._brokers.restart_broker(broker_id)

    def pause_broker(self, broker_id: int) -> None:
        """Pause a broker, as by SIGSTOP: connections stay open, but it neither responds nor fetches.  The
        controller gets no heartbeats from it and fences it after its session timeout.
        """
        self._brokers.pause_broker(broker_id)

    def resume_broker(self, broker_id: int) -> None:
        """Resume a paused broker; it handles received requests first, then newer metadata."""
        self._brokers.resume_broker(broker_id)

    # ------------------------------------------------------------------ partitions and coordinators

    def move_leader(
        self, partition: TopicPartition | tuple[str, int], to: int, *, unclean: bool = True
    ) -> None:
        """Make another replica the leader, with a new leader epoch; records that it lacks are lost.

        With unclean=False a replica that is not in sync is rejected with `IneligibleReplica`.
        """
        self._replicas.move_leader(partition, to, unclean=unclean)

    def roll_segments(self, partition: TopicPartition | tuple[str, int] | None = None) -> int:
        """Begin a new segment in each replica's log, of one partition or all, unless the last one is empty.
        Return the number of rolled logs.
        """
        return self._replicas.roll_segments(partition)

    def flush_logs(self, partition: TopicPartition | tuple[str, int] | None = None) -> None:
        """Force the logs of one partition or all to the disk now, on every replica, so that `kill_broker`
        loses none of their records.  Brokers flush by themselves when a segment is rolled, at a clean stop,
        and according to flush.messages and flush.ms.
        """
        self._replicas.flush_logs(partition)

    def apply_retention(self, partition: TopicPartition | tuple[str, int] | None = None) -> int:
        """Delete segments according to retention.ms and retention.bytes now, on every replica of one
        partition or all, without waiting for log.retention.check.interval.ms.  Return the number of deleted
        segments.
        """
        return self._replicas.apply_retention(partition)

    def compact(self, topic: str | TopicPartition | tuple[str, int], *, roll_segments: bool = True) -> int:
        """Compact a topic, or one partition, now, on every replica.  Return the number of removed records,
        counted on every replica.

        The log cleaner does the same in the background, depending on min.cleanable.dirty.ratio and
        log.cleaner.backoff.ms.  The active segment is never compacted, so it is rolled first, unless
        `roll_segments` is False.  Records of open transactions stay, and those younger than
        min.compaction.lag.ms.  Tombstones stay for delete.retention.ms after their first compaction; if that
        is 0, the next call removes them.  A follower compacts up to its own high watermark, which can be
        behind the leader's.  Raise `PolicyViolation` if cleanup.policy lacks "compact".
        """
        return self._replicas.compact(topic, roll_segments=roll_segments)

    def pause_followers(
        self,
        partition: TopicPartition | tuple[str, int] | None = None,
        *,
        brokers: Iterable[int] | None = None,
    ) -> None:
        """Stop replication: of one partition or all, by some brokers or all.  Responses in flight are lost
        and fetched again after `resume_followers`.
        """
        self._replicas.pause_followers(partition, brokers=brokers)

    def resume_followers(self) -> None:
        """Resume replication by all followers."""
        self._replicas.resume_followers()

    def move_coordinator(self, key: str, to: int, kind: str = "group", *, unclean: bool = True) -> None:
        """Move the coordinator of a group (with kind="transaction" of a transactional id), and of all others
        in its partition of the internal topic.  Waiting clients get NOT_COORDINATOR.  The cluster's
        `coordinator(key)` returns the current coordinator.
        """
        self._replicas.move_coordinator(key, to, kind, unclean=unclean)

    def hold_loading(self, broker: int | None = None) -> None:
        """Make newly elected coordinators (on one broker or all) respond COORDINATOR_LOAD_IN_PROGRESS until
        `release_loading`.
        """
        self._replicas.hold_loading(broker)

    def release_loading(self) -> None:
        """Let coordinators load their logs."""
        self._replicas.release_loading()

    # ------------------------------------------------------------------ who is in sync

    def shrink_isr(self, partition: TopicPartition | tuple[str, int], *brokers: int) -> None:
        """Remove these followers from the ISR, and stop their fetches of the partition, so that they stay out
        until `expand_isr` or `resume_followers`.
        """
        self._isr.shrink_isr(partition, *brokers)

    def expand_isr(self, partition: TopicPartition | tuple[str, int], *brokers: int) -> None:
        """Let these followers fetch the partition, and wait until they are back in the ISR."""
        self._isr.expand_isr(partition, *brokers)

    # ------------------------------------------------------------------ the controller

    def move_controller(self, to: int) -> None:
        """Make another broker the controller, in a new controller epoch."""
        self._controller.move_controller(to)

    def hold_elections(self) -> None:
        """Prevent the election of a controller until `release_elections`: if the present controller fails,
        the cluster has none.
        """
        self._controller.hold_elections()

    def release_elections(self) -> None:
        """End `hold_elections`; if the controller is known to have failed, another is elected at once."""
        self._controller.release_elections()

    def slow_controller(self, seconds: float, times: int = 1) -> None:
        """Delay each of the controller's next changes by this time; later changes wait."""
        self._controller.slow_controller(seconds, times)

    def delay_metadata(self, broker_id: int, seconds: float) -> None:
        """Delay a broker's metadata updates; 0 ends it.  Updates in flight keep their delay."""
        self._controller.delay_metadata(broker_id, seconds)

    def hold_metadata(self, broker_id: int) -> None:
        """Hold all metadata updates of a broker until `release_metadata`."""
        self._controller.hold_metadata(broker_id)

    def release_metadata(self, broker_id: int | None = None) -> None:
        """End holding and delays of metadata, of one broker or all; held updates are applied at once."""
        self._controller.release_metadata(broker_id)

    # ------------------------------------------------------------------ links of brokers and clients

    def cut_link(self, source: int, target: int, *, one_way: bool = False) -> None:
        """Drop all messages between two brokers (with `one_way` only those from `source` to `target`)."""
        self._links.cut_link(source, target, one_way=one_way)

    def delay_link(self, source: int, target: int, seconds: float, *, one_way: bool = False) -> None:
        """Delay messages between two brokers; 0 ends it."""
        self._links.delay_link(source, target, seconds, one_way=one_way)

    def throttle_link(
        self, source: int, target: int, bytes_per_second: float | None, *, one_way: bool = False
    ) -> None:
        """Limit the bytes per second in each direction; None ends it."""
        self._links.throttle_link(source, target, bytes_per_second, one_way=one_way)

    def heal(self) -> None:
        """Restore all links, including those of clients, resume all followers, and send all brokers the
        current metadata.
        """
        self._links.heal()

    def cut_client(self, client_id: str, broker: int | None = None, *, silently: bool = False) -> None:
        """Disconnect a client from a broker, or from all, until `heal`: its connections are reset, and new
        ones at their first request.

        `silently`: connections stay open without responses, as if packets were lost.  Requests in flight are
        still handled, but their responses are lost.
        """
        self._links.cut_client(client_id, broker, silently=silently)

    def delay_client(self, client_id: str, seconds: float, broker: int | None = None) -> None:
        """Delay a client's requests and responses; 0 ends it."""
        self._links.delay_client(client_id, seconds, broker)

    def throttle_client(
        self, client_id: str, bytes_per_second: float | None, broker: int | None = None
    ) -> None:
        """Limit the bytes per second to and from a client; None ends it."""
        self._links.throttle_client(client_id, bytes_per_second, broker)

    # ------------------------------------------------------------------ requests and answers

    def rule(self, *, then: str | type[BrokerError] | None = None, **matching: Unpack[Matching]) -> FaultRule:
        """Add a rule; the arguments are those of `FaultRule`, and `then` can be an error class.

        Return the rule, which counts in `.fired`.  Raise `ConfigurationError` without `then`, or for a
        misspelt api, key, action or error; the message names the nearest.
        """
        return self._rules.rule(then=then, **matching)

    def add_rule(self, rule: FaultRule | Mapping[str, Any]) -> FaultRule:
        """Add a `FaultRule`, or a rule from a mapping, such as JSON."""
        return self._rules.add_rule(rule)

    def rules(self) -> list[FaultRule]:
        """Rules added since the last `clear`, including spent ones: see `seen`, `fired` and `is_spent`."""
        return self._rules.rules()

    def remove_rule(self, rule: FaultRule | int) -> None:
        """Remove a rule (or the rule with this id) and release the requests that it holds."""
        self._rules.remove_rule(rule)

    def clear(self) -> None:
        """Remove all rules and throttles, and release held requests."""
        self._rules.clear()

    def throttle(
        self,
        client_id: str | None,
        request: AnyRequest | None,
        seconds: float,
        *,
        times: int = FOR_EVER,
    ) -> ThrottleRule:
        """Throttle a client's requests of one API (None: any client, any API), as after a quota violation.

        The response with throttle_time_ms is immediate; then the connection is not read for that time.
        """
        return self._rules.throttle(client_id, request, seconds, times=times)

    def throttles(self) -> list[ThrottleRule]:
        """Throttles added since the last `unthrottle()` or `clear`, including spent ones: see `fired`."""
        return self._rules.throttles()

    def unthrottle(self, rule: ThrottleRule | int | None = None) -> None:
        """Remove one throttle (or the one with this id), or all.  Muted connections stay muted until their
        throttle time is over.
        """
        self._rules.unthrottle(rule)

    def set_quota(
        self,
        *,
        user: str | None = None,
        client_id: str | None = None,
        ip: str | None = None,
        **quotas: float | None,
    ) -> None:
        """Set quotas: `set_quota(client_id="app", producer_byte_rate=1_000_000)`.  A user, a client id, or
        both can have `producer_byte_rate`, `consumer_byte_rate`, `request_percentage` and
        `controller_mutation_rate`, an IP address `connection_creation_rate`.  None removes a quota.

        The name `"<default>"` means all users, client ids or addresses without a quota of their own.  Quotas
        that are not named stay.  Raise `ConfigurationError` for other names and for illegal values.
        """
        self._quotas.set_quota(user, client_id, ip, quotas)

    def quotas(self) -> list[dict[str, Any]]:
        """Return all quotas: [{"client_id": "app", "quotas": {"producer_byte_rate": 1000000.0}}]."""
        return self._quotas.quotas()

    def clear_quotas(self) -> None:
        """Remove all quotas.  Muted connections stay muted until their throttle time is over."""
        self._quotas.clear_quotas()

    def hold(self, request: AnyRequest, *, times: int = FOR_EVER, **match: Unpack[Match]) -> FaultRule:
        """Hold requests of this API unhandled until `release`.  Later requests on the same connection also
        wait.
        """
        return self._rules.hold(request, times=times, **match)

    def release(self, request: AnyRequest | None = None) -> None:
        """End `hold` (of one API): held requests are handled now, and late frames of `replay` arrive."""
        self._rules.release(request)

    def held(self, request: AnyRequest | None = None) -> int:
        """Return the number of held requests."""
        return self._rules.held(request)

    def fail_next(
        self, request: AnyRequest, error: type[BrokerError], times: int = 1, **match: Unpack[Match]
    ) -> FaultRule:
        """Respond to the next requests of this API with an error, without handling them."""
        return self._rules.fail_next(request, error, times, **match)

    def delay(
        self, request: AnyRequest, seconds: float, *, times: int = FOR_EVER, **match: Unpack[Match]
    ) -> FaultRule:
        """Delay the handling of requests of this API."""
        return self._rules.delay(request, seconds, times=times, **match)

    def lose_reply(self, request: AnyRequest, times: int = 1, **match: Unpack[Match]) -> FaultRule:
        """Handle the request, then reset the connection instead of responding."""
        return self._rules.lose_reply(request, times, **match)

    def disconnect_next(self, request: AnyRequest, times: int = 1, **match: Unpack[Match]) -> FaultRule:
        """Reset the connection instead of handling the request."""
        return self._rules.disconnect_next(request, times, **match)

    # ------------------------------------------------------------------ access rules (see cluster.acls)

    def allow_access(self, principal: str, *operations: str, **resource: Unpack[Resource]) -> None:
        """Allow operations on a resource: `allow_access("User:ann", "READ", topic="orders")`."""
        self._access.allow_access(principal, *operations, **resource)

    def deny_access(self, principal: str, *operations: str, **resource: Unpack[Resource]) -> None:
        """Deny operations on a resource, even if another rule allows them."""
        self._access.deny_access(principal, *operations, **resource)

    def revoke_access(
        self, principal: str | None = None, *operations: str, **resource: Unpack[Resource]
    ) -> int:
        """Remove rules: of this principal (None: all), for these operations (none: all), on this resource
        (none: all).  Return the number of removed rules.
        """
        return self._access.revoke_access(principal, *operations, **resource)

    def access_rules(self) -> list[dict[str, str]]:
        """Return every rule: permission, principal, host, operation, resource_type, resource, pattern."""
        return self._access.access_rules()

    # ------------------------------------------------------------------ who is let in

    def add_user(self, user: str, password: str, mechanisms: Sequence[str] | None = None) -> None:
        """Add a user with this password, for PLAIN and both SCRAM mechanisms or only these; replace the
        password of an existing user.  Open sessions continue.
        """
        self._security.add_user(user, password, mechanisms)

    def remove_user(self, user: str) -> None:
        """Remove a user's passwords for all mechanisms.  Open sessions continue (see `expire_sessions`).
        Raise `ResourceNotFound` for an unknown user.
        """
        self._security.remove_user(user)

    def refuse_mechanism(self, mechanism: str) -> None:
        """Disable a SASL mechanism on all listeners, until `allow_mechanism`."""
        self._security.refuse_mechanism(mechanism)

    def allow_mechanism(self, mechanism: str | None = None) -> None:
        """Enable a SASL mechanism (None: all) on the listeners that were configured with it."""
        self._security.allow_mechanism(mechanism)

    def expire_sessions(self, user: str | None = None) -> int:
        """Expire the sessions of a user, or all.  Return their number.  A client that has not
        re-authenticated before its next request is disconnected (KIP-368).
        """
        return self._security.expire_sessions(user)

    def reload_certificates(self) -> None:
        """Make brokers read the files of their certificates and of the trusted authorities again,
        for new connections; `KafkaCluster.rotate_certificates` also creates new ones.
        """
        self._security.reload_certificates()

    if not TYPE_CHECKING:  # type checkers must report misspelt names

        def __getattr__(self, name: str) -> NoReturn:
            """Called only for unknown names."""
            known = [word for word in dir(type(self)) if not word.startswith("_")]
            raise AttributeError(f"Unknown control {name!r}{nearest(name, known)}")
