"""Brokers whose ids do not start at 0, and whose advertised addresses differ from their listeners'."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.admin import ConfigResource, NewTopic
from pykafka2.cli.main import main
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster, Listener, Simulation
from pykafka2.testing.quick import QUICK
from tests.broker.support.raw_client import RawClient
from tests.gate import rest_in_gate


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("process", rest_in_gate([False, True]))
def test_broker_ids_start_at_first_broker_id(process: bool) -> None:
    with KafkaCluster(
        brokers=3,
        topics={"orders": 3},
        first_broker_id=101,
        racks=["a", "b", "c"],
        config=QUICK,
        process=process,
    ) as cluster:
        assert [broker.id for broker in cluster.brokers] == [101, 102, 103]
        if not process:
            assert [broker.rack for broker in cluster.brokers] == ["a", "b", "c"]
        assert cluster.controller.id == 101
        servers = cluster.bootstrap_servers
        with KafkaProducer(bootstrap_servers=servers, transactional_id="copy") as producer:
            producer.init_transactions()
            with producer.transaction():
                for number in range(3):
                    producer.send("orders", b"%d" % number, partition=number)
        with KafkaConsumer(
            "orders",
            bootstrap_servers=servers,
            group_id="readers",
            auto_offset_reset="earliest",
            consumer_timeout_ms=5000,
        ) as consumer:
            assert sorted(next(consumer).value for _ in range(3)) == [b"0", b"1", b"2"]
        leader = cluster.partition("orders", 0).leader
        assert leader in (101, 102, 103)
        cluster.controls.crash_broker(leader)
        cluster.wait_until(lambda: cluster.partition("orders", 0).leader not in (leader, -1))
        cluster.controls.restart_broker(leader)
        with pytest.raises(ConfigurationError, match=r"Unknown broker 0\. Ids are 101 to 103"):
            cluster.controls.crash_broker(0)


def test_a_simulated_cluster_has_them_too(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics=["orders"], first_broker_id=7, controller=8)
    assert cluster.controller.id == 8
    producer = simulation.producer(cluster)
    assert producer.send("orders", b"v").result(10).offset == 0


def test_clients_get_the_advertised_addresses() -> None:
    with (
        KafkaCluster(
            brokers=2, advertised_host="kafka-{id}.test", advertised_ports=[19092, 19093]
        ) as cluster,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        addresses = [(node.host, node.port) for node in admin.describe_cluster(timeout=5).nodes]
        assert addresses == [("kafka-0.test", 19092), ("kafka-1.test", 19093)]
        assert all(broker.host == "127.0.0.1" for broker in cluster.brokers)
        configs = [broker.config.text("advertised.listeners") for broker in cluster.brokers]
        assert configs == ["PLAINTEXT://kafka-0.test:19092", "PLAINTEXT://kafka-1.test:19093"]
        assert cluster.brokers[0].config.text("listeners") == f"PLAINTEXT://{cluster.brokers[0].address}"


def test_clients_work_by_an_advertised_name() -> None:
    with (
        KafkaCluster(brokers=2, topics={"orders": 2}, advertised_host="localhost") as cluster,
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        places = [producer.send("orders", b"v", partition=number).result(10) for number in range(2)]
        assert [place.offset for place in places] == [0, 0]
        named = {broker.host for broker in cluster.brokers}
        assert named == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"first_broker_id": -1}, "first_broker_id=-1 is illegal. Set a number from 0 to 2147483645"),
        ({"first_broker_id": "7"}, "first_broker_id='7' is illegal. Set a number"),
        ({"first_broker_id": 7, "controller": 0}, "controller=0 is no broker. Set an id from 7 to 9"),
        ({"advertised_host": 3}, "advertised_host=3 is illegal. Set a name or an address"),
        ({"advertised_ports": [19092]}, "3 brokers need 3 advertised_ports, not 1"),
        ({"advertised_ports": 19092}, r"advertised_ports=19092 is illegal. Set a list, such as \[19092"),
    ],
)
def test_invalid_ids_and_addresses_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        KafkaCluster(**options)


def test_the_command_refuses_an_impossible_advertised_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--port", "0", "--advertised-port", "70000"]) != 0
    assert "--advertised-port 70000: use a number from 1 to 65533, or 0" in capsys.readouterr().err


EVERYWHERE = ("0.0.0.0", "::", "0:0::0", "0", "", "0.0", "00.0.0.0", "0x0", "::ffff:0.0.0.0", "::ffff:0:0")


@pytest.mark.parametrize("host", EVERYWHERE)
def test_host_of_all_interfaces_is_not_advertised(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"Set its advertised_host .*--advertised-host"):
        KafkaCluster(2, host=host)
    listeners = {"PLAINTEXT": None, "OTHER": Listener("PLAINTEXT", host=host or "0.0.0.0")}
    with pytest.raises(ConfigurationError, match="Listener OTHER"):
        KafkaCluster(2, listeners=listeners)
    with pytest.raises(ConfigurationError, match="advertised_host"):
        KafkaCluster(2, advertised_host=host or "0.0.0.0")


def test_brokers_on_all_interfaces_advertise_the_advertised_host() -> None:
    other = Listener("PLAINTEXT", host="0.0.0.0", advertised_host="localhost")
    listeners = {"PLAINTEXT": Listener(host="0.0.0.0"), "OTHER": other}
    with KafkaCluster(2, {"t": 1}, listeners=listeners, advertised_host="127.0.0.1") as cluster:
        for name, host in (("PLAINTEXT", "127.0.0.1"), ("OTHER", "localhost")):
            addresses = cluster.bootstrap_servers_of(name)
            assert [one.split(":")[0] for one in addresses.split(",")] == ["127.0.0.1"] * 2
            with RawClient(addresses.split(",")[1]) as wire:
                brokers = wire.call(MetadataRequest(topics=None), 12).brokers
                assert {node.host for node in brokers} == {host}
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("t", b"x").get(60)
        assert cluster.open_admin_port(host="0.0.0.0").address.startswith("127.0.0.1:")


@pytest.mark.parametrize("host", ["::1", "::"])
def test_addresses_of_ipv6_are_those_that_clients_accept(host: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with KafkaCluster(2, {"t": 1}, host=host, advertised_host="::1") as cluster:
        assert re.fullmatch(r"\[::1\]:\d+,\[::1\]:\d+", cluster.bootstrap_servers)
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("u")], wait_for_metadata=True)
            configs = admin.describe_configs([ConfigResource("broker", "0")])
        listeners = next(iter(configs.values()))
        assert f"PLAINTEXT://[{host}]:" in str(listeners["listeners"].value)
        assert "PLAINTEXT://[::1]:" in str(listeners["advertised.listeners"].value)
        port = cluster.open_admin_port(host=host)
        assert port.address.startswith("[::1]:")
        fields = {"Authorization": f"Bearer {port.token}"}
        request = urllib.request.Request(f"http://{port.address}/brokers", b"{}", fields)
        with urllib.request.urlopen(request, timeout=60) as response:
            views = json.load(response)["result"]
        assert ",".join(view["address"] for view in views) == cluster.bootstrap_servers
