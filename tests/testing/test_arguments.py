"""Arguments of a cluster of another kind than annotations say: the error names each and shows an example.

The same wherever the brokers are to run; nothing is started for it.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import ConfigurationError
from pykafka2.testing import KafkaCluster, Simulation
from tests.gate import rest_in_gate


@pytest.mark.parametrize("process", [False, True])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"topics": "orders"},
            r"topics='orders' is illegal. Set a list of names \['orders'\] or a dict \{'orders': 3\}",
        ),
        ({"topics": 3}, "topics=3 is illegal. Set a list of names"),
        ({"topics": ["orders", 3]}, r"topics=\['orders', 3\] is illegal. Set a list of names"),
        ({"topics": ["orders", "orders"]}, "topics=.* names 'orders' twice"),
        ({"config": ["message.max.bytes"]}, r"config=\['message.max.bytes'\] is illegal. Set a dict"),
        ({"features": ["transaction.version"]}, r"features=\['transaction.version'\] is illegal. Set a dict"),
        ({"racks": "abc"}, r"racks='abc' is illegal. Set a list, such as \['a', 'b', 'c'\]"),
        ({"racks": 3}, "racks=3 is illegal. Set a list"),
        ({"seed": None}, "seed=None is illegal. Set a number or text"),
        ({"seed": 0.5}, "seed=0.5 is illegal. Set a number or text"),
        ({"pipelined": "no"}, "pipelined='no' is illegal. Set True or False"),
        ({"history_entries": -1}, "history_entries=-1 is illegal. Set a number of at least 0"),
        ({"racks": ["a", 3]}, "rack 3 is illegal. Set a name of 1 to 32767 bytes"),
        ({"racks": ["a", ""]}, "rack '' is illegal. Set a name of"),
        ({"racks": ["x" * 40_000]}, "rack 'xx.* is illegal. Set a name of"),
        ({"racks": ["\ud800"]}, "rack .* is illegal. Set a name of"),
        ({"ports": 9092}, r"ports=9092 is illegal. Set a list, such as \[9092, 9093, 9094\]"),
        ({"controller": "0"}, "controller='0' is illegal. Set a number"),
        ({"history_entries": "3"}, "history_entries='3' is illegal. Set a number"),
        ({"tls": "cert.pem"}, "tls='cert.pem' is illegal. Set True, {'cert_file'"),
        ({"brokers": "3"}, "brokers='3' is illegal. Set a number from 1"),
    ],
)
def test_an_argument_of_another_kind_is_named(options: dict[str, Any], words: str, process: bool) -> None:
    with pytest.raises(ConfigurationError, match=words):
        KafkaCluster(process=process, **options)


@pytest.mark.parametrize("process", rest_in_gate([False, True]))
def test_topics_may_be_named_alone(process: bool) -> None:
    with KafkaCluster(brokers=1, topics=["orders", "audit"], process=process) as cluster:
        assert cluster.topics() == ["audit", "orders"]
        assert cluster.partition("orders", 0).leader == 0


def test_topics_of_a_simulated_cluster_may_be_named_alone(simulation: Simulation) -> None:
    assert simulation.cluster(brokers=1, topics=("orders",)).topics() == ["orders"]


@pytest.mark.kafka(brokers=1, topics=["orders"])
def test_topics_of_a_marker_may_be_named_alone(
    kafka_cluster: KafkaCluster, fresh_kafka_cluster: KafkaCluster
) -> None:
    assert kafka_cluster.topics() == fresh_kafka_cluster.topics() == ["orders"]
