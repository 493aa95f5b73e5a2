"""No client of `benchmarks.consumer` waits for a timeout after the last record: it would be measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from benchmarks.consumer import clients
from benchmarks.consumer.runs import Cell, Run

RECORDS = [2_000, 8_388, 60_000]


class Record:
    value = b"x"


class ConfluentRecord:
    def value(self) -> bytes:
        return b"x"


class Log:
    """Records that are left. `waits` counts the calls that would wait for their timeout."""

    def __init__(self, records: int) -> None:
        self.left = records
        self.waits = 0

    def take(self, number: int, needs_all: bool) -> int:
        self.waits += self.left < (number if needs_all else 1)
        taken = min(number, self.left)
        self.left -= taken
        return taken


class ConfluentConsumer(Log):
    def consume(self, number: int, timeout: float) -> list[ConfluentRecord]:
        return [ConfluentRecord()] * self.take(number, needs_all=True)

    def poll(self, timeout: float) -> ConfluentRecord | None:
        return ConfluentRecord() if self.take(1, needs_all=True) else None

    def close(self) -> None:
        pass


class IteratedConsumer(Log):
    def __iter__(self) -> Iterator[Record]:
        while self.take(1, needs_all=True):
            yield Record()


class AioConsumer(Log):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def assign(self, partitions: object) -> None: ...

    async def getmany(self, timeout_ms: int, max_records: int) -> dict[str, list[Record]]:
        return {"events-0": [Record()] * self.take(max_records, needs_all=False)}


def read_all(client: str, records: int) -> None:
    """Read as `worker.read_all` does."""
    arriving = clients.CLIENTS[client](Run(client, Cell(), records))
    count = 0
    while count < records:
        count += next(arriving)


@pytest.mark.parametrize("records", RECORDS)
@pytest.mark.parametrize(
    "client", ["confluent-kafka consume", "confluent-kafka consume, tuned", "confluent-kafka poll, tuned"]
)
def test_confluent_kafka_requests_no_more_records_than_are_left(
    monkeypatch: pytest.MonkeyPatch, client: str, records: int
) -> None:
    consumer = ConfluentConsumer(records)
    monkeypatch.setattr(clients, "confluent_consumer", lambda run, options: consumer)
    read_all(client, records)
    assert consumer.waits == 0


@pytest.mark.parametrize("records", RECORDS)
def test_iteration_ends_with_the_last_record(monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    consumer = IteratedConsumer(records)

    def made(run: Any) -> AbstractContextManager[IteratedConsumer]:
        return nullcontext(consumer)

    monkeypatch.setattr(clients, "pykafka2_consumer", made)
    read_all("pykafka2 iteration", records)
    assert consumer.waits == 0


@pytest.mark.parametrize("records", RECORDS)
def test_aiokafka_is_not_polled_after_the_last_record(monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    consumer = AioConsumer(records)
    monkeypatch.setattr(aiokafka, "AIOKafkaConsumer", lambda **options: consumer)
    read_all("aiokafka", records)
    assert consumer.waits == 0
