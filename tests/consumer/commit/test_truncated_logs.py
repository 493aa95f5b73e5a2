"""A commit that lies behind the end of what is left of a log: seen by its leader epoch (KIP-320).

A leader was elected that did not have all records, and others were written where the lost ones had been: by
the offset alone a consumer that resumes would pass over them.
"""

from __future__ import annotations

import pytest

from pykafka2 import KafkaConsumer
from pykafka2.errors import LogTruncated
from pykafka2.testing import QUICK, KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, reader

pytestmark = pytest.mark.slow

KEPT, DONE, WRITTEN_LATER = 4, 10, 8


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    """Two brokers; a record is acknowledged when one of them has it, and committed when both were in sync."""
    config = {**QUICK, "unclean.leader.election.enable": True, "replica.lag.time.max.ms": 1500}
    return simulation.cluster(brokers=2, topics={"orders": 2}, config=config)


def write(simulation: Simulation, cluster: KafkaCluster, word: str, count: int) -> None:
    with simulation.producer(cluster, acks=1, enable_idempotence=False) as producer:
        for number in range(count):
            producer.send(FIRST.topic, f"{word} {number}".encode(), partition=FIRST.partition)


def values(consumer: KafkaConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    for _ in range(40):
        found += [record.value for records in consumer.poll(500).values() for record in records]
        if len(found) >= count:
            break
    return found


@pytest.fixture
def done(simulation: Simulation, cluster: KafkaCluster) -> list[bytes]:
    """Records that a consumer has read and committed before the log was truncated and grew again."""
    leader = cluster.partition(*FIRST).leader
    write(simulation, cluster, "kept", KEPT)
    assert simulation.wait_until(lambda: cluster.partition(*FIRST).high_watermark == KEPT, 10)
    cluster.controls.pause_followers(FIRST)
    write(simulation, cluster, "lost", DONE - KEPT)
    assert simulation.wait_until(lambda: cluster.partition(*FIRST).high_watermark == DONE, 10)
    with reader(simulation, cluster, [FIRST]) as consumer:
        read = values(consumer, DONE)
        consumer.commit()
    committed = cluster.coordinator("readers")
    assert committed >= 0
    cluster.controls.move_leader(FIRST, to=1 - leader, unclean=True)
    cluster.controls.resume_followers()
    write(simulation, cluster, "new", WRITTEN_LATER)
    return read


@pytest.mark.gate
def test_reading_resumes_where_the_logs_part(
    simulation: Simulation, cluster: KafkaCluster, done: list[bytes]
) -> None:
    consumer = reader(simulation, cluster, [FIRST])
    assert len(done) == DONE
    assert values(consumer, WRITTEN_LATER) == [f"new {number}".encode() for number in range(WRITTEN_LATER)]
    consumer.commit()
    again = reader(simulation, cluster, [FIRST])
    assert again.position(FIRST) == KEPT + WRITTEN_LATER
    assert again.committed([FIRST])[FIRST].leader_epoch > 0  # type: ignore[union-attr]


def test_without_a_policy_the_cut_is_raised_with_its_place(
    simulation: Simulation, cluster: KafkaCluster, done: list[bytes]
) -> None:
    consumer = reader(simulation, cluster, [FIRST], auto_offset_reset="none")
    with pytest.raises(LogTruncated, match="orders-0") as caught:
        values(consumer, 1)
    assert caught.value.offset == KEPT
    assert consumer.position(FIRST) == DONE
