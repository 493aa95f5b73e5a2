"""A batch of columns holds its bytes once, and has the bytes of one that was filled record by record."""

from __future__ import annotations

import attrs
import pytest

from pykafka2.compression import codec
from pykafka2.errors import IllegalState, NotEnoughReplicas
from pykafka2.producer.accumulator.batch import BatchState, ProducerBatch
from pykafka2.producer.accumulator.batch_records import ColumnRecords
from pykafka2.producer.accumulator.batch_sizes import BatchPlan
from pykafka2.producer.accumulator.buffer_pool import BufferPool, Permit
from pykafka2.records.batch import HEADER_BYTES
from pykafka2.records.column_encoder import ListColumns
from pykafka2.records.rows import rows_of
from tests.producer.rows import HOOKS, a_batch, appended

VALUES = [b"%d" % number * 10 for number in range(50)]


def column_batch(plan: BatchPlan, pool: BufferPool | None = None) -> ProducerBatch:
    records = ListColumns(VALUES, timestamps=1).encode(0, len(VALUES))
    permit = Permit(HEADER_BYTES + len(records.body))
    if pool is not None:
        pool.request(permit)
    hooks = HOOKS if pool is None else attrs.evolve(HOOKS, charge=pool.charge)
    batch = ProducerBatch(
        "orders", 3, plan, hooks, permit=permit, created_at=0.0, records=ColumnRecords(records)
    )
    batch.seal()
    return batch


@pytest.mark.parametrize("name", ["none", "lz4", "zstd"])
def test_bytes_of_a_column_batch_equal_those_of_single_records(name: str) -> None:
    plan = BatchPlan(codec(name), None, 1 << 20)
    by_column, by_row = column_batch(plan), a_batch(plan=plan)
    for value in VALUES:
        appended(by_row, 1, key=None, value=value)
    by_row.seal()
    for numbers in (((-1, -1), -1), ((7, 0), 40), ((7, 1), 0)):
        for batch in (by_column, by_row):
            batch.sequence(*numbers)
        assert by_column.bytes() == by_row.bytes()
        assert by_column.bytes() is by_column.bytes()
    assert by_column.size == by_column.count == len(VALUES)
    assert by_column.sealed.raw_bytes == by_row.sealed.raw_bytes


def test_numbers_that_never_went_out_keep_its_bytes() -> None:
    """It is renumbered again before it was sent under its earlier numbers; and split after that."""
    plan = BatchPlan(codec("zstd"), None, 1 << 20)
    batch, other = column_batch(plan), column_batch(plan)
    batch.sequence((7, 0), 40)
    batch.bytes()
    for numbers in (((7, 1), 0), ((7, 2), 5)):
        batch.sequence(*numbers)
    other.sequence((7, 2), 5)
    assert batch.bytes() == other.bytes()
    batch.sequence((7, 3), 0)
    batch.records = batch.sealed.as_rows(plan, "orders-3")
    assert [value for value, *_ in rows_of(batch.fields)] == VALUES


def test_batch_memory_equals_its_permit() -> None:
    pool = BufferPool(1 << 20, allowance_bytes=0)
    batch = column_batch(BatchPlan(codec("none"), None, 1 << 20), pool)
    batch.bytes()
    taken = pool.total_bytes - pool.available_bytes
    assert taken == len(batch.bytes())
    assert pool.overhead_bytes < 3000
    pool.deallocate(batch.permit)
    assert (pool.available_bytes, pool.overhead_bytes) == (pool.total_bytes, 0)


def test_failed_batch_has_no_bytes() -> None:
    batch = column_batch(BatchPlan(codec("none"), None, 1 << 20))
    outcome = batch.outcome
    assert outcome is not None
    batch.fail(NotEnoughReplicas())
    assert batch.state is BatchState.DONE
    assert outcome.is_done
    assert batch.unreported == len(VALUES)
    with pytest.raises(IllegalState, match="no bytes any more"):
        batch.bytes()


@pytest.mark.parametrize("name", ["none", "zstd"])
def test_records_of_a_column_batch_are_available_as_rows(name: str) -> None:
    plan = BatchPlan(codec(name), None, 1 << 20)
    batch = column_batch(plan)
    batch.sequence((7, 0), 40)
    before = batch.bytes()
    batch.records = batch.sealed.as_rows(plan, "orders-3")
    assert [value for value, *_ in rows_of(batch.fields)] == VALUES
    batch.sequence((7, 0), 40)
    assert batch.bytes() == before
