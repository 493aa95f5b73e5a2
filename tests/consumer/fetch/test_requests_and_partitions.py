"""The parts of the fetcher alone: what each of them keeps and lets go, and the budget that they share."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pykafka2.backoff import Backoff
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.fetch.brokers import FetchNodes
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.fetched_data import FetchedData, Visibility, without_frames
from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.fetch.offset_lookups import OffsetLookups
from pykafka2.consumer.fetch.partitions import FetchInFlight
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.consumer.reset_policy import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from pykafka2.errors import CorruptData, KafkaError
from pykafka2.protocol.messages.fetch import AbortedTransaction, FetchRequest
from pykafka2.records import batch_reader
from pykafka2.records.batch_reader import AnyBatch
from pykafka2.records.columns import GrowingColumns
from pykafka2.types import ConsumerRecord, TopicPartition
from tests.cluster.scripted import BOOTSTRAP, Hold
from tests.consumer.fetch.test_fetch_sessions import read
from tests.consumer.logs import Log, LogCluster, build_batch
from tests.consumer.poll.test_corrupt_data import damage

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def cluster() -> LogCluster:
    return LogCluster({"orders": [0, 0]}, brokers=1)


@pytest.fixture
def fetcher(cluster: LogCluster) -> Fetcher:
    """A consumer that is never polled: its commands are called by hand."""
    options = CONSUMER_OPTIONS.parse(None, {"bootstrap_servers": BOOTSTRAP})
    runtime: Any = cluster.runtime
    client = ClusterClient(options, name="test", runtime=runtime)
    return Fetcher(options, client, FetchBuffer(client.driver.wake), OffsetLookups(client, options.isolation))


def data(partition: TopicPartition, generation: int, offset: int, count: int = 1) -> FetchedData:
    batch = build_batch([(None, b"x" * 50)] * count, offset)
    return FetchedData(partition, generation, offset, memoryview(batch))


# ---------------------------------------------------------------------------------------- partitions


def test_partition_removed_from_the_fetcher_leaves_no_state(fetcher: Fetcher) -> None:
    table = fetcher.table
    fetcher.begin(ORDERS_0, 1, 5)
    table.misses[ORDERS_0] = table.new_backoff()
    table.high_watermarks[ORDERS_0] = table.readable_ends[ORDERS_0] = 9
    table.troubles[ORDERS_0] = "none"
    table.recreated.add(ORDERS_0)
    fetcher.end([ORDERS_0])
    kept = {name: value for name, value in vars(table).items() if isinstance(value, dict | set) and value}
    assert kept == {}


def test_offset_is_looked_up_once_and_only_while_wanted(fetcher: Fetcher) -> None:
    open_lookups = fetcher._resets._lookups._lookups
    fetcher.reset(ORDERS_0, 1, EARLIEST_TIMESTAMP)
    fetcher.reset(ORDERS_0, 2, LATEST_TIMESTAMP)
    assert [question.timestamp for question in open_lookups] == [LATEST_TIMESTAMP]
    fetcher.begin(ORDERS_0, 3, 5)
    assert not open_lookups, "the application has sought its own place"
    fetcher.reset(ORDERS_0, 4, EARLIEST_TIMESTAMP)
    fetcher._resets._on_failed(ORDERS_0, 4, CorruptData("refused"), 100.0)
    fetcher.end([ORDERS_0])
    assert not open_lookups, "it is not read any more"
    fetcher.reset(ORDERS_0, 5, EARLIEST_TIMESTAMP)
    assert next(iter(open_lookups)).not_before < 0, "and no refusal of before delays it when it is read again"


def test_retry_of_the_same_position_keeps_the_longer_pause(fetcher: Fetcher, cluster: LogCluster) -> None:
    fetcher.begin(ORDERS_0, 1, 5)
    fetcher.table.states[ORDERS_0].not_before = cluster.now + 5
    fetcher.begin(ORDERS_0, 1, 5)
    assert fetcher.table.states[ORDERS_0].not_before == cluster.now + 5
    fetcher.begin(ORDERS_0, 2, 0)
    assert fetcher.table.states[ORDERS_0].not_before < cluster.now, "a seek does not wait"


def test_data_fetched_for_an_older_position_is_not_put_back(fetcher: Fetcher) -> None:
    """A response may come between a seek, on the application's thread, and its processing by the fetcher."""
    fetcher.begin(ORDERS_0, 2, 100)
    fetcher.buffer.put(data(ORDERS_0, 1, 3))
    fetcher.buffer.put(data(ORDERS_0, 2, 100))
    fetcher.table.states[ORDERS_0].offset = 101
    fetcher.pause([ORDERS_0])
    fetcher._drop_paused(1)
    assert fetcher.table.states[ORDERS_0].offset == 100


def test_data_put_back_is_refetched_without_the_epoch_of_its_end(fetcher: Fetcher) -> None:
    """A broker compares that with the record before the offset, and would find its log cut."""
    fetcher.begin(ORDERS_0, 1, 0)
    fetcher.buffer.put(data(ORDERS_0, 1, 0))
    state = fetcher.table.states[ORDERS_0]
    state.offset, state.epoch = 1, 7
    fetcher.pause([ORDERS_0])
    fetcher._drop_paused(1)
    assert (state.offset, state.epoch) == (0, -1)


