"""Two interceptors: the first's record reaches the second; both hear of the outcome before the callback."""

from __future__ import annotations

import pytest

from pykafka2 import KafkaError, ProducerInterceptor, ProducerRecord, RecordMetadata
from pykafka2.testing import Simulation

Calls = list[tuple[str, bool]]


class Adding(ProducerInterceptor):
    def __init__(self, name: str, calls: Calls, *, breaks: bool = False) -> None:
        self.name, self.calls, self.breaks = name, calls, breaks

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        if self.breaks:
            raise RuntimeError(self.name)
        return ProducerRecord(record.topic, record.value + self.name.encode(), record.key)

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        self.calls.append((self.name, error is None))
        if self.breaks:
            raise RuntimeError(self.name)


@pytest.mark.parametrize("breaks", [False, True], ids=["whole", "the first raises"])
@pytest.mark.parametrize("is_written", [True, False], ids=["written", "refused"])
def test_the_chain_runs_in_order_and_before_the_callback(
    simulation: Simulation, *, is_written: bool, breaks: bool
) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 1})
    calls: Calls = []
    producer = simulation.producer(
        cluster, interceptors=[Adding("1", calls, breaks=breaks), Adding("2", calls)]
    )
    if not is_written:
        cluster.controls.rule(api="Produce", then="error:TOPIC_AUTHORIZATION_FAILED")
    producer.send("orders", b"v", on_delivery=lambda _, error: calls.append(("callback", error is None)))
    producer.flush(timeout=10)
    assert calls == [("1", is_written), ("2", is_written), ("callback", is_written)]
    values = [b"v2" if breaks else b"v12"] if is_written else []
    assert cluster.log("orders", 0).values() == values
