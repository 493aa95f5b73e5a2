"""The benchmark of the bundled broker waits for no more records than there are."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")

from benchmarks import broker_speed


class StubConsumer:
    """Returns records until there are none; a call for more than are left would wait for its timeout."""

    def __init__(self, records: int) -> None:
        self.left = records
        self.waits = 0

    def assign(self, partitions: object) -> None:
        pass

    def consume(self, number: int, timeout: float) -> list[bytes]:
        self.waits += number > self.left
        taken = min(number, self.left)
        self.left -= taken
        return [b"x"] * taken

    def close(self) -> None:
        pass


@pytest.mark.parametrize("records", [2_000, 10_000, 25_000])
def test_fetch_ends_with_the_last_record_for_any_number_of_records(
    monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    consumer = StubConsumer(records + 1)  # produce() sends one record before the measured ones
    monkeypatch.setattr(broker_speed, "Consumer", lambda options: consumer)
    subject = broker_speed.Subject("stub", "localhost:1", 0)
    assert broker_speed.fetch(subject, "events", records) > 0
    assert consumer.waits == 0
