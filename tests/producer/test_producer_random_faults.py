"""A producer through seeded storms: whatever the brokers do, nothing is doubled, lost or out of order."""

from __future__ import annotations

import random

import attrs
import pytest

from pykafka2 import KafkaProducer, RecordMetadata
from pykafka2.errors import (
    BrokerError,
    KafkaError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
)
from pykafka2.producer.delivery.delivery import OnDelivery
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.gate import rest_in_long

ERRORS: list[type[BrokerError]] = [
    NotLeaderOrFollower,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    RequestTimedOut,
]
STEPS = 40


@attrs.define
class Storm:
    """One thing after another happens to the cluster while records are sent."""

    simulation: Simulation
    cluster: KafkaCluster
    chance: random.Random
    down: int | None = None

    def strike(self) -> None:
        controls, chance = self.cluster.controls, self.chance
        kind = chance.randrange(8)
        if kind == 0:
            controls.lose_reply(ProduceRequest, times=chance.randrange(1, 4))
        elif kind == 1:
            controls.fail_next(ProduceRequest, chance.choice(ERRORS), times=chance.randrange(1, 3))
        elif kind == 2:
            controls.disconnect_next(ProduceRequest, times=chance.randrange(1, 3))
        elif kind == 3 and self.down is None:
            self.down = chance.randrange(3)
            controls.crash_broker(self.down)
        elif kind == 4 and self.down is not None:
            controls.restart_broker(self.down)
            self.down = None
        elif kind == 5:
            controls.hold(ProduceRequest, times=1)
        elif kind == 6:
            controls.release(ProduceRequest)
        elif kind == 7:
            in_sync = self.cluster.partition("orders", 0).isr
            if len(in_sync) == 3:
                controls.move_leader(("orders", 0), chance.choice(in_sync))
        self.simulation.sleep(chance.choice([0, 0.001, 0.01, 0.1, 1, 4]))

    def end(self) -> None:
        self.cluster.controls.clear()
        self.cluster.controls.heal()
        if self.down is not None:
            self.cluster.controls.restart_broker(self.down)


@attrs.define
class Outcomes:
    """The producer's outcome of each record, once each."""

    written: dict[int, RecordMetadata] = attrs.field(factory=dict)
    failed: dict[int, KafkaError] = attrs.field(factory=dict)

    def of(self, number: int) -> OnDelivery:
        def on_delivery(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            assert number not in self.written
            assert number not in self.failed
            if metadata is not None:
                self.written[number] = metadata
            elif error is not None:
                self.failed[number] = error

        return on_delivery


def send_through(storm: Storm, producer: KafkaProducer, outcomes: Outcomes) -> int:
    """Record n goes to partition n modulo 2; the number of records."""
    sent = 0
    for _ in range(STEPS):
        for _ in range(storm.chance.randrange(1, 50)):
            producer.send("orders", b"%d" % sent, partition=sent % 2, on_delivery=outcomes.of(sent))
            sent += 1
        storm.strike()
    storm.end()
    producer.flush(timeout=300)
    return sent


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_in_long(range(6), in_gate=3))
def test_storm_loses_duplicates_or_reorders_no_record(seed: int) -> None:
    chance = random.Random(seed)
    patience_ms = chance.choice([120_000, 8_000])
    with Simulation(seed=seed) as simulation:
        cluster = simulation.cluster(brokers=3, topics={"orders": 2})
        producer = simulation.producer(
            cluster,
            batch_size=chance.choice([0, 200, 1000]),
            linger_ms=chance.choice([0, 5, 50]),
            request_timeout_ms=3000,
            delivery_timeout_ms=patience_ms,
        )
        outcomes = Outcomes()
        sent = send_through(Storm(simulation, cluster, chance), producer, outcomes)
        assert len(outcomes.written) + len(outcomes.failed) == sent
        if patience_ms == 120_000:  # a storm is over before that, and all its errors can be retried
            assert not outcomes.failed
        for partition in (0, 1):
            log = [int(value or b"") for value in cluster.log("orders", partition).values()]
            assert log == sorted(set(log)), "doubled, or out of order"
            acknowledged = {number for number in outcomes.written if number % 2 == partition}
            assert acknowledged <= set(log), "lost"
            offsets = {number: offset for offset, number in enumerate(log)}
            assert all(outcomes.written[number].offset == offsets[number] for number in acknowledged)
        assert producer.health()["buffer_available_bytes"] == 33554432
