"""One short story played again and again, each time with the next write of any end of a connection lost."""

from __future__ import annotations

import pytest

from pykafka2.testing.simulation import Simulation
from pykafka2.types import TopicPartition

PARTITIONS = [TopicPartition("orders", number) for number in range(2)]
VALUES = [str(number).encode() for number in range(12)]


pytestmark = pytest.mark.usefixtures("quiet")


def tell(break_at_write: int) -> int:
    """Produce, consume, check; how many writes that took."""
    with Simulation(seed=1) as simulation:
        simulation.network.break_at_write = break_at_write
        cluster = simulation.cluster(brokers=2, topics={"orders": 2})
        producer = simulation.producer(cluster, linger_ms=0)
        consumer = simulation.consumer(cluster, auto_offset_reset="earliest")
        consumer.assign(PARTITIONS)
        deliveries = []
        for number, value in enumerate(VALUES):
            deliveries.append(producer.send("orders", value, partition=number % 2))
            if number % 4 == 3:
                simulation.sleep(0.05)
        producer.flush(timeout=60)
        assert [delivery.result(0).offset for delivery in deliveries] == [n // 2 for n in range(12)]
        for number in range(2):
            assert cluster.log("orders", number).values() == VALUES[number::2]
        read: dict[TopicPartition, list[bytes]] = {one: [] for one in PARTITIONS}
        deadline = simulation.now + 60
        while sum(map(len, read.values())) < len(VALUES) and simulation.now < deadline:
            for partition, records in consumer.poll(timeout_ms=1000).items():
                read[partition] += [record.value for record in records]
        assert read == {one: VALUES[one.partition :: 2] for one in PARTITIONS}
        return simulation.network.writes


@pytest.mark.gate
@pytest.mark.slow
def test_whichever_write_is_lost_every_record_arrives_once_and_in_order() -> None:
    writes = tell(0)
    assert writes > 20
    for number in range(1, writes + 1):
        try:
            assert tell(number) >= number
        except AssertionError as error:
            raise AssertionError(f"with write {number} of {writes} lost: {error}") from error
