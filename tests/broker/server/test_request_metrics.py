"""Histograms of a broker's requests."""

from __future__ import annotations

import json
import timeit
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.request_metrics import SPANS, Histogram, RequestMetrics
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch, produce, produce_request
from tests.connections import LiveCluster


@given(st.lists(st.floats(1e-5, 5000.0), min_size=1, max_size=200), st.floats(0, 100))
def test_a_percentile_is_at_most_an_eighth_too_high(durations: list[float], percent: float) -> None:
    histogram = Histogram()
    for duration in durations:
        histogram.add(duration)
    rank = max(1, -int(-len(durations) * percent // 100))
    exact = sorted(durations)[min(rank, len(durations)) - 1]
    assert exact * (1 - 1e-9) <= histogram.percentile(percent) <= exact * 1.1251


@pytest.mark.parametrize("odd", [0.0, -1.0, 1e-12, 1e9])
def test_odd_durations_are_counted_at_the_ends(odd: float) -> None:
    histogram = Histogram()
    histogram.add(odd)
    assert histogram.count == 1
    assert len(histogram.buckets()) == 1
    assert histogram.p50 == histogram.p999


def test_empty_histogram_has_zero_percentiles() -> None:
    assert (Histogram().p99, Histogram().mean, Histogram().count) == (0.0, 0.0, 0)
    with pytest.raises(ConfigurationError, match="from 0 to 100"):
        Histogram().percentile(101)


def test_adding_to_a_histogram_takes_constant_memory_and_time() -> None:
    histogram = Histogram()
    before = len(histogram._counts)
    for number in range(50_000):
        histogram.add(number * 1e-4)
    assert len(histogram._counts) == before
    # Far above the 0.4 us it takes, so that a busy machine does not matter.
    assert min(timeit.repeat(lambda: histogram.add(0.001), number=1000, repeat=5)) < 0.02


@pytest.mark.parametrize(
    ("taken", "handled", "answered", "spans"),
    [
        (12.0, 14.0, 17.0, (2.0, 2.0, 3.0, 4.0)),
        (12.0, 0.0, 17.0, (2.0, 5.0, 0.0, 4.0)),  # the handler itself sent the response
        (12.0, 18.0, 17.0, (2.0, 5.0, 0.0, 4.0)),
        (12.0, 11.0, 17.0, (2.0, 0.0, 5.0, 4.0)),
        (0.0, 0.0, 17.0, (0.0, 7.0, 0.0, 4.0)),  # a fault rule responded
        (0.0, 0.0, 0.0, (0.0, 0.0, 0.0, 11.0)),
    ],
)
def test_spans_of_a_request_are_those_between_its_times(
    taken: float, handled: float, answered: float, spans: tuple[float, ...]
) -> None:
    context = SimpleNamespace(
        api_key=MetadataRequest.API_KEY,
        received=SimpleNamespace(received_at=10.0, size_bytes=30),
        progress=SimpleNamespace(taken_at=taken, handled_at=handled, responded_at=answered),
        delivery=SimpleNamespace(response_bytes=400),
        is_from_broker=False,
    )
    metrics = RequestMetrics()
    metrics.record(cast(RequestContext, context), 21.0)
    found = metrics.api("Metadata")
    assert tuple(getattr(found, span).sum for span in SPANS) == (*spans, 11.0)
    assert (found.bytes_in, found.bytes_out, metrics.bytes_in, metrics.bytes_out) == (30, 400, 30, 400)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_requests_and_bytes_are_counted_by_api(live: LiveCluster) -> None:
    broker = live.cluster.brokers[live.leader_id()]
    follower = live.cluster.brokers[1 - broker.id]
    wire = live.leader()
    produce(wire, "t", 0, batch([bytes(5000)]))
    produce(wire, "t", 0, batch([bytes(5000)]), acks=1)
    live.wait_for(lambda: live.cluster.log("t", 0).high_watermark == 2)
    wire.send(produce_request("t", 0, batch(), acks=0), 12)
    live.wait_for(lambda: live.cluster.log("t", 0).high_watermark == 3)
    fetch(wire, "t", 0, 0)
    wire.call(MetadataRequest(topics=None), 12)
    metrics = broker.metrics
    live.wait_for(lambda: metrics.api("Metadata").count == 1)
    produced = metrics.api("Produce")
    assert produced.count == 3
    assert 10_000 < produced.bytes_in < 11_000
    assert 0 < produced.bytes_out < 500
    assert metrics.api("Fetch").bytes_out > 10_000
    assert metrics.bytes_in == sum(
        metrics.api(name).bytes_in for name in ("Produce", "Fetch", "Metadata", "ApiVersions")
    )
    live.wait_for(lambda: metrics.replication_bytes_out > 10_000)
    live.wait_for(lambda: follower.metrics.replication_bytes_in > 10_000)
    assert "FetchFollower" in metrics.names
    assert json.loads(json.dumps(metrics.as_dict()))["apis"]["Produce"]["total"]["count"] == 3
    metrics.clear()
    assert metrics.names == [] or metrics.api("Produce").count == 0


def test_a_misspelt_api_raises_and_names_the_nearest(kafka_cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'Produce'"):
        kafka_cluster.brokers[0].metrics.api("Prodcue")


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_wait_for_followers_is_remote_time(live: LiveCluster) -> None:
    broker = live.cluster.brokers[live.leader_id()]
    live.controls.delay_link(0, 1, 0.6)
    wire = live.leader()
    produce(wire, "t", 0, batch())
    produce(wire, "t", 0, batch(), acks=1)
    produced = broker.metrics.api("Produce")
    live.wait_for(lambda: produced.count == 2)
    assert produced.remote.max > 0.5
    assert produced.local.max < produced.remote.max
    assert produced.remote.p50 == 0.0 or produced.remote.p50 < 0.01


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_wait_behind_an_earlier_response_is_response_queue_time(live: LiveCluster) -> None:
    broker = live.cluster.brokers[live.leader_id()]
    live.controls.delay_link(0, 1, 1.0)
    wire = live.leader()
    wire.send(produce_request("t", 0, batch()), 12)
    wire.send(MetadataRequest(topics=None), 12)
    live.wait_for(lambda: broker.metrics.api("Metadata").count == 1)
    metadata = broker.metrics.api("Metadata")
    assert metadata.response_queue.max > 0.5
    assert metadata.local.max + metadata.remote.max < 0.5
