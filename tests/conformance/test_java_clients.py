"""Java's clients in their corners, on both brokers: the short part of java_world.py.

Every method of Admin is held against what Apache Kafka answered when java_world.py recorded it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykafka2.errors import RebootstrapRequired
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster

from .behaviour.compare import differences
from .behaviour.golden import BUNDLED_CONFIG
from .bridge import Bridge
from .brokers import NUMBERS, Cluster
from .java_world import GOLDEN, RACKS
from .world.known import meant
from .world.on_clients import CASES, admin_answers

pytestmark = pytest.mark.real_kafka

RIGHT: dict[str, dict[str, Any]] = {
    "group: classic, cooperative, static": {
        "read": 100,
        "different": 100,
        "instance": "instance-2",
        "same partitions again": True,
        "rebalanced by its return": False,
        "committed": 50,
        "left": 2,
    },
    "times": {
        "by time": 5,
        "leader epoch": 0,
        "its time": -50_000,
        "of the future": "null",
        "first": 0,
        "end": 10,
        "by duration": "at 7",
    },
    "idempotent, five under way": {"offsets in order": True, "values in order": True},
    "transactions: classic": {
        "committed after abort": "null",
        "read committed": ["commit"],
        "read uncommitted": ["abort", "commit"],
        "committed at last": 5,
    },
}
"""Expected results of some of java_world.py's cases; the others take longer."""


# On Apache Kafka they are seen in `nox -s conformance`; here the bundled broker is in question.
@pytest.mark.parametrize(
    "cluster", ["bundled", pytest.param("apache", marks=pytest.mark.long)], indirect=True
)
@pytest.mark.parametrize("name", RIGHT)
def test_a_java_client_in_a_corner(name: str, cluster: Cluster, java: Bridge) -> None:
    item = {"bootstrap_servers": cluster.bootstrap_servers, "topic": f"corner-{next(NUMBERS)}", **CASES[name]}
    (answer,) = java("client_case", [item])
    assert {key: answer.get(key) for key in RIGHT[name]} == RIGHT[name]
    if name.startswith("transactions"):
        assert answer["a member that is gone"]["failed_with"] == "CommitFailedException"
        assert answer["a zombie"]["failed_with"] in (
            "InvalidProducerEpochException",
            "ProducerFencedException",
        )


def test_every_method_of_admin_is_answered_as_by_apache_kafka(java: Bridge) -> None:
    config = {name: value for name, value in BUNDLED_CONFIG.items() if name != "channel.mode"}
    with KafkaCluster(brokers=3, config=config, racks=RACKS) as cluster:
        answers = admin_answers(java, cluster.bootstrap_servers)
    assert answers["methods not called"] == []
    recorded = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert [str(one) for one in differences("admin", recorded, answers) if not meant(one)] == []


def test_java_client_continues_after_rebootstrap_required(java: Bridge) -> None:
    """KIP-1102: metadata has the error REBOOTSTRAP_REQUIRED, and the client restarts from its own list."""
    with KafkaCluster(brokers=3) as cluster:
        rule = cluster.controls.rule(
            api=MetadataRequest, then=RebootstrapRequired, client_id="again", nth=3, times=2
        )
        item = {"bootstrap_servers": cluster.bootstrap_servers, "case": "bootstrap_again", "topic": "again"}
        (answer,) = java("client_case", [item])
        assert rule.fired
    assert answer == {"read": 20}