def test_paused_partition_with_most_data_is_discarded_first(fetcher: Fetcher) -> None:
    for partition, count in ((ORDERS_0, 1), (ORDERS_1, 20)):
        fetcher.begin(partition, 1, 0)
        fetcher.buffer.put(data(partition, 1, 0, count))
    fetcher.pause([ORDERS_0, ORDERS_1])
    fetcher._drop_paused(10)
    assert fetcher.buffer.partitions() == [ORDERS_0]


def test_damage_that_gave_way_is_read_again_after_resume() -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    cluster.append("orders", 0, b"good" * 400)
    cluster.append("orders", 0, b"bad")
    log = cluster.log("orders")
    log.batches[1] = damage(log.batches[1], "magic")
    with cluster.consumer(queued_max_bytes=2000, max_partition_fetch_bytes=4000) as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])
        consumer.poll()
        cluster.runtime.run_for(1)
        consumer.pause(ORDERS_0)
        cluster.append("orders", 1, b"late" * 400)
        assert len(read(consumer)) == 1
        assert not consumer.health()["partitions"]["orders-0"]["buffered_bytes"]
        consumer.resume(ORDERS_0)
        assert [len(one) for one in read(consumer, 1)] == [1600]
        with pytest.raises(KafkaError, match="orders-0 at offset 1"):
            read(consumer)


def test_unreadable_batch_stops_fetching_behind_it(cluster: LogCluster) -> None:
    for value in (b"0", b"1", b"2"):
        cluster.append("orders", 0, value)
    log = cluster.log("orders")
    log.batches[1] = damage(log.batches[1], "magic")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        consumer.poll()
        cluster.runtime.run_for(5)
        assert len(cluster.requests(FetchRequest)) == 1, "until the application has dealt with it"


def test_an_answer_to_a_fetch_from_behind_is_not_taken_in(cluster: LogCluster) -> None:
    """The waiting records were put back meanwhile: the response's records would leave a gap."""
    held = Hold()
    for value in (b"0", b"1"):
        cluster.append("orders", 0, value)
    with cluster.consumer(max_partition_fetch_bytes=1) as consumer:
        consumer.assign([ORDERS_0])
        consumer.poll()
        cluster.runtime.run_for(0.0005)
        cluster.brokers[0].on(FetchRequest, lambda request, broker: held)
        cluster.runtime.run_for(0.1)
        late = cluster.requests(FetchRequest)[-1]
        assert late.topics[0].partitions[0].fetch_offset == 1
        consumer.pause(ORDERS_0)
        cluster.runtime.run_for(0.01)
        consumer._core.fetcher._drop_paused(1)
        held.release(cluster.fetch_now(late, cluster.brokers[0]))
        del cluster.brokers[0].handlers[FetchRequest]
        cluster.runtime.run_for(0.1)
        consumer.resume(ORDERS_0)
        assert read(consumer) == [b"0", b"1"]


def test_partition_revoked_while_paused_is_fetched_after_reassignment(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"0")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        consumer.pause(ORDERS_0)
        assert read(consumer, 1) == []
        consumer.assign([])
        consumer.assign([ORDERS_0])
        assert consumer.paused() == set()
        assert read(consumer, 2) == [b"0"]


def test_topic_recreated_before_its_first_fetch_is_read_from_the_reset_policy(
    cluster: LogCluster,
) -> None:
    for number in range(5):
        cluster.append("orders", 0, b"old %d" % number)
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        consumer.pause(ORDERS_0)
        read(consumer, 2)
        consumer.seek(ORDERS_0, 3)
        cluster.runtime.run_for(1)
        topic = cluster.topics.pop("orders")
        cluster.runtime.run_for(5)
        consumer.bootstrap(refresh=True)
        cluster.add_topic("orders", topic.leaders)
        cluster.logs[ORDERS_0] = Log()
        for number in range(5):
            cluster.append("orders", 0, b"new %d" % number)
        consumer.bootstrap(refresh=True)
        consumer.resume(ORDERS_0)
        assert read(consumer)[0] == b"new 0"


@pytest.mark.parametrize("is_empty", [True, False])
def test_backoff_after_an_error_ends_with_good_responses(cluster: LogCluster, is_empty: bool) -> None:
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        read(consumer, 1)
        cluster.log("orders").error_code = 56  # the disk of the broker: passes
        read(consumer, 4)
        assert consumer._core.fetcher.table.states[ORDERS_0].backoff.attempts > 2
        cluster.log("orders").error_code = 0
        if not is_empty:
            for number in range(50):
                cluster.log("orders").append(b"%d" % number * 20)
            consumer.poll(1000, max_records=1)
        else:
            read(consumer, 2)
        assert consumer._core.fetcher.table.states[ORDERS_0].backoff.attempts == 0


