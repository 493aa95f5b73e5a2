"""Starting and ending a cluster, its configuration, what can be seen of it."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.controller.topics import Host, place
from pykafka2.broker.lifecycle import BrokerState
from pykafka2.clock import SystemClock, SystemEntropy
from pykafka2.errors import (
    ConfigurationError,
    IllegalState,
    InvalidConfig,
    UnknownOption,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster, Topic, starting
from pykafka2.testing.fixtures.leaks import LeakCheck
from pykafka2.testing.simulation import Simulation
from pykafka2.testing.storage import new_cluster_id
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster
from tests.gate import rest_in_gate

METADATA = MetadataRequest(topics=None)


@pytest.mark.parametrize("threads", ["shared", "separate"])
def test_closed_cluster_leaves_no_thread_or_socket(threads: str) -> None:
    leaks = LeakCheck()
    with KafkaCluster(brokers=3, topics={"t": 3}, config={"threads": threads}) as cluster:
        assert leaks.found()
        wires = [RawClient(broker.address) for broker in cluster.brokers]
        for wire in wires:
            wire.call(METADATA, 12)
        cluster.controls.crash_broker(1)
        cluster.controls.restart_broker(1)
        for wire in wires:
            wire.close()
    assert leaks.found() == []


def test_the_default_is_one_thread_for_all_brokers() -> None:
    before = threading.active_count()
    with KafkaCluster(brokers=5):
        assert threading.active_count() == before + 1


def test_a_cluster_that_cannot_start_leaves_nothing_behind() -> None:
    leaks = LeakCheck()
    with KafkaCluster(brokers=1) as other:
        taken = other.brokers[0].port
        with pytest.raises(ConfigurationError, match=f"{taken}"):
            KafkaCluster(brokers=2, ports=[0, taken]).start()
    with pytest.raises(InvalidConfig, match="retention"):
        KafkaCluster(brokers=1, topics={"t": Topic(configs={"retention.mss": 1})}).start()
    assert leaks.found() == []


def test_brokers_are_numbered_from_0_and_listen_at_the_bootstrap_addresses() -> None:
    with KafkaCluster(brokers=3) as cluster:
        assert [broker.id for broker in cluster.brokers] == [0, 1, 2]
        assert cluster.bootstrap_servers == ",".join(f"127.0.0.1:{b.port}" for b in cluster.brokers)
        for address in cluster.bootstrap_servers.split(","):
            with RawClient(address) as wire:
                assert len(wire.call(METADATA, 12).brokers) == 3


def test_cluster_closes_once_and_cannot_be_used_afterwards() -> None:
    cluster = KafkaCluster(brokers=1)
    with pytest.raises(IllegalState, match="not running"):
        _ = cluster.bootstrap_servers
    with cluster, pytest.raises(IllegalState, match="already running"):
        cluster.start()
    cluster.close()
    with pytest.raises(IllegalState, match="not running"):
        cluster.create_topic("t")
    with cluster:
        assert cluster.topics() == []


def test_a_restarted_broker_keeps_its_port() -> None:
    with KafkaCluster(brokers=2) as cluster:
        port = cluster.brokers[0].port
        cluster.controls.crash_broker(0)
        assert not cluster.brokers[0].is_running
        with pytest.raises(ConnectionError):
            RawClient(f"127.0.0.1:{port}")
        cluster.controls.restart_broker(0)
        with RawClient(f"127.0.0.1:{port}") as wire:
            wire.call(METADATA, 12)


@pytest.mark.gate
def test_restarted_broker_releases_its_former_parts(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"t": 3})
    old = []
    for _ in range(3):
        simulation.run_for(1.0)  # its fetches wait at the other brokers
        old.append(weakref.ref(cluster.broker(1).parts))
        cluster.controls.restart_broker(1)
    simulation.run_for(2.0)
    gc.collect()
    assert [one() for one in old] == [None] * 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"brokers": 0}, "from 1"),
        ({"brokers": "three"}, "from 1"),
        ({"brokers": 2, "ports": [1]}, "2 brokers need 2 ports"),
        ({"topics": {"t": "six"}}, "'t'"),
        ({"config": {"num.partition": 3}}, "did you mean 'num.partitions'"),
        ({"config": {"num.partitions": 0}}, "num.partitions"),
        ({"config": {"channel.mode": "both"}}, "serial"),
        ({"config": {"auto.create.topics.enable": "maybe"}}, "true or false"),
    ],
)
def test_invalid_cluster_argument_is_rejected_by_name(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        KafkaCluster(**arguments)  # type: ignore[arg-type]


def test_an_unknown_configuration_is_an_unknown_option() -> None:
    with pytest.raises(UnknownOption, match="message"):
        BrokerConfig({"mesage.max.byte": 1})


def test_topic_configs_default_to_the_broker_configs() -> None:
    broker = BrokerConfig({"log.retention.ms": 5, "min.insync.replicas": 2})
    topic = TopicConfig({"cleanup.policy": "compact,delete"}, broker)
    assert (topic.get("retention.ms"), topic.text("retention.ms")) == (5, "5")
    assert topic.get("min.insync.replicas") == 2
    assert topic.is_compacted
    assert topic.text("cleanup.policy") == "compact,delete"
    assert topic.get("max.message.bytes") == 1048588


def test_default_replication_factor_is_three_or_the_number_of_brokers() -> None:
    for brokers, factor in ((1, 1), (2, 2), (3, 3), (5, 3)):
        with KafkaCluster(brokers=brokers, topics={"t": 1}) as cluster:
            assert len(cluster.partition("t", 0).replicas) == factor


def test_the_seed_decides_the_ids_of_topics() -> None:
    ids = []
    for seed in (1, 1, 2):
        with KafkaCluster(brokers=1, topics={"t": 1}, seed=seed) as cluster:
            ids.append(cluster.controller.image.topics["t"].id)
    assert ids[0] == ids[1]
    assert ids[0] != ids[2]


@pytest.mark.gate
def test_cluster_id_differs_between_two_clusters_and_between_two_starts_in_memory() -> None:
    one, other = KafkaCluster(brokers=1), KafkaCluster(brokers=1)
    ids = []
    with one, other:
        ids += [one.cluster_id, other.cluster_id]
    with one, KafkaCluster(brokers=1, process=True) as child:
        ids += [one.cluster_id, child.cluster_id]
    assert len(set(ids)) == 4
    assert {len(one) for one in ids} == {22}


def test_cluster_ids_of_a_simulation_come_from_both_seeds() -> None:
    def ids(seed: int, cluster_seed: int = 0) -> list[str]:
        with Simulation(seed=seed) as simulation:
            clusters = [
                simulation.cluster(brokers=1, host=f"{name}-{{id}}", seed=cluster_seed) for name in ("a", "b")
            ]
            return [cluster.cluster_id for cluster in clusters]

    assert ids(1) == ids(1)
    assert len({*ids(1), *ids(2), *ids(1, cluster_seed=3)}) == 6


def test_first_clusters_of_two_processes_and_of_two_starts_have_different_ids(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In two containers, both have the process id 1."""
    ids = []
    for process, second in ((1, 0), (2, 0), (1, 1), (1, 0)):
        monkeypatch.setattr(starting, "_numbers", count(1))
        monkeypatch.setattr(starting, "os", SimpleNamespace(getpid=lambda process=process: process))
        now_ns = (1_800_000_000 + second) * 10**9
        monkeypatch.setattr(SystemClock, "wall_ns", lambda self, now_ns=now_ns: now_ns)
        with KafkaCluster(brokers=1) as cluster:
            ids.append(cluster.cluster_id)
    assert len(set(ids)) == 3
    assert ids[0] == ids[3]


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_cluster_ids_differ_by_seed_and_identity_without_randomness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_on_disk: bool
) -> None:
    """The identity is the number of the cluster in its process, the process and the time of the start."""
    monkeypatch.setattr(SystemEntropy, "token_bytes", lambda self, count: bytes(count))
    monkeypatch.setattr(SystemClock, "wall_ns", lambda self: 1_800_000_000_000_000_000)

    def ids(seed: int) -> list[str]:
        roots = [tmp_path / f"{seed}-{name}" for name in "ab"] if is_on_disk else [None, None]
        clusters = [KafkaCluster(brokers=1, seed=seed, data_dir=root) for root in roots]
        with clusters[0], clusters[1]:
            return [cluster.cluster_id for cluster in clusters]

    assert len({*ids(1), *ids(2)}) == 4
    assert new_cluster_id(1, "a") == new_cluster_id(1, "a")
    assert len({new_cluster_id(seed, identity) for seed in (1, 2) for identity in "ab"}) == 4


