"""The ledger's topic: how it is created, and what the first read of a long one costs."""

from __future__ import annotations

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer
from pykafka2.errors import ConfigurationError
from pykafka2.testing import KafkaCluster
from spark_connector.sink.exactly_once import ledger as ledger_module
from spark_connector.sink.exactly_once.identity import BatchIdentity
from spark_connector.sink.exactly_once.ledger import TopicSettings
from spark_connector.sink.exactly_once.ledger_state import LedgerState
from spark_connector.sink.exactly_once.runner import Cluster
from tests.spark.test_exactly_once import World, _hooked, world

__all__ = ["_hooked", "world"]  # fixtures


@pytest.mark.parametrize(
    ("brokers", "settings", "expected"),
    [
        (1, TopicSettings(), (1, "1")),
        (2, TopicSettings(), (2, "1")),
        (3, TopicSettings(), (3, "2")),
        (7, TopicSettings(), (3, "2")),
        (7, TopicSettings(replication_factor=5), (5, "4")),
        (7, TopicSettings(replication_factor=5, min_insync_replicas=3), (5, "3")),
    ],
)
def test_replicas_of_a_new_ledger_follow_the_number_of_brokers(
    brokers: int, settings: TopicSettings, expected: tuple[int, str]
) -> None:
    new = settings.new_topic("ledger", brokers)
    assert (new.replication_factor, new.configs["min.insync.replicas"]) == expected
    assert (new.partitions, new.configs["cleanup.policy"]) == (2, "compact")


def test_options_of_the_ledger_reach_its_topic() -> None:
    options = World("localhost:1", "t").options(
        ledgerReplicationFactor="2",
        ledgerMinInsyncReplicas="2",
        ledgerSegmentBytes="2m",
        ledgerSegmentMs="5m",
    )
    new = TopicSettings.of(options).new_topic("ledger", 9)
    assert new.replication_factor == 2
    assert {name: new.configs[name] for name in ("min.insync.replicas", "segment.bytes", "segment.ms")} == {
        "min.insync.replicas": "2",
        "segment.bytes": "2097152",
        "segment.ms": "300000",
    }


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ledgerReplicationFactor": "2", "ledgerMinInsyncReplicas": "3"}, "could never be written"),
        ({"ledgerSegmentBytes": "1000"}, "below 1048576"),
        ({"ledgerReplicationFactor": "0"}, "ledgerReplicationFactor='0'"),
    ],
)
def test_settings_that_no_broker_accepts_are_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        World("localhost:1", "t").options(**settings)


@pytest.mark.slow
def test_new_ledger_on_three_brokers_has_three_replicas() -> None:
    with KafkaCluster(brokers=3, topics={"t": 1}) as cluster:
        three = World(cluster.bootstrap_servers, "t")
        Cluster(three.options(), three.query).ledger.ensure()
        name = f"ledger-{three.query}"
        with KafkaAdminClient(bootstrap_servers=three.servers) as admin:
            (first, second) = admin.describe_topics([name])[name].partitions
        assert len(first.replicas) == len(second.replicas) == 3


@pytest.mark.slow
def test_first_read_of_a_long_ledger_reads_only_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "FIRST_WINDOW", 4)
    options = world.options()
    busy, idle = (Cluster(options, f"{world.query}-{name}").ledger for name in ("busy", "idle"))
    states = {}
    for name, ledger, batches in (("idle", idle, 1), ("busy", busy, 30)):
        state = ledger.own(None)
        for batch in range(batches):
            state = state.done(batch, BatchIdentity(None, 1, ()), 0)
            ledger.write(state)
        states[name] = state
    ledger_module._read.clear()
    read: list[int] = []
    read_range = KafkaConsumer.read_range

    def counting(self: KafkaConsumer, place: object, start: int, end: int, **more: object) -> object:
        read.append(end - start)
        return read_range(self, place, start, end, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(KafkaConsumer, "read_range", counting)
    assert busy.read(fresh=True) == states["busy"]
    assert sum(read) <= 4
    assert idle.read(fresh=True) == states["idle"]
    assert sum(read) <= 70
    nobody = Cluster(options, "nobody").ledger
    assert nobody.read(fresh=True) == LedgerState("nobody")
