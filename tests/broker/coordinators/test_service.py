"""A broker's coordinators: requests are split by partition, and their responses are merged."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest

from pykafka2 import errors
from pykafka2.broker.coordinators.groups.service import GroupCoordinator
from pykafka2.broker.coordinators.internal_topics import partition_for
from pykafka2.broker.coordinators.refusals import append_error_code
from pykafka2.broker.coordinators.replay import Caller, Producer
from pykafka2.broker.coordinators.settings import GroupSettings, TopicTable, TransactionSettings
from pykafka2.broker.coordinators.transactions.service import TransactionCoordinator
from pykafka2.errors import InvalidRegularExpression
from pykafka2.protocol.messages import (
    committed_offsets,
    consumer_group,
    group_admin,
    transaction,
    transaction_admin,
)
from pykafka2.protocol.messages import group as messages
from pykafka2.protocol.struct import Request
from tests.broker.support.bench import TOPIC_TABLE, commit_code, commit_request, fetch_all_request
from tests.broker.support.memory_log import MemoryLog
from tests.error_codes import COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR

PARTITIONS = 5


def wall_ms(now: float) -> int:
    return round(now * 1000)


class Broker:
    """A broker that leads some partitions of both internal topics."""

    def __init__(self) -> None:
        numbers = count(1)
        self.groups = GroupCoordinator(GroupSettings(), PARTITIONS, wall_ms, lambda: str(next(numbers)))
        self.transactions = TransactionCoordinator(
            TransactionSettings(), PARTITIONS, wall_ms, lambda: next(numbers), PARTITIONS
        )
        self.logs = {partition: MemoryLog() for partition in range(PARTITIONS)}
        self.groups.on_topics(TOPIC_TABLE, 0.0)
        self.transactions.on_topics(TOPIC_TABLE)

    @classmethod
    def of_all_partitions(cls) -> Broker:
        broker = cls()
        broker.lead(*range(PARTITIONS))
        return broker

    def lead(self, *partitions: int) -> None:
        for partition in partitions:
            log = self.logs[partition]
            self.groups.elect(partition, log)
            self.groups.load(partition, log.entries, len(log.entries), 0.0)
            log = MemoryLog()
            self.transactions.elect(partition, 1, log)
            self.transactions.load(partition, log.entries, 0, 0.0)

    def ask(self, request: Request[Any], version: int | None = None) -> Any:
        version = request.MAX_VERSION if version is None else version
        is_for_groups = request.API_KEY not in (22, 24, 25, 26, 65, 66)
        service = self.groups if is_for_groups else self.transactions
        deferred = service.submit(Caller(version), request, 0.0)
        assert deferred.response is not None
        deferred.response.encode(version)
        return deferred.response


NAMES = [f"group-{n}" for n in range(12)]


def test_group_is_served_only_by_the_leader_of_its_partition() -> None:
    broker = Broker()
    broker.lead(0, 1)
    for name in NAMES:
        led = partition_for(name, PARTITIONS) in (0, 1)
        assert commit_code(broker.ask(commit_request(name), 9)) == (0 if led else NOT_COORDINATOR)


def test_coordinator_between_election_and_loading_responds_load_in_progress() -> None:
    broker = Broker()
    for partition in range(PARTITIONS):
        broker.groups.elect(partition, broker.logs[partition])
    assert commit_code(broker.ask(commit_request("g"), 9)) == COORDINATOR_LOAD_IN_PROGRESS


def test_service_reports_an_earlier_due_time_and_no_later_one() -> None:
    broker = Broker.of_all_partitions()
    reported: list[float] = []
    broker.groups.on_due = lambda: reported.append(broker.groups.due)
    for name in NAMES[:2]:
        broker.ask(commit_request(name), 9)
    before = broker.groups.due
    assert reported == []
    join = messages.JoinGroupRequest(
        group_id=NAMES[0],
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[messages.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    broker.groups.submit(Caller(3), join, 0.0)
    assert reported == [broker.groups.due]
    assert broker.groups.due < before


def test_group_moves_with_the_leadership_of_its_partition() -> None:
    broker, other = Broker(), Broker()
    broker.lead(*range(PARTITIONS))
    broker.ask(commit_request("g", 8), 9)
    other.logs = broker.logs
    partition = partition_for("g", PARTITIONS)
    broker.groups.resign(partition)
    assert commit_code(broker.ask(commit_request("g"), 9)) == NOT_COORDINATOR
    other.lead(partition)
    fetched = other.ask(fetch_all_request("g"), 9)
    assert fetched.groups[0].topics[0].partitions[0].committed_offset == 8


def test_each_group_of_a_request_is_handled_by_its_own_partition() -> None:
    broker = Broker()
    broker.lead(0, 1, 2, 3)
    for name in NAMES:
        broker.ask(commit_request(name), 9)
    away = [name for name in NAMES if partition_for(name, PARTITIONS) == 4]
    assert away
    expected = [(name, NOT_COORDINATOR if name in away else 0) for name in NAMES]
    described = broker.ask(group_admin.DescribeGroupsRequest(groups=NAMES))
    assert [(one.group_id, one.error_code) for one in described.groups] == expected
    fetched = broker.ask(fetch_all_request(*NAMES), 9)
    assert [(one.group_id, one.error_code) for one in fetched.groups] == expected
    listed = broker.ask(group_admin.ListGroupsRequest())
    assert sorted(one.group_id for one in listed.groups) == sorted(set(NAMES) - set(away))
    unknown = consumer_group.ConsumerGroupDescribeRequest(
        group_ids=NAMES[:3], include_authorized_operations=False
    )
    assert len(broker.ask(unknown).groups) == 3
    deleted = broker.ask(group_admin.DeleteGroupsRequest(groups_names=[*NAMES, NAMES[0]]))
    assert [(one.group_id, one.error_code) for one in deleted.results] == expected
    assert broker.ask(group_admin.ListGroupsRequest()).groups == []


def test_merged_response_waits_for_its_slowest_partition() -> None:
    broker = Broker.of_all_partitions()
    slow, partition = NAMES[0], partition_for(NAMES[0], PARTITIONS)
    fast = next(name for name in NAMES if partition_for(name, PARTITIONS) != partition)
    broker.logs[partition].commits_at_once = False
    broker.groups.submit(Caller(9), commit_request(slow), 0.0)
    pending = broker.groups.submit(Caller(6), group_admin.DescribeGroupsRequest(groups=[slow, fast]), 0.0)
    assert not pending.is_done
    broker.groups.on_high_watermark(partition, 1)
    response: Any = pending.response
    assert [one.group_id for one in response.groups] == [slow, fast]


def test_empty_requests_get_empty_responses() -> None:
    broker = Broker()
    assert broker.ask(group_admin.DescribeGroupsRequest(groups=[])).groups == []
    assert broker.ask(group_admin.ListGroupsRequest()).groups == []
    broker.groups.elect(0, broker.logs[0])
    assert broker.ask(group_admin.ListGroupsRequest()).error_code == COORDINATOR_LOAD_IN_PROGRESS


def test_time_high_watermarks_and_topics_reach_all_partitions() -> None:
    broker = Broker.of_all_partitions()
    name = "g"
    partition = partition_for(name, PARTITIONS)
    broker.logs[partition].commits_at_once = False
    waiting = broker.groups.submit(Caller(9), commit_request(name), 0.0)
    assert waiting.response is None
    assert broker.groups.poll(0.0) == 5.0
    broker.groups.on_high_watermark(partition, 1)
    assert waiting.is_done
    broker.groups.on_high_watermark(99, 1)
    broker.groups.on_topics(TopicTable({}), 1.0)
    assert broker.groups.shards[partition].offsets.committed == {}
    assert broker.groups.poll(5.0) == 600.0


def test_topic_that_was_deleted_and_created_again_in_one_change_loses_its_offsets() -> None:
    broker = Broker.of_all_partitions()
    broker.ask(commit_request("g", 1), 9)
    shard = broker.groups.shards[partition_for("g", PARTITIONS)]
    assert shard.offsets.committed["g"]
    broker.groups.on_topics(TopicTable({"orders": (bytes([7]) * 16, 6)}), 1.0)
    assert shard.offsets.committed == {}


def test_transaction_uses_both_coordinators() -> None:
    broker = Broker.of_all_partitions()
    broker.ask(commit_request("g", 1), 9)
    (producer,) = begin(broker, ["t"])
    joined = broker.ask(
        transaction.AddOffsetsToTxnRequest(
            transactional_id="t", producer_id=producer.id, producer_epoch=0, group_id="g"
        )
    )
    assert joined.error_code == 0
    committed = broker.ask(
        transaction.TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            producer_id=producer.id,
            producer_epoch=0,
            topics=[
                transaction.TxnOffsetCommitRequestTopic(
                    name="orders",
                    partitions=[
                        transaction.TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=9, committed_metadata=""
                        )
                    ],
                )
            ],
        ),
        5,
    )
    assert committed.topics[0].partitions[0].error_code == 0
    end = transaction.EndTxnRequest(
        transactional_id="t", producer_id=producer.id, producer_epoch=0, committed=True
    )
    assert broker.ask(end).error_code == 0
    (markers,) = broker.transactions.take_markers()
    assert broker.transactions.take_markers() == []
    ((topic, partition),) = markers.partitions
    assert topic == "__consumer_offsets"
    assert partition == partition_for("g", PARTITIONS)
    end_offset = broker.logs[partition].append_marker(producer, markers.committed)
    broker.groups.on_marker(partition, producer, markers.committed, end_offset, 0.0)
    broker.transactions.marker_written(markers, (topic, partition), 0, 0.0)
    shard = broker.groups.shards[partition]
    assert shard.offsets.committed["g"]["orders", 0].offset == 9
    states = broker.ask(transaction_admin.ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
    assert [one.transaction_state for one in states.transaction_states] == ["CompleteCommit"]


def test_transactions_of_many_producers_in_one_request() -> None:
    broker = Broker.of_all_partitions()
    names = [f"t{n}" for n in range(6)]
    producers = [producer.id for producer in begin(broker, names)]
    assert len(set(producers)) == 6
    added = broker.ask(
        transaction.AddPartitionsToTxnRequest(
            transactions=[
                transaction.AddPartitionsToTxnTransaction(
                    transactional_id=name,
                    producer_id=producer,
                    producer_epoch=0,
                    topics=[transaction.AddPartitionsToTxnTopic(name="orders", partitions=[0])],
                )
                for name, producer in zip(names, producers, strict=True)
            ]
        )
    )
    assert [one.transactional_id for one in added.results_by_transaction] == names
    described = broker.ask(transaction_admin.DescribeTransactionsRequest(transactional_ids=names))
    assert {one.transaction_state for one in described.transaction_states} == {"Ongoing"}
    unknown = transaction_admin.ListTransactionsRequest(state_filters=["Open"], producer_id_filters=[])
    assert broker.ask(unknown).unknown_state_filters == ["Open"]
    plain = transaction.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    assert broker.ask(plain, 5).error_code == 0


def test_pattern_of_list_transactions_is_matched_over_all_partitions() -> None:
    broker = Broker.of_all_partitions()
    begin(broker, ["order-1", "order-2", "other"])
    assert listed(broker, "order-.*") == (0, {"order-1", "order-2"})
    assert listed(broker, "order-") == (0, set())
    assert listed(broker, "") == (0, {"order-1", "order-2", "other"})
    assert listed(broker, "(") == (InvalidRegularExpression.code, set())


def test_pattern_steps_are_limited_for_all_partitions_together() -> None:
    """The transactional ids of each partition alone would take less than the limit."""
    broker = Broker.of_all_partitions()
    random = Random(1)
    names = ["".join(random.choices("abcd", k=600)) for _ in range(PARTITIONS)]
    begin(broker, names[:1])
    assert listed(broker, ".*a.{300}") == (0, {name for name in names[:1] if name[-301] == "a"})
    begin(broker, names[1:])
    assert listed(broker, ".*a.{300}") == (InvalidRegularExpression.code, set())


def test_list_transactions_by_a_pattern_reports_unknown_states_and_a_partition_that_loads() -> None:
    broker = Broker()
    broker.lead(0)
    request = transaction_admin.ListTransactionsRequest(
        state_filters=["Open"], producer_id_filters=[], transactional_id_pattern="a"
    )
    assert broker.ask(request).unknown_state_filters == ["Open"]
    broker.transactions.elect(1, 1, MemoryLog())
    assert broker.ask(request).error_code == COORDINATOR_LOAD_IN_PROGRESS


def begin(broker: Broker, names: list[str]) -> list[Producer]:
    """Return a producer for each transactional id."""
    requests = [
        transaction.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        for name in names
    ]
    responses = [broker.ask(request, 5) for request in requests]
    assert all(response.error_code == 0 for response in responses)
    return [Producer(response.producer_id, response.producer_epoch) for response in responses]


def listed(broker: Broker, pattern: str) -> tuple[int, set[str]]:
    request = transaction_admin.ListTransactionsRequest(
        state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
    )
    response = broker.ask(request)
    return response.error_code, {one.transactional_id for one in response.transaction_states}


def test_request_for_a_partition_led_by_another_broker_is_rejected_in_every_version() -> None:
    """Every request of a coordinator has a response with the error, in every version."""
    broker = Broker()
    requests: list[Request[Any]] = [
        messages.JoinGroupRequest(
            group_id="g", session_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=[]
        ),
        messages.SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[]),
        messages.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
        messages.LeaveGroupRequest(group_id="g"),
        group_admin.DescribeGroupsRequest(groups=["g"]),
        group_admin.DeleteGroupsRequest(groups_names=["g"]),
        commit_request("g"),
        committed_offsets.OffsetFetchRequest(
            group_id="g",
            topics=[committed_offsets.OffsetFetchRequestTopic(name="orders", partition_indexes=[0])],
        ),
        committed_offsets.OffsetDeleteRequest(group_id="g", topics=[]),
        consumer_group.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0),
        transaction.EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=0, committed=True),
        transaction.AddOffsetsToTxnRequest(
            transactional_id="t", producer_id=1, producer_epoch=0, group_id="g"
        ),
        transaction_admin.DescribeTransactionsRequest(transactional_ids=["t"]),
    ]
    for request in requests:
        for version in range(request.MIN_VERSION, request.MAX_VERSION + 1):
            if isinstance(request, committed_offsets.OffsetFetchRequest) and version >= 8:
                continue
            if isinstance(request, committed_offsets.OffsetCommitRequest) and version >= 10:
                continue  # its topic id is unknown, which the broker itself rejects
            assert f"error_code={NOT_COORDINATOR}" in repr(broker.ask(request, version)), (request, version)


class FailingTimers:
    """A partition with timers that raise, instead of its runtime."""

    next_deadline = 0.0

    def poll(self, now: float) -> float:
        raise ValueError("a timer of a group")


def test_failing_timer_affects_only_its_own_partition(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker()
    broker.lead(0, 1)
    broker.groups.runtimes[0] = FailingTimers()  # type: ignore[assignment]
    broker.groups.due = 0.0
    polled: list[float] = []
    broker.groups.runtimes[1].poll = lambda now: polled.append(now) or 50.0  # type: ignore[method-assign,func-returns-value]
    assert broker.groups.poll(7.0) == 8.0
    assert polled == [7.0]
    assert "a timer of a group" in caplog.text


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        (errors.UnknownTopicOrPartition, errors.CoordinatorNotAvailable),
        (errors.NotEnoughReplicas, errors.CoordinatorNotAvailable),
        (errors.NotEnoughReplicasAfterAppend, errors.CoordinatorNotAvailable),
        (errors.RequestTimedOut, errors.CoordinatorNotAvailable),
        (errors.NotLeaderOrFollower, errors.NotCoordinator),
        (errors.KafkaStorageError, errors.NotCoordinator),
        (errors.MessageTooLarge, errors.UnknownServerError),
        (errors.RecordListTooLarge, errors.UnknownServerError),
        (errors.InvalidFetchSize, errors.UnknownServerError),
        (errors.InvalidTimestamp, errors.InvalidTimestamp),
    ],
    ids=lambda error: error.__name__,
)
def test_failed_append_has_kafkas_error_of_a_coordinator(
    failed: type[errors.BrokerError], expected: type[errors.BrokerError]
) -> None:
    codes = {key: append_error_code(key, failed.code or 0) for key in (8, 11, 26, 28)}
    commit = errors.InvalidCommitOffsetSize if expected is errors.UnknownServerError else expected
    assert codes == {8: commit.code, 11: expected.code, 26: expected.code, 28: commit.code}