@pytest.mark.parametrize(("brokers", "factor"), [(1, 1), (3, 1), (3, 2), (3, 3), (5, 3), (6, 2)])
def test_placement_balances_leaders_and_followers(brokers: int, factor: int) -> None:
    count = brokers * max(brokers - 1, 1) * 2
    placed = place([Host(broker) for broker in range(brokers)], count, factor, start=1)
    assert all(len(set(replicas)) == factor for replicas in placed)
    for position in range(factor):
        hosts = [replicas[position] for replicas in placed]
        assert {hosts.count(broker) for broker in range(brokers)} == {count // brokers}


@pytest.mark.gate
def test_a_thousand_partitions_are_created_quickly_and_lead() -> None:
    with KafkaCluster(brokers=3) as cluster:
        cluster.create_topic("wide", 1000)
        leaders = [cluster.partition("wide", number).leader for number in range(0, 1000, 97)]
        assert set(leaders) == {0, 1, 2}


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_log_and_partition_views_show_records_and_offsets(live: LiveCluster) -> None:
    produce(live.leader(), "t", 0, batch([b"a", None], keys=[b"k", None]))
    log = live.cluster.log("t", 0)
    assert (log.values(), log.keys()) == ([b"a", None], [b"k", None])
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, 2, 2)
    assert [one.count for one in log.batches()] == [2]
    view = live.cluster.partition("t", 0)
    assert view.replicas[view.leader].is_leader
    assert (view.high_watermark, view.log_end_offset, view.leader_epoch) == (2, 2, 0)
    with pytest.raises(UnknownTopicOrPartition):
        live.cluster.partition("t", 1)
    with pytest.raises(UnknownTopicOrPartition):
        live.cluster.log("nosuch", 0)


