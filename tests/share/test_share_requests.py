"""The requests of share consumers in virtual time: fetches, renewals, acknowledgements and heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Set
from itertools import islice
from types import NoneType
from typing import Any

import pytest

from pykafka2 import AcknowledgeType, ConsumerInterceptor, KafkaShareConsumer, ShareRecord, TopicPartition
from pykafka2.admin import ConfigResource
from pykafka2.aio import KafkaShareConsumer as AioShareConsumer
from pykafka2.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    IllegalState,
    InvalidRecordState,
    KafkaError,
    KafkaTimeoutError,
    NotLeaderOrFollower,
    RequestTimedOut,
    ShareSessionNotFound,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnknownTopicId,
)
from pykafka2.protocol.messages.share_fetch import (
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponseLeaderIdAndEpoch,
    ShareAcknowledgeResponsePartitionData,
    ShareAcknowledgeTopicResponse,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
    ShareFetchResponseLeaderIdAndEpoch,
    ShareFetchResponsePartitionData,
)
from pykafka2.share.lock import LockState
from pykafka2.share.node_session import FINAL_EPOCH
from pykafka2.testing import Simulation
from tests.admin.worlds import World
from tests.broker.share.live import SMALL

pytestmark = pytest.mark.gate

LOCKED = 4.0
"""Seconds that a record is locked."""
LEAVE = -1
EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
CONFIG = {
    **SMALL,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": int(LOCKED * 1000),
    "group.share.heartbeat.interval.ms": 15000,
}
"""Heartbeats come so seldom that nothing is in time only because of one."""

Record = ShareRecord[Any, Any]


class Committed(ConsumerInterceptor):
    """Notes the offsets of acknowledgements."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def on_acknowledgement_commit(
        self, offsets: Mapping[TopicPartition, Set[int]], error: BaseException | None, seconds: float
    ) -> None:
        for some in offsets.values():
            self.offsets += some


class Interrupted(ConsumerInterceptor):
    """Has a Ctrl-C in its first on_consume."""

    def __init__(self) -> None:
        self.interrupts = [KeyboardInterrupt()]

    def on_consume(self, records: Any) -> Any:
        if self.interrupts:
            raise self.interrupts.pop()
        return records


