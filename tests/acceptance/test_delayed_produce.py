"""acks=all ends at the high watermark, at its timeout with the data kept, or in too small an ISR.

In virtual time, one request at a time over a plain connection.  The refusal before the append is in
tests/broker/handlers/test_produce.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Simulation
from pykafka2.testing.cluster import Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import partition_of, produce_request
from tests.broker.support.raw_client import RawClient
from tests.error_codes import (
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)

NONE = 0
WAIT = 5000


class Scene:
    """Two brokers, one partition that wants both, and a connection to its leader."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        topics = {"t": Topic(1, 2, {"min.insync.replicas": 2})}
        self.cluster: KafkaCluster = simulation.cluster(brokers=2, topics=topics)
        self.leader = self.cluster.partition("t", 0).leader
        self.wire = RawClient(self.cluster.brokers[self.leader].address, simulation=simulation)

    def send(self, value: bytes, timeout_ms: int = WAIT) -> None:
        self.wire.send(produce_request("t", 0, batch([value]), timeout_ms=timeout_ms), 12)

    def code(self) -> int:
        return partition_of(self.wire.receive(ProduceRequest, 12)[1]).error_code

    @property
    def values(self) -> list[bytes | None]:
        return self.cluster.log("t", 0).values()


@pytest.fixture
def scene(simulation: Simulation) -> Iterator[Scene]:
    made = Scene(simulation)
    yield made
    made.wire.close()


def test_produce_with_acks_all_completes_when_the_high_watermark_passes(scene: Scene) -> None:
    controls, simulation = scene.cluster.controls, scene.simulation
    scene.send(b"warm")
    assert scene.code() == NONE
    controls.pause_followers()
    simulation.run_for(1.0)
    scene.send(b"1")
    simulation.run_for(2.0)
    assert scene.values == [b"warm", b"1"]
    assert scene.cluster.log("t", 0).high_watermark == 1
    assert not scene.wire.has_response()
    controls.resume_followers()
    assert scene.code() == NONE
    assert scene.cluster.log("t", 0).high_watermark == 2


def test_produce_timeout_returns_request_timed_out_and_keeps_the_data(scene: Scene) -> None:
    scene.cluster.controls.pause_followers()
    scene.simulation.run_for(1.0)
    started = scene.simulation.now
    scene.send(b"kept", timeout_ms=3000)
    assert scene.code() == REQUEST_TIMED_OUT
    assert scene.simulation.now - started == pytest.approx(3.0, abs=0.1)
    assert scene.values == [b"kept"]
    scene.cluster.controls.resume_followers()
    assert scene.simulation.wait_until(lambda: scene.cluster.log("t", 0).high_watermark == 1, 10)


def test_produce_timeout_keeps_the_results_of_finished_partitions(scene: Scene) -> None:
    """One request: a partition without followers is done, one is refused, one waits in vain."""
    leader = scene.leader
    scene.cluster.create_topic("alone", assignment=[[leader]])
    scene.simulation.run_for(1.0)
    scene.cluster.controls.pause_followers()
    scene.simulation.run_for(1.0)
    request = produce_request("t", 0, batch([b"waits"]), timeout_ms=3000)
    for topic, records in (("alone", batch([b"done"])), ("missing", batch())):
        request.topic_data += produce_request(topic, 0, records).topic_data
    scene.wire.send(request, 12)
    answer = scene.wire.receive(ProduceRequest, 12)[1]
    codes = {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}
    assert codes == {"t": REQUEST_TIMED_OUT, "alone": NONE, "missing": UNKNOWN_TOPIC_OR_PARTITION}
    offsets = {topic.name: topic.partition_responses[0].base_offset for topic in answer.responses}
    assert offsets["alone"] == 0


def test_isr_that_shrinks_after_the_append_returns_an_error_and_keeps_the_data(scene: Scene) -> None:
    """The minimum is one while the batch waits with two in sync; the follower has it, then the minimum rises.

    With a minimum that the ISR no longer reaches the high watermark stands still in 4.x, so what is answered
    then is the timeout: NOT_ENOUGH_REPLICAS_AFTER_APPEND needs a high watermark that has passed already.
    """
    cluster, leader = scene.cluster, scene.leader
    cluster.controls.pause_followers()
    scene.simulation.run_for(1.0)
    scene.send(b"appended")
    scene.simulation.run_for(0.5)
    assert scene.values == [b"appended"]
    with cluster.lock:
        broker = cluster.brokers[leader]
        replica = broker.replicas.replicas["t", 0]
        replica.log.advance_high_watermark(1)
    cluster.controls.stop_broker(1 - leader)
    assert scene.code() == NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert scene.values == [b"appended"]
