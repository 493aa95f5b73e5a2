"""Two clusters swap the address of a broker while clients run (KIP-1242)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.testing import Topic
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation

ADDRESSES = {"a": [9000, 9001], "b": [9100, 9101]}
SWAPPED = {"a": [9100, 9001], "b": [9000, 9101]}
"""Broker 0 of each cluster is at the address of the other's; the second one is the bootstrap address."""


SASL = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "ann",
    "sasl_password": "secret",
}
"""With SASL the check follows authentication."""


def start(simulation: Simulation, name: str, ports: list[int], *, has_sasl: bool = False) -> KafkaCluster:
    return simulation.cluster(
        2,
        {"orders": Topic(2, 1)},
        seed=f"{simulation.seed}/{name}",
        host="host-{id}",
        ports=ports,
        data_dir=f"/{name}",
        as_version="4.4",
        listeners=["SASL_PLAINTEXT" if has_sasl else "PLAINTEXT"],
        users={"ann": "secret"} if has_sasl else None,
    )


class Side:
    """One cluster with a producer and a consumer, which bootstrap from its second broker."""

    def __init__(self, simulation: Simulation, name: str, **options: Any) -> None:
        self.simulation, self.name = simulation, name
        self.has_sasl = "sasl_username" in options
        self.cluster = start(simulation, name, ADDRESSES[name], has_sasl=self.has_sasl)
        self.cluster_id = self.cluster.cluster_id
        options["bootstrap_servers"] = f"host-1:{ADDRESSES[name][1]}"
        self.producer: KafkaProducer[Any, Any] = simulation.producer(
            self.cluster, client_id=f"producer-{name}", linger_ms=0, **options
        )
        self.consumer: KafkaConsumer[Any, Any] = simulation.consumer(
            self.cluster,
            "orders",
            client_id=f"consumer-{name}",
            group_id="readers",
            auto_offset_reset="earliest",
            **options,
        )
        self.sent: list[bytes] = []
        self.received: list[bytes] = []

    def send(self, count: int) -> None:
        for _ in range(count):
            value = b"%s-%d" % (self.name.encode(), len(self.sent))
            self.producer.send("orders", value, partition=len(self.sent) % 2)
            self.sent.append(value)

    def receive(self, seconds: float) -> None:
        """Poll until every record sent so far was received, at most for so long."""
        deadline = self.simulation.now + seconds
        while self.simulation.now < deadline and len(self.received) < len(self.sent):
            for records in self.consumer.poll(timeout_ms=500).values():
                self.received += [record.value for record in records]

    def requests_of(self, name: str) -> set[str]:
        """Return the APIs of requests from the clients of a cluster."""
        entries = self.cluster.history
        return {entry.api for entry in entries if (entry.client_id or "").endswith(f"-{name}")}


def swapped(
    simulation: Simulation, sides: dict[str, Side], meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Stop both clusters, then start them at the other's addresses; the clients go on meanwhile."""
    for side in sides.values():
        side.send(4)
        side.cluster.close()
        side.send(4)
    meanwhile()
    simulation.sleep(5)
    for name, side in sides.items():
        side.cluster = start(simulation, name, SWAPPED[name], has_sasl=side.has_sasl)


@pytest.mark.gate
@pytest.mark.parametrize("security", [{}, SASL], ids=["plaintext", "sasl"])
@pytest.mark.parametrize("seed", range(2))
def test_clients_of_two_clusters_that_swap_addresses_stay_with_their_own(
    seed: int, security: dict[str, str]
) -> None:
    with Simulation(seed) as simulation:
        check_swap(simulation, **security)


def check_swap(simulation: Simulation, **security: str) -> None:
    sides = {name: Side(simulation, name, **security) for name in ADDRESSES}
    allowed = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"} if security else {"ApiVersions"}
    for side in sides.values():
        side.send(10)
        side.receive(60)
    assert [len(side.received) for side in sides.values()] == [10, 10]
    swapped(simulation, sides)
    for side in sides.values():
        side.send(10)
        side.producer.flush(120)
        side.receive(120)
    for name, side in sides.items():
        assert side.cluster.cluster_id == side.cluster_id
        assert sorted(side.received) == sorted(side.sent)
        other = "b" if name == "a" else "a"
        assert side.requests_of(other) <= allowed
        assert "Produce" in side.requests_of(name)
        logs = [side.cluster.log("orders", number) for number in (0, 1)]
        assert sorted(value for log in logs for value in log.values()) == sorted(side.sent)


def test_without_the_check_requests_reach_the_other_cluster() -> None:
    with Simulation(1) as simulation:
        check_strangers(simulation)


def check_strangers(simulation: Simulation) -> None:
    sides = {name: Side(simulation, name, metadata_cluster_check_enable=False) for name in ADDRESSES}
    for side in sides.values():
        side.send(10)
        side.receive(60)
    swapped(simulation, sides)
    for side in sides.values():
        side.receive(10)
    strangers = sides["a"].requests_of("b") | sides["b"].requests_of("a")
    assert strangers > {"ApiVersions"}


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_transactions_groups_and_admins_stay_with_their_own_cluster(protocol: str) -> None:
    """A transaction is open while the clusters swap addresses, and its offsets are committed afterwards."""
    with Simulation(3) as simulation:
        check_transactions(simulation, protocol)


def check_transactions(simulation: Simulation, protocol: str) -> None:
    sides = {name: Side(simulation, name) for name in ADDRESSES}
    clients = {}
    for name, side in sides.items():
        servers = f"host-1:{ADDRESSES[name][1]}"
        copier: KafkaProducer[Any, Any] = simulation.producer(
            side.cluster,
            client_id=f"copier-{name}",
            bootstrap_servers=servers,
            transactional_id="copier",
            transaction_timeout_ms=600_000,
        )
        reader: KafkaConsumer[Any, Any] = simulation.consumer(
            side.cluster,
            "orders",
            client_id=f"reader-{name}",
            bootstrap_servers=servers,
            group_id="copies",
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        admin = KafkaAdminClient(
            runtime=simulation.runtime.at(f"admin-{name}"),
            client_id=f"admin-{name}",
            bootstrap_servers=servers,
        )
        clients[name] = copier, reader, admin
        side.send(10)
        side.producer.flush(60)
        copier.init_transactions()
        assert admin.describe_cluster().cluster_id == side.cluster_id
        copied = 0
        while copied < 10:
            copied += sum(map(len, reader.poll(timeout_ms=1000).values()))
        copier.begin_transaction()
        copier.send("orders", f"{name}-copy-1".encode(), partition=0).result(60)

    def copy() -> None:
        for name, (copier, _, _) in clients.items():
            for number in (0, 1):
                copier.send("orders", f"{name}-copy-2".encode(), partition=number)

    swapped(simulation, sides, copy)
    for name, side in sides.items():
        copier, reader, admin = clients[name]
        copier.send_offsets_to_transaction(reader.next_offsets(), reader.group_metadata(), timeout=120)
        copier.commit_transaction(timeout=120)
        assert admin.describe_cluster().cluster_id == side.cluster_id
        other = "b" if name == "a" else "a"
        assert side.requests_of(other) <= {"ApiVersions"}
        assert {"EndTxn", "TxnOffsetCommit"} <= side.requests_of(name)
        committed = admin.list_group_offsets("copies")
        assert sum(one.offset for one in committed.values()) == 10
        values = [value for number in (0, 1) for value in side.cluster.log("orders", number).values()]
        assert {value.partition(b"-")[0] for value in values} == {name.encode()}
        assert values.count(f"{name}-copy-2".encode()) == 2
        admin.close()
