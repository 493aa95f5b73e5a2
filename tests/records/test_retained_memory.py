"""State that decoders keep between batches has a bound, and their errors are freed at once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pykafka2.errors import CorruptData
from pykafka2.records import decoder
from pykafka2.records.batch import batches
from pykafka2.records.batch_reader import decode_any_records
from pykafka2.records.column_decoder import MOST_PLANS, MOST_RUNS, Plans
from pykafka2.records.decoder import LONGEST_NAME_KEPT, MOST_NAMES_KEPT, read_headers
from pykafka2.records.encoder import BatchBuilder, encode_headers
from pykafka2.types import ConsumerRecord, Headers


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, str]:
    kept: dict[bytes, str] = {}
    monkeypatch.setattr(decoder, "_names", kept)
    return kept


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_number_of_cached_header_names_is_bounded(names: dict[bytes, str]) -> None:
    for number in range(3 * MOST_NAMES_KEPT):
        found: Headers = []
        read_headers(encode_headers([(f"n{number}", b"v")]), 0, found)
        assert found == [(f"n{number}", b"v")]
        assert len(names) <= MOST_NAMES_KEPT


def test_long_names_of_headers_are_not_kept(names: dict[bytes, str]) -> None:
    for size in (LONGEST_NAME_KEPT, LONGEST_NAME_KEPT + 1):
        read_headers(encode_headers([("n" * size, b"v")]), 0, [])
    assert [len(name) for name in names] == [LONGEST_NAME_KEPT]


def test_few_plans_of_batches_are_kept() -> None:
    plans = Plans()
    for size in range(3 * MOST_PLANS):
        plans.keep(size, 1, [])
        assert plans.find(size, 1) == []
        assert len(plans._plans) <= MOST_PLANS


@pytest.mark.pure
@pytest.mark.parametrize(
    ("runs", "is_kept"),
    [(MOST_RUNS, True), (MOST_RUNS + 1, False), pytest.param(3000, False, marks=pytest.mark.gate)],
)
def test_plan_of_many_runs_is_not_kept(runs: int, is_kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of a million records that change their length every 64 takes 11 MB, and 32 plans are kept."""
    kept = Plans()
    monkeypatch.setattr("pykafka2.records.column_decoder.plans", kept)
    builder = BatchBuilder(max_bytes=1 << 30)
    for index in range(64 * runs):
        builder.append(1000, None, b"x" * (index // 64 % 2))
    [batch] = batches(builder.build())
    for _ in range(2):
        assert sum(1 for _ in decode_any_records(batch, "orders", 0)) == 64 * runs
    assert bool(kept._plans) is is_kept


@pytest.mark.usefixtures("without_collector")
def test_error_of_a_damaged_batch_is_freed_with_its_last_holder() -> None:
    """It holds the batch, of which a poll that raises again and again would leave hundreds of megabytes."""
    builder = BatchBuilder()
    for _ in range(40):
        builder.append(1000, None, b"value")
    (batch,) = batches(builder.build()[:-5] + b"\xff" * 5)
    records = decode_any_records(batch, "t", 0, check_crcs=False)
    found: list[ConsumerRecord] = []
    with pytest.raises(CorruptData) as caught:
        found.extend(records)
    is_there = weakref.ref(caught.value)
    del caught
    assert is_there() is None
    assert len(found) == 39
    assert list(records) == [], "it is raised once"