def test_a_loop_that_has_ended_is_not_silent() -> None:
    """A `BaseException` that is no `Exception` is not guarded against anywhere; for the others see
    server/test_internal_errors.py.
    """
    cluster = KafkaCluster(brokers=1).start()
    try:
        part = cluster.brokers[0].parts.timers

        def fail(now: float) -> float:
            raise SystemExit("planted")

        part.run = fail  # type: ignore[method-assign]
        part.signal()
        cluster.runtime.wait_until(lambda: cluster.loops.has_failed, 5.0)
        with pytest.raises(IllegalState, match="planted"):
            cluster.create_topic("t")
    finally:
        cluster.close()


def test_brokers_without_work_stay_alive(simulation: Simulation) -> None:
    """Heartbeats go on where nothing else wakes a broker's timers."""
    cluster = simulation.cluster(brokers=3)
    simulation.run_for(60.0)
    assert [broker.is_fenced for broker in cluster.controller.image.brokers.values()] == [False] * 3


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=3, config={"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 100})
def test_brokers_without_work_stay_alive_on_threads(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.runtime.wait_until(lambda: False, 3.5)
    assert [broker.is_fenced for broker in kafka_cluster.controller.image.brokers.values()] == [False] * 3


@pytest.mark.parametrize("process", rest_in_gate([False, True]))
def test_leaders_and_the_controller_are_chosen_at_the_start(process: bool) -> None:
    """The first replica of an assignment leads."""
    topic = Topic(assignment=[[2, 0], [1, 2], [2, 1]])
    with KafkaCluster(brokers=3, topics={"t": topic}, controller=1, process=process) as cluster:
        assert cluster.controller.id == 1
        assert [cluster.partition("t", number).leader for number in range(3)] == [2, 1, 2]
        assert sorted(cluster.partition("t", 1).replicas) == [1, 2]
        cluster.create_topic("u", assignment=[[0]])
        assert cluster.partition("u", 0).leader == 0


@pytest.mark.parametrize("threads", ["shared", "separate"])
def test_several_threads_restart_the_same_broker(threads: str) -> None:
    leaks = LeakCheck()
    failures: list[Exception] = []

    def restart(cluster: KafkaCluster) -> None:
        try:
            for _ in range(3):
                cluster.controls.restart_broker(1)
        except Exception as error:
            failures.append(error)

    with KafkaCluster(brokers=2, config={"threads": threads}) as cluster:
        callers = [threading.Thread(target=restart, args=(cluster,)) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert failures == []
        assert cluster.broker(1).is_running
    assert leaks.found() == []


def test_a_broker_does_not_start_in_a_cluster_that_has_ended() -> None:
    leaks = LeakCheck()
    with KafkaCluster(brokers=1) as cluster:
        broker = cluster.broker(0)
        broker.stop(crash=True)
    with pytest.raises(IllegalState, match="broker 0 cannot start: its cluster is closed"):
        broker.start()
    assert leaks.found() == []


def test_a_crash_does_not_wait_for_an_orderly_stop() -> None:
    with KafkaCluster(brokers=3, topics={"t": 3}) as cluster:
        cluster.controls.hold_elections()
        cluster.controls.slow_controller(60.0)
        stop = threading.Thread(target=cluster.controls.stop_broker, args=(1,))
        stop.start()
        cluster.wait_until(
            lambda: cluster.broker(1).lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        )
        started_at = time.monotonic()
        cluster.controls.crash_broker(1)
        assert time.monotonic() - started_at < 20  # the orderly stop takes 60 s
        stop.join()
        assert not cluster.broker(1).is_running


@pytest.mark.parametrize("threads", ["shared", "separate"])
def test_ctrl_c_while_a_cluster_closes_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    leaks = LeakCheck()
    cluster = KafkaCluster(brokers=3, config={"threads": threads}).start()
    broker = cluster.broker(1)

    def interrupted() -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(broker, "shut_down", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.close()
    assert leaks.found() == []
