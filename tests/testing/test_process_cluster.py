"""A cluster in a child process: the same controls, rules, history and views; it dies with its parent."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka2.broker.faults.rule import FaultRule
from pykafka2.errors import (
    ConfigurationError,
    IllegalState,
    NotLeaderOrFollower,
    TopicAlreadyExists,
    UnknownOption,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Topic
from pykafka2.testing.remote.cluster import ProcessCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch, produce
from tests.broker.support.raw_client import RawClient
from tests.error_codes import NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT

METADATA = MetadataRequest(topics=None)


@pytest.fixture(scope="module")
def process_cluster() -> Iterator[ProcessCluster]:
    with KafkaCluster(
        brokers=3,
        topics={"t": 1, "sized": Topic(partitions=2, replication_factor=2)},
        config={"num.partitions": 3},
        process=True,
    ) as made:
        assert isinstance(made, ProcessCluster)
        yield made


@pytest.fixture
def cluster(process_cluster: ProcessCluster) -> Iterator[ProcessCluster]:
    yield process_cluster
    process_cluster.controls.clear()
    process_cluster.controls.heal()
    process_cluster.history.clear()


@pytest.fixture
def wire(cluster: ProcessCluster) -> Iterator[RawClient]:
    with RawClient(cluster.brokers[cluster.partition("t", 0).leader].address) as made:
        yield made


def test_rules_as_data_and_in_short(cluster: ProcessCluster, wire: RawClient) -> None:
    controls = cluster.controls
    word = controls.fail_next(ProduceRequest, NotLeaderOrFollower)
    rule = controls.rule(api="Produce", nth=3, then="error:REQUEST_TIMED_OUT")
    made = controls.add_rule(FaultRule(api="Produce", nth=4, then="error:NOT_LEADER_OR_FOLLOWER"))
    assert [produce(wire, "t", 0, batch()).error_code for _ in range(5)] == [
        NOT_LEADER_OR_FOLLOWER,
        0,
        REQUEST_TIMED_OUT,
        NOT_LEADER_OR_FOLLOWER,
        0,
    ]
    assert [one.fired for one in (word, rule, made)] == [1, 1, 1]
    assert rule.is_spent
    assert (rule.then, rule.nth, rule.topic) == ("error:REQUEST_TIMED_OUT", 3, None)
    with pytest.raises(AttributeError, match="did you mean 'then'"):
        assert rule.thn  # type: ignore[attr-defined]
    assert [one.id for one in controls.rules()] == [word.id, rule.id, made.id]
    held = controls.hold("Metadata")
    controls.remove_rule(held)
    assert wire.call(METADATA, 12).topics


def test_set_quota_accepts_and_rejects_the_same_numbers_as_in_one_process(cluster: ProcessCluster) -> None:
    controls = cluster.controls
    controls.set_quota(client_id="app", request_percentage=5)
    with pytest.raises(ConfigurationError, match="request_percentage=nan is illegal"):
        controls.set_quota(client_id="app", request_percentage=float("nan"))
    with pytest.raises(ConfigurationError, match="producer_byte_rate=inf is illegal"):
        controls.set_quota(client_id="app", producer_byte_rate=float("inf"))
    assert controls.quotas() == [{"client_id": "app", "quotas": {"request_percentage": 5.0}}]
    controls.clear_quotas()


def test_throttles_begin_and_end(cluster: ProcessCluster, wire: RawClient) -> None:
    controls = cluster.controls
    longer, other = controls.throttle("wire", MetadataRequest, 0.01), controls.throttle("other", "Fetch", 9)
    assert wire.call(METADATA, 12).throttle_time_ms == 10
    assert [one.fired for one in controls.throttles()] == [longer.fired, other.fired] == [1, 0]
    controls.unthrottle(longer)
    assert wire.call(METADATA, 12).throttle_time_ms == 0
    with pytest.raises(ConfigurationError, match="no throttle has the id 77"):
        controls.unthrottle(77)
    controls.throttle("wire", MetadataRequest, 0.01)
    cluster.controls.unthrottle()
    assert wire.call(METADATA, 12).throttle_time_ms == 0


@pytest.mark.gate
def test_replies_may_be_replaced_by_data(cluster: ProcessCluster, wire: RawClient) -> None:
    whole = MetadataResponse(brokers=[], topics=[], cluster_id="elsewhere")
    cluster.controls.rule(api="Metadata", times=1, then="replace_reply", reply=whole)
    assert wire.call(METADATA, 12) == whole
    cluster.controls.rule(api="Metadata", times=1, then="replace_reply", reply={"throttle_time_ms": 9})
    changed = wire.call(METADATA, 12)
    assert (changed.throttle_time_ms, len(changed.brokers)) == (9, 3)


def test_functions_cannot_cross(cluster: ProcessCluster) -> None:
    for name in ("where", "reply"):
        with pytest.raises(ConfigurationError, match=f"{name}: a function cannot be sent"):
            cluster.controls.rule(api="Produce", then="hold", **{name: lambda *_: None})
    with pytest.raises(ConfigurationError, match="a function cannot be sent"):
        cluster.controls.add_rule(FaultRule(api="Produce", then="hold", where=lambda request: True))


@pytest.mark.gate
def test_misspelt_things_are_named_as_in_one_process(cluster: ProcessCluster) -> None:
    with pytest.raises(AttributeError, match="did you mean 'cut_link'"):
        cluster.controls.cut_lnik(0, 1)  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match="did you mean 'Produce'"):
        cluster.controls.rule(api="Prodduce", then="hold")
    with pytest.raises(ConfigurationError, match="Unknown broker 9"):
        cluster.controls.crash_broker(9)
    with pytest.raises(ConfigurationError, match="Unknown broker '1'"):
        cluster.controls.crash_broker("1")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="did you mean 'client_id'"):
        cluster.history.count("Produce", clinet_id="wire")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="did you mean 'leader'"):
        cluster.events.events("leadr")
    with pytest.raises(TopicAlreadyExists):
        cluster.create_topic("t")
    with pytest.raises(UnknownTopicOrPartition):
        cluster.partition("nowhere", 0)
    with pytest.raises(TypeError, match="missing a required argument"):
        cluster.controls.cut_link(1)  # type: ignore[call-arg]
    for name in ("lock", "loops", "runtime"):
        with pytest.raises(IllegalState, match="own process"):
            getattr(cluster, name)


def test_history_views_and_timeline(cluster: ProcessCluster, wire: RawClient) -> None:
    produce(wire, "t", 0, batch([b"a", b"b"]))
    produce(wire, "t", 0, batch([b"c"]), acks=1)
    fetch(wire, "t", 0, 0)
    history = cluster.history
    history.order("Produce", ("Produce", lambda request: request.acks == 1), "Fetch")
    history.never("Metadata")
    first = history.entries("Produce")[0]
    assert isinstance(first.request, ProduceRequest)
    assert first.request.topic_data[0].name == "t"
    assert history.count("Produce", since=first) == 1
    assert history.count("Fetch", since=first) == 1
    assert history.count("Produce", since=history.entries("Fetch")[0]) == 0
    assert len(history) == 3
    assert history.in_flight_max("Produce") == history.in_flight_max(ProduceRequest) == 1
    history.exactly(2, ProduceRequest, client_id="wire")
    (connection,) = cluster.connections("wire")
    assert connection.peer == "{}:{}".format(*wire.socket.getsockname())
    assert cluster.wait_until(lambda: history.entries("Fetch"))[0].answered_at
    assert cluster.log("t", 0).values()[-3:] == [b"a", b"b", b"c"]
    assert (cluster.controller.id, cluster.controller.epoch) == (0, 1)
    view = cluster.partition("sized", 1)
    assert len(view.replicas) == 2
    assert view.replicas[view.leader].is_leader
    assert cluster.topics() == ["sized", "t"]
    assert cluster.metrics().api("Produce").count >= 2
    assert "Produce" in cluster.metrics().names
    timeline = cluster.timeline()
    assert "Produce v12" in str(timeline)
    assert json.loads(timeline.json())["timeline"]
    cluster.create_topic("new")
    assert [event.facts["topic"] for event in cluster.events.events("topic")][-1:] == ["new"]
    cluster.delete_topic("new")
    cluster.forget()
    assert (len(history), len(cluster.timeline()), cluster.metrics().api("Produce").count) == (0, 0, 0)
    with pytest.raises(ConfigurationError, match="port and token"):
        cluster.open_admin_port(token="mine")
    assert cluster.open_admin_port().address.startswith("127.0.0.1:")


@pytest.mark.gate
def test_brokers_crash_and_come_back_and_isrs_move(cluster: ProcessCluster) -> None:
    view = cluster.partition("t", 0)
    follower, victim = sorted(set(view.isr) - {view.leader})
    cluster.controls.shrink_isr(("t", 0), follower)
    assert follower not in cluster.partition("t", 0).isr
    cluster.controls.expand_isr(("t", 0), follower)
    cluster.controls.crash_broker(victim)
    assert [broker.is_running for broker in cluster.brokers].count(False) == 1
    cluster.controls.restart_broker(victim)
    assert all(broker.is_running for broker in cluster.brokers)


def test_invalid_process_cluster_arguments_are_rejected_at_once() -> None:
    with pytest.raises(UnknownOption, match=r"did you mean 'num\.partitions'"):
        KafkaCluster(process=True, config={"num.partition": 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'broker'; did you mean 'brokers'"):
        KafkaCluster(process=True, broker=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="runtime= cannot be set"):
        KafkaCluster(process=True, runtime=object())  # type: ignore[arg-type]


@pytest.mark.gate
@pytest.mark.slow
def test_timeline_of_a_failed_block_is_available_afterwards() -> None:
    with pytest.raises(ZeroDivisionError), KafkaCluster(brokers=1, topics={"t": 1}, process=True) as cluster:
        raise ZeroDivisionError
    assert "t created" in str(cluster.timeline())


@pytest.mark.slow
def test_error_of_the_child_process_is_raised_here() -> None:
    with pytest.raises(ConfigurationError, match="2 brokers need 2 ports"):
        KafkaCluster(brokers=2, ports=[0], process=True).start()


@pytest.mark.gate
@pytest.mark.slow
def test_process_cluster_starts_within_a_second(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From Python's start to the first Metadata answer, with compiled modules.  Measured in the child's own
    time, end included, so that other work on the machine hardly counts; the quickest of three counts.  Half a
    second is what it takes on a quiet machine; cores that are shared are slower.
    """
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    took = []
    for _ in range(4):  # the first one compiles
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with KafkaCluster(process=True) as cluster, RawClient(cluster.brokers[0].address) as wire:
            wire.call(METADATA, 12)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if took[-1] < 0.5:  # on a quiet machine
            break
    assert min(took) < 2.0


@pytest.mark.gate
@pytest.mark.slow
def test_the_child_dies_with_its_parent_even_of_sigkill(tmp_path: Path) -> None:
    source = """
        import time
        from pykafka2.testing import KafkaCluster
        cluster = KafkaCluster(brokers=1, process=True).start()
        print(cluster.pid, flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 60
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(child)


def is_alive(pid: int) -> bool:
    """Zombies, which wait for the process that adopted them, count as dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
