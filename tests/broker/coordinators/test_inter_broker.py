"""Requests of one broker to another: one outcome each, none for a broker that has stopped since."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import KafkaError, KafkaTimeoutError, LinkCut
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation

METADATA = MetadataRequest(topics=None)


class PendingRequest:
    """A request of broker 0 to broker 1 on its way over the links, and its outcomes."""

    def __init__(self, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, now: float) -> None:
        self.outcomes: list[MetadataResponse | KafkaError] = []
        self.calls: list[tuple[Any, ...]] = []
        with monkeypatch.context() as patch, cluster.lock:
            patch.setattr(cluster.links, "call", lambda *call: self.calls.append(call))
            cluster.broker(0).parts.inter_broker.send(1, METADATA, 13, self.hear, self.hear, 5.0, now)

    def hear(self, outcome: MetadataResponse | KafkaError, now: float) -> None:
        self.outcomes.append(outcome)

    def fail(self, now: float) -> None:
        """The links report the loss."""
        ((*_, on_failure, _),) = self.calls
        on_failure(LinkCut("lost"), now)


def test_request_between_brokers_has_one_outcome(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = simulation.cluster(brokers=2)
    pending = PendingRequest(cluster, monkeypatch, simulation.now)
    with cluster.lock:
        pending.fail(simulation.now)
        pending.fail(simulation.now)
    simulation.run_for(10.0)
    assert list(map(type, pending.outcomes)) == [LinkCut]


def test_request_between_brokers_times_out(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = simulation.cluster(brokers=2)
    pending = PendingRequest(cluster, monkeypatch, simulation.now)
    simulation.run_for(10.0)
    assert list(map(type, pending.outcomes)) == [KafkaTimeoutError]


def test_crashed_broker_gets_no_response_to_earlier_requests(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the coordinators from before a restart would send requests in its name."""
    cluster = simulation.cluster(brokers=2)
    pending = PendingRequest(cluster, monkeypatch, simulation.now)
    cluster.controls.crash_broker(0)
    cluster.controls.restart_broker(0)
    with cluster.lock:
        pending.fail(simulation.now)
    simulation.run_for(10.0)
    assert pending.outcomes == []
