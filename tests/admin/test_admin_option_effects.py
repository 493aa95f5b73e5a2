"""Every option that the admin client declares itself has an effect; the common ones are the producer's."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.admin.options import ADMIN_OPTIONS
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.producer.test_producer_option_effects import SHOWN_BY as SHOWN_BY_PRODUCERS
from tests.shown_options import assert_shown, connections_to

HERE = "tests/admin/test_admin_option_effects.py"

OWN = {
    "allow_auto_create_topics": (HERE, "test_allow_auto_create_topics"),
    "client_id": (HERE, "test_client_id"),
    "connections_max_idle_ms": (HERE, "test_connections_max_idle_ms"),
    "default_api_timeout_ms": (HERE, "test_default_api_timeout_ms"),
}
NAMES = [option.name for option in ADMIN_OPTIONS.options.values()]
SHOWN_BY = {**{name: SHOWN_BY_PRODUCERS[name] for name in NAMES if name not in OWN}, **OWN}


def test_every_option_is_shown_by_a_test_that_exists() -> None:
    assert_shown(SHOWN_BY, NAMES)


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    return simulation.cluster(brokers=1)


def admin_of(simulation: Simulation, cluster: KafkaCluster, **options: Any) -> KafkaAdminClient:
    servers = cluster.bootstrap_servers
    return KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin"), **options)


@pytest.mark.parametrize("wanted", [True, False])
def test_allow_auto_create_topics(simulation: Simulation, cluster: KafkaCluster, wanted: bool) -> None:
    with admin_of(simulation, cluster, allow_auto_create_topics=wanted) as admin:
        with pytest.raises(KafkaError):
            admin.wait_for_topics(["not valid"], timeout=2)
        allowed = {request.allow_auto_topic_creation for request in cluster.history.requests(MetadataRequest)}
        assert (True in allowed) == wanted


def test_client_id(simulation: Simulation, cluster: KafkaCluster) -> None:
    with admin_of(simulation, cluster, client_id="till-7") as admin:
        admin.list_topics()
    assert {entry.client_id for entry in cluster.history.entries("Metadata")} == {"till-7"}


@pytest.mark.parametrize(("idle_ms", "connections"), [(300_000, 1), (1000, 2)])
def test_connections_max_idle_ms(
    simulation: Simulation, cluster: KafkaCluster, idle_ms: float, connections: int
) -> None:
    with admin_of(simulation, cluster, connections_max_idle_ms=idle_ms) as admin:
        admin.describe_log_dirs()
        before = len(connections_to(cluster, 0))
        simulation.sleep(3)
        admin.describe_log_dirs()
        assert len(connections_to(cluster, 0)) - before + 1 == connections


@pytest.mark.parametrize("timeout_ms", [30_000, 2000])
def test_default_api_timeout_ms(simulation: Simulation, cluster: KafkaCluster, timeout_ms: float) -> None:
    cluster.controls.rule(api="DescribeLogDirs", then="swallow")
    with admin_of(simulation, cluster, default_api_timeout_ms=timeout_ms) as admin:
        began = simulation.now
        with pytest.raises(KafkaError):
            admin.describe_log_dirs()
        assert simulation.now - began == pytest.approx(timeout_ms / 1000, abs=0.5)
