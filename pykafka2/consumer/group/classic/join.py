"""Joins and leaves a classic group: JoinGroup, SyncGroup and LeaveGroup requests with their retries.

The requests are sent by scripts (network/script.py) that membership.py runs on the driver's thread. Retriable
errors are retried with backoff within a script; other errors are raised and name the option to change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pykafka2.backoff import Backoff
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.assignors.assignor import Assignment
from pykafka2.consumer.assignors.wire_format import PROTOCOL_TYPE, read_assignment
from pykafka2.consumer.group.leave import LEAVE_ATTEMPTS, LeaveRequests
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.driver.pollable import Destination, PollResult, ToCoordinator, ToIdleConnection
from pykafka2.driver.runtime import Outcome
from pykafka2.driver.script_runner import ScriptRunner, call_to, forget_coordinator
from pykafka2.errors import (
    BrokerError,
    FencedInstanceId,
    GroupAuthorizationFailed,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
    UnsupportedVersion,
    error_of,
)
from pykafka2.logs import ClientLogger
from pykafka2.network.script import Script, wait
from pykafka2.protocol.messages.group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from pykafka2.slotted import slotted

# As in the Java client: the coordinator responds to JoinGroup shortly after the rebalance timeout at latest.
ANSWER_LAPSE = 5.0
MAX_REASON_CHARS = 255
FIRST_VERSION_WITH_MEMBERS = 3

Way = Callable[[], Destination | None]
Lead = Callable[[JoinGroupResponse], Script[list[SyncGroupRequestAssignment]]]


@slotted(frozen=True)
class JoinProtocols:
    """A member's topics and assignors for its JoinGroup, built on the caller's thread."""

    topics: frozenset[str]
    subscriptions: tuple[tuple[str, bytes], ...]
    """The name of each offered assignor and the encoded subscription for it; the preferred one first."""
    reason: str = ""


@slotted(frozen=True)
class Assigned:
    """The assignment of this member by the group leader."""

    assignor: str
    generation: int
    assignment: Assignment


class Watcher(Protocol):
    """An observer of the progress of a join."""

    def on_member_id(self, member_id: str) -> None: ...

    def on_joined(self, response: JoinGroupResponse) -> None: ...

    def on_forgotten(self) -> None: ...


def join_group(
    options: ConsumerOptions,
    protocols: JoinProtocols,
    member_id: str,
    first_wait: float,
    backoff: Backoff,
    watcher: Watcher,
    lead: Lead,
) -> Script[Assigned]:
    """Send JoinGroup and SyncGroup until this member has an assignment.

    Raises:
        RebalanceInProgress: after `on_joined`, if the group has started another rebalance.
    """
    if first_wait > 0:
        yield from wait(first_wait)
    while True:
        joined = yield from _join(options, protocols, member_id, backoff, watcher)
        watcher.on_joined(joined)
        is_leading = joined.leader == joined.member_id
        assignments = (yield from lead(joined)) if is_leading else []
        data = yield from _synchronise(options, joined, assignments, backoff)
        if data is not None:
            return Assigned(joined.protocol_name or "", joined.generation_id, read_assignment(data))
        member_id = joined.member_id
        watcher.on_forgotten()


def _join(
    options: ConsumerOptions, protocols: JoinProtocols, member_id: str, backoff: Backoff, watcher: Watcher
) -> Script[JoinGroupResponse]:
    while True:
        request = JoinGroupRequest(
            group_id=options.group_id or "",
            session_timeout_ms=int(options.session_timeout * 1000),
            rebalance_timeout_ms=int(options.max_poll_interval * 1000),
            member_id=member_id,
            group_instance_id=options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.subscriptions
            ],
            reason=protocols.reason[:MAX_REASON_CHARS],
        )
        try:
            response = yield from call_to(request, timeout=_timeout(options))
        except KafkaError as failure:
            if not failure.retriable:
                raise explained(failure, options) from failure
            yield from wait(backoff.next())
            continue
        if not response.error_code:
            backoff.reset()
            return response
        error = error_of(response.error_code)
        if isinstance(error, MemberIdRequired):
            # The id is assigned before the member joins: a lost response leaves no member behind (KIP-394).
            had_id, member_id = bool(member_id), response.member_id
            watcher.on_member_id(member_id)
            if had_id or not member_id:
                yield from wait(backoff.next())  # the coordinator has lost the id that it assigned
            continue
        yield from _wait_or_raise(error, options, backoff, and_retry=RebalanceInProgress)


def _synchronise(
    options: ConsumerOptions,
    joined: JoinGroupResponse,
    assignments: list[SyncGroupRequestAssignment],
    backoff: Backoff,
) -> Script[bytes | None]:
    """Send SyncGroup; return the assignment, or None if the new coordinator does not know this generation.

    A coordinator stores a generation only after its leader has assigned partitions. So after a failover the
    member is still in the generation before, keeps its partitions and rejoins, as in the Java client. A
    static member does not rejoin, because its group can be in a later generation.
    """
    # Whether another coordinator, without this generation, may handle the retry.
    is_other_coordinator_possible = False
    while True:
        request = SyncGroupRequest(
            group_id=options.group_id or "",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=options.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        try:
            response = yield from call_to(request, timeout=_timeout(options))
        except KafkaError as failure:
            if not failure.retriable:
                raise explained(failure, options) from failure
            is_other_coordinator_possible = options.group_instance_id is None
            yield from wait(backoff.next())
            continue
        if not response.error_code:
            backoff.reset()
            return bytes(response.assignment)
        error = error_of(response.error_code)
        if is_other_coordinator_possible and isinstance(error, IllegalGeneration):
            return None
        if error.refresh_coordinator:
            is_other_coordinator_possible = options.group_instance_id is None
        yield from _wait_or_raise(error, options, backoff)


def to_coordinator() -> None:
    """Send to the coordinator, over the connection that JoinGroup uses."""


def leave_group(
    options: ConsumerOptions,
    member_id: str,
    reason: str,
    attempts: int,
    backoff: Backoff,
    way: Way = to_coordinator,
) -> Script[None]:
    """Send LeaveGroup, so that the group need not wait for the session timeout; raise if that fails.

    `way` returns the destination of each attempt, until a broker responds that it is not the coordinator.
    """
    while True:
        attempts -= 1
        try:
            response = yield from _leave(options, member_id, reason, way())
        except KafkaError as failure:
            if not failure.retriable or not attempts:
                raise
            yield from wait(backoff.next())
            continue
        codes = [response.error_code, *(member.error_code for member in response.members)]
        error = next((error_of(code) for code in codes if code), None)
        if error is None or isinstance(error, UnknownMemberId):
            return
        if not attempts:
            raise error
        if error.refresh_coordinator:
            way = to_coordinator
        yield from _wait_or_raise(error, options, backoff)


def _leave(
    options: ConsumerOptions, member_id: str, reason: str, to: Destination | None
) -> Script[LeaveGroupResponse]:
    group_id = options.group_id or ""
    identity = MemberIdentity(
        member_id=member_id,
        group_instance_id=options.group_instance_id,
        reason=reason[:MAX_REASON_CHARS],
    )
    timeout = min(options.request_timeout, options.session_timeout)
    try:
        return (
            yield from call_to(LeaveGroupRequest(group_id=group_id, members=[identity]), to, timeout=timeout)
        )
    except UnsupportedVersion:
        # Brokers before 2.4 accept only a member id.
        request = LeaveGroupRequest(group_id=group_id, member_id=member_id)
        return (yield from call_to(request, to, timeout=timeout, version=FIRST_VERSION_WITH_MEMBERS - 1))


def _wait_or_raise(
    error: BrokerError,
    options: ConsumerOptions,
    backoff: Backoff,
    and_retry: type[KafkaError] | tuple[type[KafkaError], ...] = (),
) -> Script[None]:
    if not error.retriable and not isinstance(error, and_retry):
        raise explained(error, options)
    if error.refresh_coordinator:
        yield from forget_coordinator()
    yield from wait(backoff.next())


def _timeout(options: ConsumerOptions) -> float:
    return max(options.request_timeout, options.max_poll_interval + ANSWER_LAPSE)


def explained(error: KafkaError, options: ConsumerOptions) -> KafkaError:
    """Return the error with a message that names the setting and what to do, or the error itself."""
    group = f"group {options.group_id!r}"
    words: dict[type[KafkaError], str] = {
        GroupAuthorizationFailed: f"not authorized to use {group}; ask for an ACL that allows READ on it",
        InconsistentGroupProtocol: (
            f"the members of {group} have no assignor in common with this consumer's "
            f"partition_assignment_strategy ({_names(options)}), or it is not a group of consumers; add an "
            "assignor that the others use, or choose another group_id"
        ),
        GroupMaxSizeReached: (
            f"{group} has as many members as its coordinator allows (group.max.size); stop one, or raise it"
        ),
        InvalidSessionTimeout: (
            f"session_timeout_ms={options.session_timeout * 1000:.0f} is outside the range of the brokers "
            "(group.min.session.timeout.ms to group.max.session.timeout.ms); choose a value within it"
        ),
        InvalidGroupId: f"{group}: the brokers reject this group_id; it must not be empty",
        FencedInstanceId: (
            f"another consumer of {group} uses the same group_instance_id={options.group_instance_id!r} and "
            "replaced this one; close this one, and give each consumer a group_instance_id of its own"
        ),
        UnsupportedVersion: (
            f"the coordinator of {group} is too old: {error}; remove group_instance_id, or use brokers of "
            "2.3 or later"
        ),
    }
    message = words.get(type(error))
    return type(error)(message) if message is not None else error


def _names(options: ConsumerOptions) -> str:
    value = options.partition_assignment_strategy
    # The option can be a single name, class or object.
    strategies = value if isinstance(value, tuple) else (value,)
    return ", ".join(
        strategy.__name__ if isinstance(strategy, type) else str(getattr(strategy, "name", strategy))
        for strategy in strategies
    )


WARN_FROM = 3
"""Consecutive unfinished rebalances before a warning is logged."""

CURED_AT_ONCE = (RebalanceInProgress, UnknownMemberId, IllegalGeneration)
"""Errors after which the member rejoins without a backoff, the first time."""


class ClassicLeaveRequests(LeaveRequests):
    """The LeaveGroup requests of a member of a classic group, sent also while it rejoins."""

    def send(
        self,
        member_id: str,
        reason: str,
        done: Callable[[KafkaError | None], None],
        *,
        is_joining: bool,
    ) -> None:
        """Send LeaveGroup; `done(error)` is called after the response, or if the request failed."""
        if not member_id:
            done(None)  # it never was a member
            return
        options = self._options
        random = self._cluster.driver.entropy.random
        script = leave_group(
            options,
            member_id,
            reason,
            LEAVE_ATTEMPTS,
            Backoff(options.retry_backoff, options.retry_backoff_max, random),
            self._over_another_connection if is_joining else to_coordinator,
        )
        self.start(script, done)

    def _over_another_connection(self) -> Destination | None:
        """Return a connection without a JoinGroup in flight that LeaveGroup would wait behind."""
        node_id = self._cluster.coordinators.node_of(self._to)
        return None if node_id is None else ToIdleConnection(node_id)


class Joining:
    """The joins of one member, one at a time (a `Pollable`)."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        to: ToCoordinator,
        lead: Lead,
        new_backoff: Callable[[], Backoff],
    ) -> None:
        self.unfinished = 0
        """Consecutive rebalances that did not finish."""
        self._options = options
        self._driver = cluster.driver
        self._coordinators = cluster.coordinators
        self._to = to
        self._lead = lead
        self._new_backoff = new_backoff
        self._log = ClientLogger(__name__, options.client_id)
        self._runner: ScriptRunner[Assigned] | None = None
        self._backoff = new_backoff()
        self._not_before = 0.0

    @property
    def is_under_way(self) -> bool:
        return self._runner is not None

    def poll(self, now: float) -> PollResult:
        return PollResult.idle() if self._runner is None else self._runner.poll(now)

    def begin(
        self,
        protocols: JoinProtocols,
        member_id: str,
        watcher: Watcher,
        then: Callable[[Outcome[Assigned]], None],
        now: float,
    ) -> None:
        """Join as soon as the backoff is over; call `then(outcome)` unless the join is cancelled."""

        def on_end(outcome: Outcome[Assigned], now: float) -> None:
            if self._runner is runner:  # otherwise the member has left in the meantime
                self._runner = None
                self._note(outcome.error, now)
                then(outcome)

        script = join_group(
            self._options,
            protocols,
            member_id,
            self._not_before - now,
            self._new_backoff(),
            watcher,
            self._lead,
        )
        self._runner = runner = ScriptRunner(
            script,
            self._to,
            on_end,
            forget=self._coordinators.forget_answerer,
            offload=self._driver.offload,
        )

    def delay(self, until: float) -> None:
        """Do not join before `until`."""
        self._not_before = until

    def cancel(self, error: KafkaError, now: float) -> None:
        """Cancel the join in progress without calling its callback."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.cancel(error, now)

    def _note(self, error: BaseException | None, now: float) -> None:
        if error is None:
            self._backoff.reset()
            self._not_before = now
            self.unfinished = 0
            return
        self.unfinished += 1
        is_curable = isinstance(error, CURED_AT_ONCE) and self.unfinished == 1
        self._not_before = now if is_curable else now + self._backoff.next()
        if self.unfinished >= WARN_FROM:
            self._log.warning(
                "group %r: %d rebalances in a row did not finish; the last error: %s",
                self._options.group_id,
                self.unfinished,
                error,
            )