class Queue(World):
    """Two topics on two brokers, and members of the group "g", which reads from the earliest offset."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation, config=CONFIG, topics={"jobs": 2, "mails": 2})
        self.admin.alter_configs({ConfigResource("GROUP", "g"): {"share.auto.offset.reset": "earliest"}})

    def share_member(self, *topics: str, name: str = "one", **options: Any) -> KafkaShareConsumer[Any, Any]:
        return KafkaShareConsumer(
            *(topics or ("jobs", "mails")),
            bootstrap_servers=self.cluster.bootstrap_servers,
            group_id="g",
            client_id=name,
            runtime=self.simulation.runtime.at(name),
            **options,
        )

    def requests(self, api: str) -> list[Any]:
        return [entry.request for entry in self.cluster.history.entries(api)]

    def states(self, topic: str) -> dict[int, str]:
        """Return the states of the records that the leader tracks, by offset."""
        view = self.cluster.share_partition("g", (topic, 0))
        return {offset: view.records[offset].state for offset in view.records}


@pytest.fixture
def queue(simulation: Simulation) -> Iterator[Queue]:
    queue = Queue(simulation)
    yield queue
    queue.close()


def taken(member: KafkaShareConsumer[Any, Any], count: int, limit: int | None = None) -> list[Record]:
    """Poll until so many records have arrived."""
    found: list[Record] = []
    for _ in range(200):
        found += [record for records in member.poll(1000, limit).values() for record in records]
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} records arrived. {member.explain()}")


# ---------------------------------------------------------------------- fetches


@pytest.mark.parametrize(
    ("options", "seconds", "is_ahead"),
    [({}, 0.0, True), ({}, 0.2, False), ({"share_acquire_mode": "record_limit"}, 0.0, False)],
)
def test_only_quick_applications_fetch_ahead_and_such_a_fetch_does_not_wait(
    queue: Queue, options: dict[str, Any], seconds: float, is_ahead: bool
) -> None:
    queue.fill("jobs", [40])
    with queue.share_member("jobs", max_poll_records=5, **options) as member:
        count = 0
        while count < 40:
            count += len(taken(member, 1))
            queue.simulation.sleep(seconds)
        waits = [request.max_wait_ms for request in queue.requests("ShareFetch")]
    assert waits[:4] == [500] * 4
    assert (0 in waits) is is_ahead


def test_poll_that_has_timed_out_acquires_no_later_records(queue: Queue) -> None:
    with queue.share_member() as member:
        assert not member.poll(20_000)
        queue.simulation.sleep(1)
        queue.fill("jobs", [3])
        queue.simulation.sleep(3)
        assert "ACQUIRED" not in queue.states("jobs").values()
        assert len(taken(member, 3)) == 3


def test_partitions_of_a_former_subscription_are_forgotten_and_acknowledged(queue: Queue) -> None:
    queue.fill("jobs", [1, 1])
    queue.fill("mails", [1, 1])
    with queue.share_member(**EXPLICIT) as member:
        records = taken(member, 4)
        member.subscribe("jobs")
        assert not member.poll(1000)
        queue.cluster.history.clear()
        queue.fill("mails", [1, 1])
        for record in records:
            member.acknowledge(record)
        assert not member.poll(1000)
        assert set(member.commit().values()) <= {None}
        assert "ACQUIRED" not in queue.states("mails").values()
        fetches = queue.requests("ShareFetch")
        assert len(fetches) >= 2
        assert [request.topics for request in fetches] == [[]] * len(fetches)


def test_timed_out_commit_reports_partitions_without_a_confirmation(queue: Queue) -> None:
    queue.fill("jobs", [1])
    with queue.share_member("jobs", **EXPLICIT) as member:
        (record,) = taken(member, 1)
        queue.cluster.controls.hold("ShareAcknowledge")
        member.acknowledge(record)
        (error,) = member.commit(1000).values()
        assert isinstance(error, KafkaTimeoutError)
        queue.cluster.controls.release()
        assert set(member.commit().values()) <= {None}


def test_failed_acknowledgement_in_a_fetch_is_reported(queue: Queue) -> None:
    queue.fill("jobs", [2])
    results: list[tuple[set[int], KafkaError | None]] = []
    with queue.share_member("jobs", **EXPLICIT) as member:
        member.set_acknowledgement_commit_callback(
            lambda offsets, error: results.extend((some, error) for some in offsets.values())
        )
        first, _ = taken(member, 2)
        queue.simulation.sleep(1)  # the end of the fetch, which would acquire them again
        queue.cluster.controls.expire_locks("g")
        member.acknowledge(first)
        assert len(taken(member, 2)) == 2
        member.commit()
        assert [(some, type(error)) for some, error in results] == [({0}, InvalidRecordState)]
        assert queue.requests("ShareAcknowledge") == []
        assert member.metrics()["acknowledgements-error-total"] == 1


def test_renewals_are_never_sent_in_a_fetch(queue: Queue) -> None:
    queue.fill("jobs", [2])
    with queue.share_member("jobs", **EXPLICIT) as member:
        for record in taken(member, 2):
            member.acknowledge(record, AcknowledgeType.RENEW)
        assert not member.poll(1000)
        (request,) = queue.requests("ShareAcknowledge")
        assert request.is_renew_ack
        assert queue.states("jobs") == dict.fromkeys(range(2), "ACQUIRED")


@pytest.mark.parametrize("max_records", [1, 2])
def test_records_of_a_lost_session_that_poll_has_not_returned_are_dropped(
    queue: Queue, max_records: int
) -> None:
    queue.fill("jobs", [5])
    with queue.share_member("jobs", **EXPLICIT) as member:
        record = taken(member, max_records, max_records)[0]
        assert member.health()["buffered_records"] == 5 - max_records
        queue.simulation.sleep(1)
        queue.cluster.controls.fail_next("ShareAcknowledge", ShareSessionNotFound)
        member.acknowledge(record)
        assert isinstance(member.commit()["jobs", 0], ShareSessionNotFound)
        assert member.health()["buffered_records"] == 0
        assert len(taken(member, 5)) == 5


def test_session_that_the_broker_does_not_know_is_opened_at_once_but_not_twice(queue: Queue) -> None:
    queue.fill("jobs", [1])
    with queue.share_member("jobs", **EXPLICIT) as member:
        session = member._core.sessions.nodes[member._core.delivery_of(taken(member, 1)[0]).node_id]
        queue.simulation.sleep(1)
        now, waits = queue.simulation.now, []
        for _ in range(2):
            session._not_before = 0.0
            session._on_failure(ShareSessionNotFound("gone"), now)
            waits.append(session._not_before > now)
        assert waits == [False, True]


def test_commit_after_an_interrupted_one_is_sent_at_once(queue: Queue) -> None:
    queue.fill("jobs", [1])
    with queue.share_member("jobs", **EXPLICIT) as member:
        member.acknowledge(taken(member, 1)[0])
        queue.simulation.sleep(1)
        member._core.locks.flush(accepts=False)  # a Ctrl-C has ended the call before it woke the driver
        before = queue.simulation.now
        assert member.commit() == {("jobs", 0): None}
        assert queue.simulation.now - before < 1


def test_returned_records_do_not_count_as_buffered(queue: Queue) -> None:
    queue.fill("jobs", [3])
    with queue.share_member("jobs", **EXPLICIT) as member:
        for remaining in (2, 1, 0):
            taken(member, 1, 1)
            assert member.health()["buffered_records"] == remaining
        assert "poll() has not returned" not in member.explain()


# ---------------------------------------------------------------------- renewals


def test_block_that_begins_late_is_renewed_at_once(queue: Queue) -> None:
    queue.fill("jobs", [1])
    with queue.share_member("jobs", **EXPLICIT) as member:
        (record,) = taken(member, 1)
        queue.simulation.sleep(0.7 * LOCKED)
        with record:
            queue.simulation.sleep(1.1 * LOCKED)
        assert set(member.commit().values()) <= {None}
        assert member.health()["locks_lost"] == 0
        assert member.health()["locks_renewed"] == 3


@pytest.mark.parametrize(("max_renew_ms", "renewals"), [(0, 0), (1.2 * LOCKED * 1000, 2)])
def test_locks_are_renewed_up_to_the_bound_and_then_expire(
    queue: Queue, max_renew_ms: float, renewals: int
) -> None:
    queue.fill("jobs", [1])
    with queue.share_member("jobs", max_renew_ms=max_renew_ms, **EXPLICIT) as member:
        (record,) = taken(member, 1)
        with record:
            queue.simulation.sleep(5 * LOCKED)
            assert member.health()["locks_renewed"] == renewals
            assert queue.states("jobs")[0] != "ACQUIRED"


def test_end_of_a_block_sends_its_acknowledgement_without_a_poll(queue: Queue) -> None:
    queue.fill("jobs", [2])
    with queue.share_member("jobs", **EXPLICIT) as member:
        records = taken(member, 2)
        queue.simulation.sleep(1)  # no fetch is in flight, after which the acknowledgements would be sent
        for record in records:
            with record:
                pass
        queue.simulation.sleep(1)
        assert queue.states("jobs") == {}


# ---------------------------------------------------------------------- iterations and implicit mode


def test_commit_in_an_iteration_accepts_only_the_records_that_it_has_returned(queue: Queue) -> None:
    queue.fill("jobs", [5])
    with queue.share_member("jobs") as member:
        iteration = iter(member)
        assert [next(iteration).offset, next(iteration).offset] == [0, 1]
        assert member.commit() == {("jobs", 0): None}
        assert queue.states("jobs") == dict.fromkeys((2, 3, 4), "ACQUIRED")
        assert next(iteration).offset == 2
        (left,) = member.poll(1000).values()  # accepts 2, and returns what the iteration has left
        assert [record.offset for record in left] == [3, 4]
        queue.simulation.sleep(1)
        assert queue.states("jobs") == dict.fromkeys((3, 4), "ACQUIRED")
        assert member.commit() == {("jobs", 0): None}
        assert queue.states("jobs") == {}


def test_iteration_in_explicit_mode_accepts_nothing_by_itself(queue: Queue) -> None:
    queue.fill("jobs", [3])
    with queue.share_member("jobs", **EXPLICIT) as member:
        assert len([*islice(member, 3)]) == 3
        assert member.commit() == {}
        assert {*queue.states("jobs").values()} == {"ACQUIRED"}


def test_acknowledge_is_refused_in_implicit_mode_and_for_records_of_another_consumer(queue: Queue) -> None:
    queue.fill("jobs", [1])
    queue.fill("mails", [1])
    with queue.share_member("jobs") as one, queue.share_member("mails", name="two", **EXPLICIT) as two:
        (record,) = taken(one, 1)
        (other,) = taken(two, 1)
        with pytest.raises(IllegalState, match="share_acknowledgement_mode='explicit'"):
            one.acknowledge(record)
        with pytest.raises(IllegalState, match="not returned by this consumer"):
            two.acknowledge(record)
        two.acknowledge(other)


def test_wakeup_ends_one_poll_also_a_pending_one(queue: Queue) -> None:
    queue.fill("jobs", [1])
    with queue.share_member("jobs", fetch_max_wait_ms=20_000) as member:
        member.wakeup()
        assert member.poll(60_000) == {}
        assert len(taken(member, 1)) == 1
        begin = queue.simulation.now
        queue.simulation.spawn(lambda: (queue.simulation.sleep(5), member.wakeup()))
        assert member.poll(60_000) == {}
        assert queue.simulation.now - begin < 6


# ---------------------------------------------------------------------- membership


def test_waiting_poll_keeps_the_membership_and_a_pause_ends_it_until_the_next_poll(queue: Queue) -> None:
    with queue.share_member("jobs", max_poll_interval_ms=3000) as member:
        assert not member.poll(40_000)
        assert LEAVE not in [request.member_epoch for request in queue.requests("ShareGroupHeartbeat")]
        queue.simulation.sleep(5)
        assert LEAVE in [request.member_epoch for request in queue.requests("ShareGroupHeartbeat")]
        assert member.health()["group"]["state"] == "unsubscribed"
        assert "It is not a member of share group 'g'; the next poll() joins it." in member.explain()
        assert queue.admin.describe_share_groups(["g"])["g"].members == ()
        queue.fill("jobs", [1])
        assert len(taken(member, 1)) == 1


@pytest.mark.parametrize("error", [UnknownMemberId, FencedMemberEpoch])
def test_expelled_member_joins_again(queue: Queue, error: type[BrokerError]) -> None:
    queue.fill("jobs", [1])
    with queue.share_member("jobs", client_rack="a") as member:
        assert len(taken(member, 1)) == 1
        member.commit()
        rule = queue.cluster.controls.fail_next("ShareGroupHeartbeat", error)
        queue.cluster.controls.fail_next("ShareGroupHeartbeat", CoordinatorLoadInProgress, times=3)
        while not rule.fired:
            queue.simulation.sleep(0.1)
        assert member.health()["group"]["assigned"] == []
        queue.fill("jobs", [1])
        assert len(taken(member, 1)) == 1
        joins = [one for one in queue.requests("ShareGroupHeartbeat") if one.member_epoch == 0]
        assert [(one.rack_id, one.subscribed_topic_names) for one in joins] == [("a", ["jobs"])] * 5


def test_rejected_member_raises_once_and_joins_with_the_next_poll(queue: Queue) -> None:
    queue.fill("jobs", [1])
    queue.cluster.controls.fail_next("ShareGroupHeartbeat", GroupAuthorizationFailed)
    with queue.share_member("jobs") as member:
        with pytest.raises(GroupAuthorizationFailed):
            member.poll(60_000)
        assert len(taken(member, 1)) == 1
        queue.cluster.controls.fail_next("ShareFetch", GroupAuthorizationFailed)
        with pytest.raises(GroupAuthorizationFailed):
            member.poll(60_000)
        queue.fill("jobs", [1])
        assert len(taken(member, 1)) >= 1


# ---------------------------------------------------------------------- callbacks, hooks and the close


def test_callbacks_get_each_result_also_those_of_the_close_and_cannot_end_a_call(queue: Queue) -> None:
    queue.fill("jobs", [2])
    seen: list[int] = []

    def callback(offsets: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
        seen.extend(offsets["jobs", 0])  # type: ignore[index]
        raise ValueError("a bug of the application")

    with queue.share_member("jobs", **EXPLICIT) as member:
        member.set_acknowledgement_commit_callback(callback)
        first, second = taken(member, 2)
        member.acknowledge(first)
        assert member.commit() == {("jobs", 0): None}
        assert seen == [0]
        member.acknowledge(second)
    assert seen == [0, 1]


def test_hook_of_acknowledgements_is_called_without_a_callback(queue: Queue) -> None:
    hooks = Committed()
    queue.fill("jobs", [1])
    with queue.share_member("jobs", interceptors=[hooks], **EXPLICIT) as member:
        member.set_acknowledgement_commit_callback(lambda offsets, error: None)
        member.set_acknowledgement_commit_callback(None)
        with taken(member, 1)[0]:
            pass
        member.commit()
    assert hooks.offsets == [0]


def test_records_of_an_interrupted_on_consume_are_returned_by_the_next_poll(queue: Queue) -> None:
    hooks = Interrupted()
    queue.fill("jobs", [3])
    with queue.share_member("jobs", interceptors=[hooks], **EXPLICIT) as member:
        with pytest.raises(KeyboardInterrupt):
            taken(member, 3)
        assert [(record.offset, record.delivery_count) for record in taken(member, 3)] == [
            (offset, 1) for offset in range(3)
        ]


def test_close_ends_the_session_with_each_broker(queue: Queue) -> None:
    queue.fill("jobs", [1, 1])
    with queue.share_member("jobs", **EXPLICIT) as member:
        taken(member, 2)
    last = {entry.broker: entry.request for entry in queue.cluster.history.entries("ShareAcknowledge")}
    assert [request.share_session_epoch for request in last.values()] == [FINAL_EPOCH] * 2


def test_iteration_leaves_out_queued_records_with_expired_locks(queue: Queue) -> None:
    queue.fill("jobs", [3])
    with queue.share_member("jobs") as member:
        iteration = iter(member)
        assert next(iteration).offset == 0
        queue.simulation.sleep(1.1 * LOCKED)
        assert [(one.offset, one.delivery_count) for one in islice(iteration, 3)] == [(0, 2), (1, 2), (2, 2)]


def test_topic_without_access_is_raised_for_each_metadata_response_until_it_is_granted(queue: Queue) -> None:
    """It requests the metadata again: otherwise the error would stay for metadata_max_age_ms."""

    def refused(request: Any, response: Any) -> Any:
        for topic in response.topics:
            topic.error_code = TopicAuthorizationFailed.code
        return response

    queue.fill("jobs", [1])
    queue.cluster.controls.rule(api="Metadata", then="replace_reply", reply=refused)
    with queue.share_member("jobs") as member:
        for _ in range(3):
            began_at = queue.simulation.now
            with pytest.raises(TopicAuthorizationFailed):
                member.poll(60_000)
            assert queue.simulation.now - began_at < 5, "it is raised at once"
        queue.cluster.controls.clear()
        assert member.poll(60_000)


def test_failing_fetches_are_repeated_with_a_backoff(queue: Queue) -> None:
    queue.fill("jobs", [1])
    with queue.share_member("jobs", retry_backoff_ms=100, retry_backoff_max_ms=1000) as member:
        rule = queue.cluster.controls.rule(api="ShareFetch", then=CoordinatorLoadInProgress)
        assert not member.poll(40_000)
        assert 10 < len(queue.requests("ShareFetch")) < 120
        assert "CoordinatorLoadInProgress" in str(member.health()["brokers"]) or rule.fired
        queue.cluster.controls.clear()
        assert len(taken(member, 1)) == 1


# ---------------------------------------------------------------------- states of sessions


ACKNOWLEDGED: list[tuple[type[BrokerError] | None, bool, bool]] = [
    (None, False, False),
    (InvalidRecordState, False, False),
    (NotLeaderOrFollower, False, False),
    (UnknownTopicId, False, False),
    (CoordinatorLoadInProgress, False, True),
    (RequestTimedOut, False, True),
    (RequestTimedOut, True, False),
]
"""The error of an acknowledgement, whether its lock has expired, and whether it is sent again."""


def test_failed_acknowledgements_are_repeated_while_the_lock_lasts_if_the_error_passes(queue: Queue) -> None:
    queue.fill("jobs", [len(ACKNOWLEDGED)])
    with queue.share_member("jobs", **EXPLICIT) as member:
        records = taken(member, len(ACKNOWLEDGED))
        queue.simulation.sleep(1)
        core, now = member._core, queue.simulation.now
        session = core.sessions.nodes[core.delivery_of(records[0]).node_id]
        for record, (error, is_expired, is_repeated) in zip(records, ACKNOWLEDGED, strict=True):
            member.acknowledge(record)
            core.locks.flush(accepts=False)
            (lock,) = core.locks.take_ready(session.node_id)
            session._acknowledge([lock], [], now)
            if is_expired:
                lock.until = now
            session._not_before = 0.0
            part = ShareAcknowledgeResponsePartitionData(
                partition_index=0,
                error_code=0 if error is None else error.code,
                current_leader=ShareAcknowledgeResponseLeaderIdAndEpoch(),
            )
            topic = ShareAcknowledgeTopicResponse(topic_id=lock.place[0], partitions=[part])
            response = ShareAcknowledgeResponse(responses=[topic], node_endpoints=[])
            session._on_acknowledged([lock], [], response, now)
            assert (lock.state is LockState.READY) is is_repeated, error
            assert is_repeated is False or session._not_before > now
            assert isinstance(lock.error, NoneType if error is None or is_repeated else error)
            core.locks.take_ready(session.node_id)


def test_partition_error_of_a_fetch_has_a_backoff_and_is_raised_if_it_is_final(queue: Queue) -> None:
    queue.fill("jobs", [1])
    with queue.share_member("jobs", **EXPLICIT) as member:
        node_id = member._core.delivery_of(taken(member, 1)[0]).node_id
        queue.simulation.sleep(1)
        sessions, now = member._core.sessions, queue.simulation.now
        for error in (NotLeaderOrFollower, TopicAuthorizationFailed):
            session = sessions.nodes[node_id]
            (place,) = session._known
            part = ShareFetchResponsePartitionData(
                partition_index=place[1],
                error_code=error.code,
                acknowledge_error_code=0,
                current_leader=ShareFetchResponseLeaderIdAndEpoch(leader_id=-1, leader_epoch=-1),
                records=b"",
                acquired_records=[],
            )
            topic = ShareFetchableTopicResponse(topic_id=place[0], partitions=[part])
            response = ShareFetchResponse(acquisition_lock_timeout_ms=0, responses=[topic], node_endpoints=[])
            session._not_before = 0.0
            session._on_fetched([], response, now)
            assert session._known == set()
            assert session._not_before > now
            session._known = {place}
            assert "jobs-0: the last fetch failed: " in member.explain()
            part.error_code = 0
            session._on_fetched([], response, now)
            assert "jobs-0: the last fetch failed: " not in member.explain()
        with pytest.raises(TopicAuthorizationFailed):
            member.poll(0)
        assert sessions.context.lock_timeout == LOCKED


def test_renewals_and_record_limit_need_brokers_that_have_them(queue: Queue) -> None:
    queue.fill("jobs", [1])
    with queue.share_member("jobs", share_acquire_mode="record_limit", **EXPLICIT) as member:
        (record,) = taken(member, 1)
        queue.simulation.sleep(1)
        core, now = member._core, queue.simulation.now
        session = core.sessions.nodes[core.delivery_of(record).node_id]
        lock = core.locks.split(core.delivery_of(record), [record.offset])
        assert session._acknowledge([], [lock], now).min_version == 2
        lock.type = AcknowledgeType.RENEW
        assert session._acknowledge([lock], [], now).min_version == 2
        lock.type = AcknowledgeType.ACCEPT
        assert session._acknowledge([lock], [], now).min_version is None
        assert session._fetch(set(), [], now).min_version == 2
        session.in_flight = ""


def test_health_has_the_oldest_lock_the_first_to_expire_and_the_longest_block(queue: Queue) -> None:
    with queue.share_member("jobs", **EXPLICIT) as member:
        assert not member.poll(20_000)
        queue.fill("jobs", [1])
        assert len(taken(member, 1)) == 1
        queue.simulation.sleep(1)
        queue.fill("jobs", [2])
        new = taken(member, 2)
        begin = queue.simulation.now
        with new[0]:
            queue.simulation.sleep(0.5)
            with new[1]:
                queue.simulation.sleep(0.25)
                of = member.health()["locks"]["jobs-0"]
                words = member.explain()
        assert (of["oldest_offset"], of["held"], of["handled"]) == (0, 3, 2)
        assert of["longest_handled"] == pytest.approx(queue.simulation.now - begin, abs=0.01)
        assert of["oldest_age"] == pytest.approx(1.75, abs=0.3)
        assert of["expires_in"] == pytest.approx(LOCKED - of["oldest_age"], abs=0.01)
        assert "jobs-0 (node " in words
        assert (
            "3 not acknowledged (2 in a `with` block, for 0.8 s at most); the oldest, offset 0, was" in words
        )


# ---------------------------------------------------------------------- asyncio


def test_asyncio_iteration_accepts_a_record_with_its_next_step_and_calls_the_callback(queue: Queue) -> None:
    queue.fill("jobs", [4])
    seen: list[int] = []

    async def program() -> None:
        async with AioShareConsumer(
            "jobs",
            bootstrap_servers=queue.cluster.bootstrap_servers,
            group_id="g",
            runtime=queue.simulation.runtime.at("one"),
        ) as member:
            member.set_acknowledgement_commit_callback(lambda offsets, error: seen.extend(*offsets.values()))
            iteration = aiter(member)
            assert (await anext(iteration)).offset == 0
            await asyncio.sleep(1)  # no fetch is in flight, after which acknowledgements would be sent
            assert [(await anext(iteration)).offset for _ in range(2)] == [1, 2]
            await asyncio.sleep(1)
            assert queue.states("jobs") == dict.fromkeys((2, 3), "ACQUIRED")
            assert (await anext(iteration)).offset == 3
            assert set((await member.commit()).values()) == {None}
            assert seen == [0, 1, 2]

    queue.simulation.run(program)


def test_asyncio_handlers_of_three_lock_durations_keep_their_records(queue: Queue) -> None:
    queue.fill("jobs", [2])
    handled: list[int] = []

    async def handle(member: AioShareConsumer[Any, Any]) -> None:
        async for record in member:
            async with record:
                handled.append(record.offset)
                await asyncio.sleep(3.2 * LOCKED)
            return

    async def program() -> None:
        async with AioShareConsumer(
            "jobs",
            bootstrap_servers=queue.cluster.bootstrap_servers,
            group_id="g",
            runtime=queue.simulation.runtime.at("one"),
            max_poll_records=1,
            **EXPLICIT,
        ) as member:
            await asyncio.gather(handle(member), handle(member))
            assert set((await member.commit()).values()) <= {None}
            assert sorted(handled) == [0, 1]
            assert member.health()["locks_renewed"] >= 2 * 6
            assert member.health()["locks_lost"] == 0
            assert not await member.poll(1500 * LOCKED)

    queue.simulation.run(program)
    assert queue.states("jobs") == {}


def test_asyncio_polls_of_two_tasks_run_one_after_the_other(queue: Queue) -> None:
    async def program() -> None:
        async with AioShareConsumer(
            "jobs",
            bootstrap_servers=queue.cluster.bootstrap_servers,
            group_id="g",
            runtime=queue.simulation.runtime.at("one"),
            **EXPLICIT,
        ) as member:
            begin = queue.simulation.now
            await asyncio.gather(member.poll(5000), member.poll(5000))
            assert queue.simulation.now - begin >= 10

    queue.simulation.run(program)
