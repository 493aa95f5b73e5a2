"""One shard of the share coordinator: epochs, snapshots, pruning, deletion; also after loading its log."""

from __future__ import annotations

import pytest

from pykafka2.broker.coordinators.settings import TopicTable
from pykafka2.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest, UnknownTopicOrPartition
from pykafka2.protocol.messages.share_state_records import ShareSnapshotValue, ShareUpdateValue

from .bench import (
    ORDERS,
    REFUNDS,
    ShareBench,
    batch,
    delete_request,
    initialize_request,
    read_request,
    summary_request,
    write_request,
)

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def test_state_is_read_as_it_was_written_also_by_the_next_coordinator() -> None:
    bench = ShareBench()
    assert bench.initialize(state_epoch=3, start=10) == 0
    assert bench.write(batch(10, 14, ACKNOWLEDGED), state_epoch=3, delivery_complete_count=5) == 0
    assert bench.write(batch(15, 19, AVAILABLE), batch(20, 20, ARCHIVED, 5), start=12, state_epoch=3) == 0
    for _ in range(2):
        result = bench.read()
        assert (result.error_code, result.state_epoch, result.start_offset) == (0, 3, 12)
        assert bench.batches() == [(12, 14, 2, 1), (15, 19, 0, 1), (20, 20, 4, 5)]
        bench.elect()


def test_two_share_partitions_have_states_of_their_own() -> None:
    bench = ShareBench()
    for group, topic_id in (("g", ORDERS), ("h", ORDERS), ("g", REFUNDS)):
        bench.call(initialize_request(group, topic_id, 2, 0, 0))
    bench.call(write_request("g", ORDERS, 2, batch(0, 0, ACKNOWLEDGED), start=1))
    starts = [
        bench.call(summary_request(group, topic_id, 2), 1).start_offset
        for group, topic_id in (("g", ORDERS), ("h", ORDERS), ("g", REFUNDS), ("h", REFUNDS))
    ]
    assert starts == [1, 0, 0, -1]


def test_former_leader_is_fenced_once_another_one_has_read() -> None:
    bench = ShareBench()
    bench.initialize()
    assert bench.read(leader_epoch=4).error_code == 0
    for _ in range(2):
        assert bench.write(leader_epoch=3) == FencedLeaderEpoch.code
        assert bench.read(leader_epoch=3).error_code == FencedLeaderEpoch.code
        assert bench.write(leader_epoch=4) == 0
        bench.elect()


def test_writes_from_before_a_new_state_epoch_are_fenced() -> None:
    bench = ShareBench()
    bench.initialize(state_epoch=1, start=0)
    bench.write(batch(0, 9, ACKNOWLEDGED), start=0, state_epoch=1)
    assert bench.initialize(state_epoch=2, start=5) == 0
    for _ in range(2):
        assert bench.write(batch(0, 9, ACKNOWLEDGED), state_epoch=1) == FencedStateEpoch.code
        assert bench.initialize(state_epoch=1) == FencedStateEpoch.code
        assert (bench.read().state_epoch, bench.read().start_offset, bench.batches()) == (2, 5, [])
        bench.elect()


def test_new_start_offset_is_the_next_snapshot_of_the_state() -> None:
    bench = ShareBench()
    bench.initialize(state_epoch=1)
    bench.initialize(state_epoch=2, start=5)
    snapshots = [
        (one.snapshot_epoch, one.state_epoch, one.start_offset)
        for one in bench.values()
        if isinstance(one, ShareSnapshotValue)
    ]
    assert snapshots == [(0, 1, 0), (1, 2, 5)]


def test_uninitialized_and_missing_share_partitions_are_rejected() -> None:
    bench = ShareBench()
    assert bench.write() == bench.read().error_code == InvalidRequest.code
    assert bench.initialize(partition=6) == UnknownTopicOrPartition.code
    assert bench.initialize(partition=-1) == InvalidRequest.code
    assert bench.initialize(state_epoch=-1) == InvalidRequest.code
    bench.initialize()
    assert bench.write(leader_epoch=-1) == bench.write(state_epoch=-1) == InvalidRequest.code
    for request in (
        initialize_request("g", b"x" * 16, 0, 0, 0),
        summary_request("g", b"x" * 16, 0),
        delete_request("g", b"x" * 16, 0),
    ):
        result = bench.call(request)
        assert result.error_code == UnknownTopicOrPartition.code
        assert result.error_message


