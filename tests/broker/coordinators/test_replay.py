"""The framework: records, partitions, deferred responses, timers, and the runtime's one rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.coordinators.internal_topics import java_hash, partition_for
from pykafka2.broker.coordinators.replay import GROUP_RECORDS, Caller, Deferred, decode_record, record_of
from pykafka2.broker.coordinators.runtime import RunState, ShardRuntime
from pykafka2.broker.coordinators.timers import Timers
from pykafka2.errors import CorruptData, IllegalState, NotEnoughReplicas
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from pykafka2.protocol.messages.group_records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from tests.broker.support.bench import GROUP, ShardBench, code, fetch_all_request
from tests.broker.support.memory_log import MemoryLog
from tests.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    MEMBER_ID_REQUIRED,
    NOT_COORDINATOR,
)

HEARTBEAT = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")


@pytest.mark.parametrize(
    ("key", "partition"),
    [("", 0), ("my-group", 12), ("订单", 9), ("😀", 49), ("polygenelubricants", 0)],
)
def test_partition_for_equals_kafkas_partition(key: str, partition: int) -> None:
    """Goldens of kafka-clients 4.3.1 for 50 partitions, the last one hashes to -2^31."""
    assert partition_for(key, 50) == partition


def test_group_id_with_the_minimum_hash_maps_to_partition_0() -> None:
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert partition_for("polygenelubricants", 7) == 0


@given(st.text(), st.integers(1, 1000))
def test_every_key_has_a_partition(key: str, partitions: int) -> None:
    assert 0 <= partition_for(key, partitions) < partitions


def test_record_starts_with_its_type_and_version() -> None:
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=9)
    record = record_of(OffsetCommitKey(group="g", topic="t", partition=3), value)
    assert record.key[:2] == b"\0\1"
    assert record.value is not None
    assert record.value[:2] == b"\0\4"
    assert decode_record(GROUP_RECORDS, record.key, record.value) == (
        OffsetCommitKey(group="g", topic="t", partition=3),
        value,
    )


def test_removal_record_has_no_value() -> None:
    record = record_of(GroupMetadataKey(group="g"), None)
    assert decode_record(GROUP_RECORDS, record.key, record.value) == (GroupMetadataKey(group="g"), None)


def test_records_of_share_and_streams_groups_are_skipped() -> None:
    assert decode_record(GROUP_RECORDS, b"\0\x11" + b"whatever", b"\0\0") is None


@pytest.mark.parametrize(("key", "value"), [(b"", b""), (b"\0\1", b"\0\3"), (b"\0\2\0\1g", b"\0")])
def test_bytes_that_are_not_a_record_raise_corrupt_data(key: bytes, value: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_record(GROUP_RECORDS, key, value)


def test_a_deferred_response_completes_exactly_once() -> None:
    deferred = Deferred(HEARTBEAT, 4)
    seen: list[HeartbeatResponse] = []
    deferred.then(seen.append)
    assert not deferred.is_done
    deferred.complete(HeartbeatResponse())
    deferred.then(seen.append)
    assert seen == [HeartbeatResponse(), HeartbeatResponse()]
    with pytest.raises(IllegalState, match="has a response already"):
        deferred.refuse(NOT_COORDINATOR)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.integers(0, 5), st.integers(0, 50)),
            st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0)),
            st.tuples(st.just("advance"), st.just(0), st.integers(0, 20)),
        ),
        max_size=200,
    )
)
def test_timers_fire_in_order_of_their_deadlines_and_once(steps: list[tuple[str, int, int]]) -> None:
    timers, model, now = Timers(), dict[int, float](), 0
    for step, name, amount in steps:
        if step == "set":
            timers.set(name, now + amount, lambda at: None)
            model[name] = now + amount
        elif step == "cancel":
            timers.cancel(name)
            model.pop(name, None)
        else:
            now += amount
            while timers.pop_due(now) is not None:
                first = min(model, key=lambda one: model[one])
                assert model[first] <= now
                # Any of several equal timers may fire; only the deadlines are compared.
                gone = [one for one in model if timers.deadline(one) is None]
                assert [model[one] for one in gone] == [model[first]]
                del model[gone[0]]
        assert timers.next_deadline == min(model.values(), default=float("inf"))


# -- the runtime --------------------------------------------------------------------------------------


def test_coordinator_before_replay_responds_coordinator_load_in_progress(shard_bench: ShardBench) -> None:
    runtime = ShardRuntime(shard_bench.shard, MemoryLog())
    deferred = Deferred(HEARTBEAT, 4)
    runtime.submit(Caller(4), deferred, 0.0)
    assert deferred.response == HeartbeatResponse(error_code=COORDINATOR_LOAD_IN_PROGRESS)


def test_coordinator_after_unload_responds_not_coordinator(shard_bench: ShardBench) -> None:
    shard_bench.runtime.unload()
    shard_bench.runtime.unload()
    assert shard_bench.runtime.state is RunState.CLOSED
    assert shard_bench.heartbeat("m", 1) == NOT_COORDINATOR
    assert shard_bench.runtime.poll(1e9) == float("inf")


def test_a_coordinator_is_loaded_once(shard_bench: ShardBench) -> None:
    with pytest.raises(IllegalState):
        shard_bench.runtime.load([], 0, 0.0)


def test_response_waits_until_earlier_appends_are_committed(shard_bench: ShardBench) -> None:
    shard_bench.log.commits_at_once = False
    shard_bench.commit_later = shard_bench.send(  # type: ignore[attr-defined]
        HeartbeatRequest(group_id="other", generation_id=1, member_id="m")
    )
    assert shard_bench.commit_later.is_done  # type: ignore[attr-defined]
    first = shard_bench.join()
    assert not first.is_done, "the new group's record is not committed"
    shard_bench.runtime.on_high_watermark(0)
    assert shard_bench.runtime.waiting == 1
    shard_bench.log.commit_all()
    shard_bench.runtime.on_high_watermark(shard_bench.log.high_watermark)
    assert code(first) == MEMBER_ID_REQUIRED


def test_a_read_waits_for_the_writes_before_it(shard_bench: ShardBench) -> None:
    assert shard_bench.commit(5) == 0
    shard_bench.log.commits_at_once = False
    shard_bench.join(group_id="new")
    reading = shard_bench.send(fetch_all_request(GROUP))
    assert not reading.is_done
    shard_bench.runtime.on_high_watermark(len(shard_bench.log.entries))
    assert reading.is_done


def test_append_not_committed_in_time_gets_coordinator_not_available(shard_bench: ShardBench) -> None:
    shard_bench.log.commits_at_once = False
    waiting = shard_bench.join()
    shard_bench.advance(4.9)
    assert not waiting.is_done
    shard_bench.advance(0.1)
    assert code(waiting) == COORDINATOR_NOT_AVAILABLE
    shard_bench.runtime.on_high_watermark(len(shard_bench.log.entries))


def test_failed_append_changes_no_state_and_gets_coordinator_not_available(shard_bench: ShardBench) -> None:
    shard_bench.log.fails_with = NotEnoughReplicas()
    assert shard_bench.commit(5) == COORDINATOR_NOT_AVAILABLE
    waiting = shard_bench.join()
    assert code(waiting) == COORDINATOR_NOT_AVAILABLE
    assert shard_bench.shard.groups == {}
    assert shard_bench.shard.offsets.committed == {}
    shard_bench.log.fails_with = None
    assert shard_bench.commit(5) == 0
    assert shard_bench.committed() == 5


def test_pending_response_becomes_not_coordinator_when_the_partition_is_unloaded(
    shard_bench: ShardBench,
) -> None:
    shard_bench.log.commits_at_once = False
    waiting = shard_bench.join()
    shard_bench.runtime.unload()
    assert code(waiting) == NOT_COORDINATOR
