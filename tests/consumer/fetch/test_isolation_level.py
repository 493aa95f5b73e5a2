"""Which batches a reader is shown, by what the broker says was aborted (KIP-98)."""

from __future__ import annotations

import pytest

from pykafka2 import TopicPartition
from pykafka2.broker.log.batch import without_records
from pykafka2.consumer.fetch.fetched_data import Visibility
from pykafka2.errors import CorruptMessage
from pykafka2.protocol.messages.fetch import AbortedTransaction
from pykafka2.records.batch import RecordBatch
from pykafka2.records.control import build_end_marker
from tests.consumer.logs import LogCluster, build_batch

ANNA, BERT = 7, 8
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def batch(offset: int, producer_id: int = -1, *, count: int = 1) -> RecordBatch:
    rows = [(None, b"value")] * count
    return RecordBatch(
        memoryview(
            build_batch(rows, offset, producer_id=producer_id, is_transactional=producer_id in (ANNA, BERT))
        )
    )


def marker(offset: int, producer_id: int, *, committed: bool) -> RecordBatch:
    return RecordBatch(memoryview(build_end_marker(committed, 1000, producer_id, 0, 0, base_offset=offset)))


def aborted(*transactions: tuple[int, int]) -> list[AbortedTransaction]:
    return [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in transactions]


def shown(batches: list[RecordBatch], transactions: list[AbortedTransaction]) -> list[int]:
    """The first offsets of what is not hidden."""
    visibility = Visibility(transactions, TopicPartition("orders", 0))
    return [one.base_offset for one in batches if not visibility.hides(one)]


def test_markers_are_never_shown_and_without_aborted_transactions_all_else_is() -> None:
    batches = [batch(0), batch(1, ANNA), marker(2, ANNA, committed=True), marker(3, BERT, committed=False)]
    assert shown(batches, []) == [0, 1]


def test_an_aborted_transaction_is_hidden_up_to_its_marker() -> None:
    batches = [batch(0, ANNA), batch(1, ANNA, count=3), marker(4, ANNA, committed=False), batch(5, ANNA)]
    assert shown(batches, aborted((ANNA, 0))) == [5]


def test_a_commit_of_the_producers_transaction_before_does_not_end_it() -> None:
    batches = [
        batch(0, ANNA),
        marker(1, ANNA, committed=True),
        batch(2, ANNA),
        marker(3, ANNA, committed=False),
        batch(4, ANNA),
    ]
    assert shown(batches, aborted((ANNA, 2))) == [0, 4]
    odd = [marker(2, ANNA, committed=True), batch(3, ANNA), marker(4, ANNA, committed=False)]
    assert shown(odd, aborted((ANNA, 1))) == [], "only the marker of an abort does, as in Java"


def test_a_marker_that_compaction_has_emptied_ends_no_aborted_transaction() -> None:
    emptied = without_records(marker(1, ANNA, committed=False))
    batches = [batch(0, ANNA), emptied, batch(2, ANNA), marker(3, ANNA, committed=False), batch(4, ANNA)]
    assert shown(batches, aborted((ANNA, 0))) == [4]


def test_the_broker_may_list_aborted_transactions_in_any_order() -> None:
    batches = [
        batch(0, BERT),
        marker(1, BERT, committed=False),
        batch(2, BERT),
        marker(3, BERT, committed=True),
        batch(4, ANNA),
        marker(5, ANNA, committed=False),
        batch(6, ANNA),
    ]
    for transactions in (aborted((ANNA, 4), (BERT, 0)), aborted((BERT, 0), (ANNA, 4))):
        assert shown(batches, transactions) == [2, 6]


def test_others_and_records_outside_of_transactions_are_shown_meanwhile() -> None:
    plain = RecordBatch(memoryview(build_batch([(None, b"x")], 2, producer_id=ANNA)))
    batches = [batch(0, ANNA), batch(1, BERT), plain, marker(3, ANNA, committed=False)]
    assert shown(batches, aborted((ANNA, 0))) == [1, 2]


def broken_marker(offset: int, producer_id: int) -> RecordBatch:
    control = bytearray(build_end_marker(False, 1000, producer_id, 0, 0, base_offset=offset))
    control[-10:] = b"\xff" * 10
    return RecordBatch(memoryview(bytes(control)))


def test_a_marker_that_matters_and_cannot_be_read_is_corrupt() -> None:
    with pytest.raises(CorruptMessage, match="orders-0 at offset 1"):
        shown([batch(0, ANNA), broken_marker(1, ANNA)], aborted((ANNA, 0)))


def test_unreadable_marker_of_a_producer_without_aborted_transaction_is_hidden() -> None:
    batches = [batch(0, ANNA), broken_marker(1, BERT), batch(2, BERT)]
    assert shown(batches, aborted((ANNA, 0))) == [2]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_unrequested_aborted_transactions_hide_no_records(isolation: str) -> None:
    """Some brokers list aborted transactions whatever the isolation level."""
    cluster = LogCluster({"orders": [0]}, brokers=1)
    log, place = cluster.log("orders"), TopicPartition("orders", 0)
    log.append(b"one", producer_id=ANNA, is_transactional=True)
    log.end_transaction(ANNA, 0, committed=False)
    cluster.lists_aborted_always = True
    with cluster.consumer(isolation_level=isolation) as consumer:
        consumer.assign([place])
        found = consumer.poll(1000).get(place, [])
    assert [one.value for one in found] == ([b"one"] if isolation == "read_uncommitted" else [])


def test_update_offsets_false_passes_a_buffer_full_of_control_batches() -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    log = cluster.log("orders", 0)
    log.batches = [build_end_marker(True, 1000, ANNA, 0, 0, base_offset=offset) for offset in range(400)]
    log.end = 400
    log.append(b"after")
    cluster.append("orders", 1, b"other")
    with cluster.consumer(
        "orders", queued_max_bytes=2000, fetch_max_bytes=500, max_partition_fetch_bytes=500
    ) as consumer:
        seen = set()
        for _ in range(100):
            for partition, records in consumer.poll(500, update_offsets=False).items():
                seen |= {(partition, record.offset) for record in records}
            cluster.runtime.run_for(0.1)
        assert seen == {(ORDERS_0, 400), (ORDERS_1, 0)}
        assert consumer.position(ORDERS_1) == 0
        assert consumer.position(ORDERS_0) <= 400
        assert sum(len(records) for records in consumer.poll(500).values()) == 2
