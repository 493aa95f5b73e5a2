"""The demo's proof catches each kind of damage and names the record."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from pykafka2.cli.demo.data import DemoRecord, lines_of, order_events
from pykafka2.cli.demo.proof import Proof, Verdict
from pykafka2.types import ConsumerRecord

SENT = list(order_events(100, seed=1))


def as_read(number: int, record: DemoRecord, offset: int) -> ConsumerRecord:
    return ConsumerRecord(
        "orders", 0, offset, record.timestamp_ms, 0, record.key, record.value, list(record.headers)
    )


def read_back() -> list[ConsumerRecord]:
    return [as_read(number, record, number) for number, record in enumerate(SENT)]


def verdict_on(records: list[ConsumerRecord], end: int | None = None) -> Verdict:
    for offset, record in enumerate(records):
        record.offset = offset
    proof = Proof(SENT)
    proof.received[0] = records
    return proof.verdict({0: (0, len(records) if end is None else end)})


def test_complete_read_back_is_clean() -> None:
    verdict = verdict_on(read_back())
    assert verdict.is_clean
    assert (verdict.sent, verdict.received) == (100, 100)


def test_a_lost_record_is_named() -> None:
    records = read_back()
    del records[42]
    verdict = verdict_on(records)
    assert len(verdict.lost.records) == 1
    assert "record 42 " in str(verdict.lost)


def test_a_duplicate_is_named() -> None:
    records = read_back()
    records.append(attrs.evolve(records[7]))
    verdict = verdict_on(records)
    assert "record 7 " in str(verdict.duplicated)
    assert [finding.kind for finding in verdict.findings] == ["duplicated"]


def test_two_records_of_one_key_out_of_order_are_named() -> None:
    records = read_back()
    first = 0
    second = next(n for n in range(1, 100) if SENT[n].key == SENT[first].key)
    records[first], records[second] = records[second], records[first]
    verdict = verdict_on(records)
    assert "record 0 " in str(verdict.reordered)


@pytest.mark.parametrize("damage", ["key", "value", "headers"])
def test_a_changed_record_is_named(damage: str) -> None:
    records = read_back()
    setattr(records[13], damage, [*records[13].headers, ("x", b"y")] if damage == "headers" else b"changed")
    verdict = verdict_on(records)
    assert "record 13 " in str(verdict.corrupted)


def test_record_at_another_offset_than_acknowledged_is_named() -> None:
    proof = Proof(SENT)
    proof.received[0] = read_back()
    proof.acknowledged[3] = (0, 4)
    verdict = proof.verdict({0: (0, 100)})
    assert "record 3 " in str(verdict.misplaced)


def test_log_end_beyond_the_read_records_is_a_gap() -> None:
    verdict = verdict_on(read_back(), end=101)
    assert verdict.offsets.records


def test_one_seed_is_one_data_set() -> None:
    assert list(order_events(50, seed=7)) == list(order_events(50, seed=7))
    assert list(order_events(50, seed=7)) != list(order_events(50, seed=8))


def test_a_file_gives_one_record_a_line(tmp_path: Path) -> None:
    file = tmp_path / "input.txt"
    file.write_bytes(b"one two\r\n\nlast \xff")
    assert [(record.key, record.value) for record in lines_of(file)] == [
        (b"one", b"one two"),
        (None, b""),
        (b"last", b"last \xff"),
    ]
