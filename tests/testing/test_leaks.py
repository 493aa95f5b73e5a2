"""Leaks that the plugin reports, without a pytest run of their own."""

from __future__ import annotations

import socket

import pytest

from pykafka2 import KafkaProducer
from pykafka2.testing import KafkaCluster
from pykafka2.testing.fixtures.clusters import _open_transactions
from pykafka2.testing.fixtures.leaks import LeakCheck
from pykafka2.testing.simulation import Simulation
from tests.broker.support.transactions import A, ClusterTransactions, Producer


@pytest.mark.slow
def test_an_open_transaction_is_left_behind(simulation: Simulation) -> None:
    world = ClusterTransactions(simulation, brokers=1)
    assert _open_transactions(world.cluster, ()) == []
    assert Producer(world).begin().add(("t", 0)) == [0]
    assert _open_transactions(world.cluster, ()) == ["open transaction 'tid' (Ongoing)"]
    assert _open_transactions(world.cluster, ("transactions",)) == []


@pytest.mark.slow
def test_aborted_transaction_without_its_markers_is_no_leak(simulation: Simulation) -> None:
    world = ClusterTransactions(simulation)
    producer = Producer(world).begin()
    assert producer.add(A) == [0]
    world.hold_markers()
    assert world.end(producer.identity, committed=False).error_code == 0
    assert world.state == "PrepareAbort"
    assert _open_transactions(world.cluster, ()) == []
    world.finish()


@pytest.mark.slow
def test_connection_with_an_unread_swallowed_request_is_no_leak() -> None:
    """Its client has given it up; the broker, which never answers, does not see that."""
    with KafkaCluster(brokers=1, topics=["orders"]) as cluster:
        leaks = LeakCheck((), cluster.connections)
        cluster.controls.rule(api="Produce", nth=1, then="swallow")
        options = {"request_timeout_ms": 200, "linger_ms": 0, "retry_backoff_ms": 10}
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer:
            producer.send("orders", b"sent twice").result(10)
        cluster.controls.clear()
        assert cluster.wait_until(lambda: [one.is_read for one in cluster.connections()] == [False], 5)
        assert leaks.found() == []


@pytest.mark.slow
def test_a_client_that_waits_for_a_swallowed_request_is_named() -> None:
    with KafkaCluster(brokers=1) as cluster:
        leaks = LeakCheck((), cluster.connections)
        cluster.controls.rule(api="ApiVersions", nth=1, then="swallow")
        host, port = cluster.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port)), 5) as client:
            client.sendall(bytes.fromhex("00000018 0012 0000 00000001 000e") + b"somebody-waits")
            assert cluster.wait_until(lambda: [one.is_read for one in cluster.connections()] == [False], 5)
            near = ":".join(map(str, client.getsockname()))
            assert leaks.found() == [f"socket {near} -> {host}:{port}"]
