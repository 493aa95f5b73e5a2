"""The extension and the Python code return the same records, bytes, hashes and errors."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pykafka2.native import QUEUE
from pykafka2.producer.accumulator import open_batch
from pykafka2.producer.accumulator.batch_sizes import SMALLEST_RECORD_BYTES
from pykafka2.producer.accumulator.open_batch import NS_PER_MS, SHUT, OpenBatch, note_time
from pykafka2.producer.partitioning.murmur2 import positive, positive_murmur2
from pykafka2.records.encoder import NO_HEADERS
from tests.native import counts
from tests.native.both import extension
from tests.native.differential import any_batch, differences, main
from tests.producer.accumulator.test_batch import a_batch
from tests.records.strategies import NOW

compiled = extension()


@pytest.mark.slow
def test_random_and_damaged_batches_give_equal_results_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--batches", "150", "--seed", str(random.randrange(10**9))]) == 0, capsys.readouterr().out


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong:
        def __getattr__(self, name: str) -> Any:
            return getattr(compiled, name)

        def encode(self, fields: list[Any]) -> tuple[bytes, int]:
            return b"", 0

    assert differences(Wrong(), 1, 0) == ["encoded"]  # type: ignore[arg-type]


def test_most_batches_are_decoded_by_the_extension() -> None:
    """Or a comparison of them would show nothing."""
    by_extension = whole = 0
    for number in range(60):
        chance = random.Random(number)
        batch, _ = any_batch(chance)
        body = batch.records_bytes()
        parsed = compiled.decode_records(
            body, "t", 0, 0, 0, 0, batch.count, 0, 0, -1, batch.last_offset, 0, True, batch.count < 1, 0
        )
        whole += batch.count
        by_extension += len(parsed[0])
    assert by_extension > whole / 3


def test_keys_of_every_length_have_the_same_hash() -> None:
    chance = random.Random(7)
    for length in range(150):
        for key in (chance.randbytes(length), b"\xff" * length, bytes(length)):
            assert compiled.murmur2(key) == positive_murmur2(key) == positive(compiled.murmur2(key))


@pytest.mark.parametrize("other", ["text", None, 5])
def test_a_hash_of_something_else_is_a_type_error(other: Any) -> None:
    with pytest.raises(TypeError):
        compiled.murmur2(other)


def state_of(batch: OpenBatch) -> tuple[Any, ...]:
    return (
        batch.fields,
        batch.count,
        batch.room_bytes,
        batch.is_full,
        batch.bound_bytes,
        batch.size_estimate,
    )


def test_appends_leave_a_batch_in_the_same_state() -> None:
    python_append = open_batch.append_unlocked
    for seed in range(30):
        one, other = (a_batch().open for _ in range(2))
        for _ in range(200):
            chance = random.Random(f"{seed}/{one.count}/{one.room_bytes}")
            value, key = chance.randbytes(chance.randrange(200)), chance.choice((None, b"k" * 20))
            row = (value, key, NOW, NO_HEADERS, chance.choice((None, print)))
            size = SMALLEST_RECORD_BYTES + len(value) + len(key or b"")
            if chance.random() < 0.1:
                assert compiled.swap_room(one, SHUT) == other.room_bytes
                other.room_bytes = SHUT
                one.append(row, size)
                other.append(row, size)
            else:
                first, second = compiled.append_unlocked(one, row, size), python_append(other, row, size)
                assert (first is None) is (second is None)
                if first is not None and second is not None:
                    assert first.batch_index == second.batch_index
                    assert first.batch_outcome is one.outcome
            assert state_of(one) == state_of(other)


def test_shortcut_appends_only_records_of_the_noted_millisecond() -> None:
    batch: OpenBatch = a_batch().open
    batch.append((b"v", None, NOW, NO_HEADERS, None), 60)
    note_time(batch, NOW)
    start_ns = NOW * NS_PER_MS
    times = [start_ns, start_ns + NS_PER_MS - 1, start_ns - 1, start_ns + NS_PER_MS]
    clock = iter(times).__next__
    send = compiled.shortcut({"orders": batch}, {}, object(), clock, True, note_time, NO_HEADERS, 10)
    found = [send("orders", b"v", None, None) for _ in times]
    assert [delivery is not None for delivery in found] == [True, True, False, False]
    assert batch.fields[2::5] == [NOW] * 3


def test_a_negative_size_is_refused() -> None:
    batch: OpenBatch = a_batch().open
    with pytest.raises(ValueError, match="negative size"):
        compiled.append_unlocked(batch, (b"v", None, NOW, NO_HEADERS, None), -(1 << 63))


def test_classes_without_the_slots_are_refused() -> None:
    with pytest.raises(TypeError, match="has no slot tail"):
        compiled.bind(QUEUE, type("Other", (), {"__slots__": ("head",)}))
    with pytest.raises(ValueError, match="not a kind"):
        compiled.bind(17, OpenBatch)


@pytest.mark.parametrize("arguments", [(), (1,), (b"", "t", 0, 0, 0, 0, 1, 9, 0, -1, 0, 0, True, False, 0)])
def test_wrong_arguments_are_python_errors(arguments: tuple[Any, ...]) -> None:
    for function in (
        compiled.decode_records,
        compiled.append_unlocked,
        compiled.shortcut,
        compiled.swap_room,
    ):
        with pytest.raises((TypeError, ValueError)):
            function(*arguments)


@pytest.mark.slow
def test_no_reference_is_lost_or_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert counts.main(["--records", "10000"]) == 0, capsys.readouterr().out