def test_snapshot_follows_the_configured_number_of_updates() -> None:
    bench = ShareBench(updates_per_snapshot=2)
    bench.initialize()
    for offset in range(5):
        bench.now += 1.0
        bench.write(batch(offset, offset, ACKNOWLEDGED), start=0, delivery_complete_count=offset + 1)
    kinds = [type(value) for value in bench.values()]
    snapshot, update = ShareSnapshotValue, ShareUpdateValue
    assert kinds == [snapshot, update, update, snapshot, update, update]
    taken = bench.values()[3]
    assert isinstance(taken, ShareSnapshotValue)
    assert (taken.snapshot_epoch, taken.create_timestamp, taken.write_timestamp) == (1, 3000, 3000)
    assert [(one.first_offset, one.last_offset) for one in taken.state_batches] == [(0, 2)]
    last = bench.values()[-1]
    assert isinstance(last, ShareUpdateValue)
    assert (last.snapshot_epoch, last.delivery_complete_count) == (1, 5)
    bench.elect()
    assert bench.batches() == [(0, 4, ACKNOWLEDGED, 1)]


def test_complete_count_never_decreases_while_the_start_offset_stays() -> None:
    bench = ShareBench()
    bench.initialize(start=5)

    def count() -> int:
        return int(bench.call(summary_request("g", ORDERS, 0), 1).delivery_complete_count)

    bench.write(start=5, delivery_complete_count=3)
    bench.write(start=5, delivery_complete_count=1)
    assert count() == 3
    bench.write(start=4, delivery_complete_count=9)
    assert count() == 3
    bench.write(start=6, delivery_complete_count=2)
    assert count() == 2


def test_pruning_deletes_records_before_the_oldest_snapshot_in_use() -> None:
    bench = ShareBench(updates_per_snapshot=2)
    bench.initialize()  # record 0
    bench.initialize(partition=1)  # record 1
    for offset in range(3):  # records 2 to 4; the last one is a snapshot
        bench.write(batch(offset, offset, ACKNOWLEDGED), start=0)
    bench.advance(299.0)
    assert bench.log.log_start_offset == 0
    bench.advance(2.0)
    assert bench.log.log_start_offset == 1
    bench.elect()
    assert bench.batches() == [(0, 2, ACKNOWLEDGED, 1)]
    assert bench.call(read_request("g", ORDERS, 1, 0)).error_code == 0


def test_state_that_is_not_written_for_long_gets_one_snapshot() -> None:
    bench = ShareBench()
    bench.initialize()
    bench.write(batch(0, 3, ACKNOWLEDGED), start=0)
    bench.advance(400.0)
    taken = bench.values()[-1]
    assert isinstance(taken, ShareSnapshotValue)
    assert (taken.snapshot_epoch, taken.create_timestamp, taken.write_timestamp) == (1, 0, 400_000)
    records = len(bench.log.entries)
    bench.advance(400.0)
    assert len(bench.log.entries) == records
    assert bench.log.log_start_offset == 2


def test_deleted_state_is_gone_also_for_the_next_coordinator() -> None:
    bench = ShareBench()
    bench.initialize(state_epoch=5)
    assert bench.call(delete_request("g", ORDERS, 0)).error_code == 0
    assert bench.call(delete_request("g", ORDERS, 0)).error_code == 0
    assert bench.values()[1:] == [None]
    for _ in range(2):
        assert bench.read().error_code == InvalidRequest.code
        bench.elect()
    assert bench.initialize(state_epoch=0) == 0
    assert bench.read(leader_epoch=4).error_code == 0
    bench.call(delete_request("g", ORDERS, 0))
    bench.initialize()
    assert bench.read(leader_epoch=0).error_code == 0, "the epochs are gone, too"


@pytest.mark.parametrize("deleted", [ORDERS, REFUNDS])
def test_deleted_topic_takes_its_states_with_it(deleted: bytes) -> None:
    bench = ShareBench()
    bench.initialize()
    topics = TopicTable({"orders": (ORDERS, 6)}) if deleted == REFUNDS else TopicTable({})
    bench.runtime.carry_out(bench.shard.on_topics(topics, {deleted}), bench.now)
    assert bench.values()[1:] == ([None] if deleted == ORDERS else [])


@pytest.mark.parametrize(
    "written", [(5, 4, 2), (-1, 4, 2), (4, 5, 1), (4, 5, 5), (4, 5, -1)], ids=lambda one: repr(one)
)
def test_batch_that_no_leader_could_read_is_not_written(written: tuple[int, int, int]) -> None:
    bench = ShareBench()
    bench.initialize()
    assert bench.write(batch(4, 5, ACKNOWLEDGED)) == 0
    assert bench.write(batch(6, 7, ACKNOWLEDGED), batch(*written)) == InvalidRequest.code
    assert bench.batches() == [(4, 5, 2, 1)]