@pytest.mark.gate
def test_a_place_out_of_range_after_a_good_fetch_is_a_first_one(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"0")
    with cluster.consumer(fetch_max_wait_ms=50) as consumer:
        consumer.assign([ORDERS_0])
        for _ in range(5):
            consumer.seek(ORDERS_0, 100)
            before = cluster.now
            assert consumer.poll(1000)
            assert cluster.now - before < 0.3
            cluster.runtime.run_for(5)


# ---------------------------------------------------------------------------------------- brokers


def new_nodes() -> FetchNodes:
    return FetchNodes(sessions_are_wanted=True, new_backoff=lambda: Backoff(0.1, 10.0, random.Random(1)))


def test_a_broker_that_is_well_again_begins_with_a_short_pause() -> None:
    nodes = new_nodes()
    for _ in range(5):
        nodes.on_failure(0, now=100.0)
    assert nodes.not_before[0] > 101
    nodes.on_success(FetchInFlight(0, 0.5, 100.0), now=100.0)
    nodes.on_failure(0, now=100.0)
    assert nodes.not_before[0] < 100.2


def test_forgotten_broker_can_be_fetched_from_at_once() -> None:
    nodes = new_nodes()
    nodes.on_failure(0, now=100.0)
    nodes.forget(0)
    assert 0 not in nodes.not_before


def test_response_to_an_abandoned_fetch_does_not_end_the_next_one() -> None:
    nodes, first, second = new_nodes(), FetchInFlight(0, 0.5, 0.1), FetchInFlight(0, 0.5, 0.1)
    nodes.in_flight[0] = first
    nodes.forget(0)
    nodes.in_flight[0] = second
    assert not nodes.end_fetch(first)
    assert nodes.in_flight == {0: second}
    assert nodes.end_fetch(second)


def test_fetches_of_all_brokers_share_the_budget() -> None:
    cluster = LogCluster({"orders": [0, 1]}, brokers=2)
    held = Hold()
    cluster.brokers[0].on(FetchRequest, lambda request, broker: held)
    with cluster.consumer(queued_max_bytes=4000) as consumer:
        consumer.assign([ORDERS_0])
        read(consumer, 1)
        consumer.assign([ORDERS_0, ORDERS_1])
        read(consumer, 1)
        first, second = (broker.requests(FetchRequest)[0] for broker in cluster.brokers)
    assert first.max_bytes == 4000
    assert second.max_bytes == 2000, "the other one's answer may still bring its share"


# ---------------------------------------------------------------------------------------- data


def test_range_ending_behind_hidden_batches_ignores_later_damage() -> None:
    batches = [
        build_batch([(None, b"0")], 0),
        build_batch([(None, b"1")], 1, producer_id=7, is_transactional=True),
        damage(build_batch([(None, b"2")], 2), "magic"),
    ]
    aborted = [AbortedTransaction(producer_id=7, first_offset=1)]
    columns = GrowingColumns()
    fetched = FetchedData(ORDERS_0, 0, 0, memoryview(b"".join(batches)), aborted)
    assert fetched.take_columns(0, 100, columns, check_crcs=True, end=2) == 2
    assert list(columns.offsets) == [0]
    with pytest.raises(CorruptData):
        fetched.take_columns(0, 100, GrowingColumns(), check_crcs=True, end=3)


def test_causes_are_kept_without_their_frames() -> None:
    try:
        try:
            raise ValueError("inner")
        except ValueError as error:
            raise CorruptData("outer") from error
    except CorruptData as caught:
        bare = without_frames(caught)
    assert bare.__traceback__ is None
    assert bare.__cause__ is not None
    assert bare.__cause__.__traceback__ is None


def test_records_that_are_alike_are_not_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_by_one(*_: Any) -> Any:
        raise AssertionError("twice the time")

    monkeypatch.setattr(batch_reader, "decode_opened_records", one_by_one)
    blob = build_batch([(None, b"%03d" % number) for number in range(100)], 0)
    found: list[ConsumerRecord] = []
    data = FetchedData(ORDERS_0, 1, 0, memoryview(blob))
    assert data.take(0, 100, found, check_crcs=True) == 100
    assert [record.value for record in found] == [b"%03d" % number for number in range(100)]


def test_columns_taken_in_pieces_visit_each_batch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of small batches took time that grew with its square: 2.4 ms a record with max_records=1."""
    visited: list[int] = []
    hides = Visibility.hides

    def counted(self: Visibility, batch: AnyBatch) -> bool:
        visited.append(batch.base_offset)
        return hides(self, batch)

    monkeypatch.setattr(Visibility, "hides", counted)
    blob = b"".join(build_batch([(None, b"x")], offset) for offset in range(100))
    data = FetchedData(TopicPartition("t", 0), 1, 0, memoryview(blob))
    position = 0
    for taken in range(1, 101):
        columns = GrowingColumns()
        position = data.take_columns(position, 1, columns, check_crcs=True)
        assert (position, list(columns.offsets)) == (taken, [taken - 1])
    assert visited == list(range(100))
