"""How well records compress is learned per topic, and decides how many of them fill a batch."""

from __future__ import annotations

import random

import pytest

from pykafka2.producer.accumulator.batch_sizes import CompressionRatios
from pykafka2.testing import KafkaCluster, Simulation


def test_compression_ratio_improves_slowly_and_worsens_at_once() -> None:
    ratios = CompressionRatios()
    assert ratios.ratio("orders") == 1.0
    ratios.observe("orders", 1000, 100)
    assert ratios.ratio("orders") == pytest.approx(0.995)
    for _ in range(500):
        ratios.observe("orders", 1000, 100)
    assert ratios.ratio("orders") == pytest.approx(0.1)
    ratios.observe("orders", 1000, 900)
    assert ratios.ratio("orders") == pytest.approx(0.9)
    ratios.observe("orders", 1000, 910)
    assert ratios.ratio("orders") == pytest.approx(0.95)
    assert ratios.ratio("payments") == 1.0


def test_a_few_small_records_in_a_large_frame_are_no_reason_for_smaller_batches() -> None:
    ratios = CompressionRatios()
    ratios.observe("orders", 8, 23)
    assert ratios.ratio("orders") == 1.0


def test_empty_batch_does_not_change_the_ratio() -> None:
    ratios = CompressionRatios()
    ratios.observe("orders", 0, 0)
    assert ratios.ratio("orders") == 1.0


@pytest.mark.gate
@pytest.mark.slow
def test_batches_of_a_topic_that_compresses_well_grow_towards_batch_size(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, compression_type="gzip", batch_size=2000, linger_ms=10)
    for _ in range(20):
        for _ in range(400):
            producer.send("orders", b"the same words again and again, " * 3)
        producer.flush(timeout=10)
    counts = [batch.count for batch in cluster.log("orders", 0).batches()]
    assert max(counts) >= 3 * counts[0]
    assert max(len(batch.buffer) for batch in cluster.log("orders", 0).batches()) <= 2000


@pytest.mark.gate
@pytest.mark.slow
def test_a_batch_never_holds_more_than_fits_a_request_uncompressed(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(
        cluster, compression_type="gzip", batch_size=2000, max_request_size=3000, linger_ms=10
    )
    # One by one: columns are cut before they are compressed.
    for _ in range(130):
        producer.send("orders", b"the same words again and again, " * 40)
        producer.flush(timeout=10)
    chance = random.Random(7)
    for _ in range(60):
        producer.send("orders", chance.randbytes(100))
    producer.flush(timeout=10)
    assert max(len(batch.buffer) for batch in cluster.log("orders", 0).batches()) <= 3000
