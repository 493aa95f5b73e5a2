"""How long a broker is waited for that takes a connection and says nothing; in virtual time."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from tests.cluster.scripted import Hold, ScriptedCluster

SETUP_TIMEOUT = 10.0  # socket_connection_setup_timeout_ms, by default
LONGEST_JITTER = 1.2


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster(brokers=3, topics={"orders": [0, 1, 2]})


def wait_for_connection(cluster: ScriptedCluster, client: ClusterClient, node: int, at_most: float) -> float:
    """Want it until it is there; the seconds that took."""
    started = cluster.now
    while not client.router.is_ready(node, cluster.now) and cluster.now < started + at_most:
        cluster.runtime.run_for(0.1)
    return cluster.now - started


def test_refused_attempts_do_not_make_a_silent_one_be_waited_for_longer(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    broker = cluster.brokers[2]
    broker.is_up = False
    wait_for_connection(cluster, client, 2, at_most=5)
    # A proxy that is up before the broker behind it: it accepts the connection, and no response ever comes.
    broker.is_up = True
    broker.on(ApiVersionsRequest, lambda request, broker: Hold())
    wait_for_connection(cluster, client, 2, at_most=2)
    broker.handlers.clear()
    assert wait_for_connection(cluster, client, 2, at_most=60) < SETUP_TIMEOUT * LONGEST_JITTER


def test_timed_out_connection_attempts_get_longer_up_to_the_maximum(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    begun: list[float] = []

    def hold(request: object, broker: object) -> Hold:
        begun.append(cluster.now)
        return Hold()

    cluster.brokers[2].on(ApiVersionsRequest, hold)
    wait_for_connection(cluster, client, 2, at_most=120)
    waits = [after - before for before, after in pairwise(begun)]
    assert 8 <= waits[0] < 13 < 16 <= waits[1] < 25
    assert all(24 <= wait < 38 for wait in waits[2:])
