"""Views of a cluster in a test: requests with assertions, the timeline, metrics, typed views."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC
from pykafka2.broker.coordinators.replay import record_of
from pykafka2.broker.coordinators.replica_log import note_records
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.observed.history import MAX_CLIENTS, History
from pykafka2.broker.server.request_context import ReceivedRequest, RequestContext
from pykafka2.broker.server.request_metrics import SPANS
from pykafka2.errors import (
    ConfigurationError,
    CoordinatorNotAvailable,
    IllegalState,
    KafkaTimeoutError,
    TopicAlreadyExists,
)
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.consumer_group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from pykafka2.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch, produce, produce_request
from tests.broker.support.raw_client import RawClient
from tests.broker.support.transactions import ClusterTransactions, Producer
from tests.connections import LiveCluster

METADATA = MetadataRequest(topics=None)

one_broker = pytest.mark.kafka(brokers=1, topics={"t": 2})


def acks_one(request: ProduceRequest) -> bool:
    return request.acks == 1


@one_broker
def test_the_history_counts_and_filters(live: LiveCluster) -> None:
    history = live.history
    wire = live.leader()
    for acks in (1, -1, 1):
        produce(wire, "t", 0, batch(), acks=acks)
    wire.call(METADATA, 12)
    assert history.count("Produce") == 3
    assert history.count("Produce", where=acks_one) == 2
    assert history.count("Produce", client_id="another client") == 0
    assert [request.acks for request in history.requests("Produce", broker=0)] == [1, -1, 1]
    first, *others = history.entries()
    assert history.entries(since=first) == others
    assert history.entries(since=others[-1].received_at) == others[-1:]
    assert history.entries(peer=first.peer) == [first, *others]
    assert len(history.requests()) == 4
    # Names, keys and request classes, as for rules; a class gives typed requests.
    assert history.count(ProduceRequest) == history.count(0) == history.count("ProduceRequest") == 3
    assert [request.acks for request in history.requests(ProduceRequest)] == [1, -1, 1]
    history.order(MetadataRequest, since=others[-2])
    assert history.in_flight_max(ProduceRequest) == 1


def test_history_since_a_time_of_the_simulation_leaves_out_older_requests(simulation: Simulation) -> None:
    """History, events and simulation have one clock."""
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    wire = RawClient(cluster.brokers[0].address, simulation=simulation)
    for _ in range(2):
        wire.call(METADATA, 12)
    simulation.run_for(5.0)
    between = simulation.now
    cluster.controls.crash_broker(1)
    wire.call(METADATA, 12)
    wire.close()
    assert cluster.history.count("Metadata", since=between) == 1
    assert cluster.history.count("Metadata", since=0.0) == cluster.history.count("Metadata", since=0) == 3
    assert cluster.history.count("Metadata", since=round(between + 60)) == 0
    (entry,) = cluster.history.entries("Metadata", since=between)
    assert between <= entry.received_at <= (entry.answered_at or 0.0) <= simulation.now
    assert min(event.at for event in cluster.events.events("isr")) >= between
    assert max(event.at for event in cluster.events.events("cluster")) < between


@one_broker
def test_history_since_an_entry_of_another_api_leaves_out_older_requests(live: LiveCluster) -> None:
    history = live.history
    wire = live.leader()
    produce(wire, "t", 0, batch())
    for _ in range(2):
        wire.call(METADATA, 12)
    produce(wire, "t", 0, batch())
    first, second = history.entries("Metadata")
    assert history.count("Produce", since=first) == history.count("Produce", since=second) == 1
    assert history.count("Metadata", since=first) == 1


@one_broker
@pytest.mark.parametrize("since", [True, "1.0", (1, 2)])
def test_history_rejects_a_since_that_is_neither_a_time_nor_an_entry(
    kafka_cluster: KafkaCluster, since: object
) -> None:
    with pytest.raises(ConfigurationError, match="Set a time of the brokers' monotonic clock, or an entry"):
        kafka_cluster.history.entries(since=since)  # type: ignore[arg-type]


@one_broker
def test_in_flight_of_one_client(live: LiveCluster) -> None:
    live.controls.hold("Produce")
    address = live.cluster.brokers[0].address
    with RawClient(address, "one") as one, RawClient(address, "two") as two:
        one.send(produce_request("t", 0, batch()), 12)
        two.send(produce_request("t", 0, batch()), 12)
        live.wait_for(lambda: live.history.count("Produce") == 2)
        live.controls.release()
        for wire in (one, two):
            wire.receive(ProduceRequest, 12)
    history = live.history
    assert history.in_flight_max("Produce", client_id="one") == 1
    assert history.in_flight_max("Produce", client_id="nobody") == 0
    assert history.in_flight_max("Produce") == 1  # of one connection


def test_in_flight_maximum_is_kept_for_the_latest_clients() -> None:
    """Each name of a client was kept for ever."""
    history = History()
    origin: Any = SimpleNamespace(peer="p", is_broker=False, parts=("a", "b"), authentication=None)
    for number in range(2 * MAX_CLIENTS):
        for client in (f"client-{number}", "kept"):
            received = ReceivedRequest(MetadataRequest(topics=[]), 12, 1, client, 10, 0.0)
            context = RequestContext(origin, received)
            history.received(0, context)
            history.ended(context, None, 1.0)
    assert history.in_flight_max("Metadata") == 1
    assert history.in_flight_max("Metadata", client_id="kept") == 1
    assert history.in_flight_max("Metadata", client_id=f"client-{2 * MAX_CLIENTS - 1}") == 1
    assert history.in_flight_max("Metadata", client_id="client-0") == 0
    assert len(history._in_flight_max_of) == MAX_CLIENTS


@one_broker
def test_request_in_flight_at_a_history_clear_ends(live: LiveCluster) -> None:
    history = live.history
    wire = live.leader()
    live.controls.hold("Produce")
    wire.send(produce_request("t", 0, batch()), 12)
    live.wait_for(lambda: history.count("Produce") == 1)
    history.clear()
    live.controls.release()
    wire.receive(ProduceRequest, 12)
    produce(wire, "t", 0, batch())
    assert history.count("Produce") == 1
    assert history.in_flight_max("Produce") == 1


@pytest.mark.parametrize("crash", [True, False])
def test_requests_in_flight_at_a_stopped_broker_are_ended(simulation: Simulation, crash: bool) -> None:
    """Else the history would keep it, records and all, whatever its bounds."""
    cluster = simulation.cluster(brokers=1, topics={"t": 1})
    cluster.controls.hold("Produce")
    wire = RawClient(cluster.brokers[0].address, simulation=simulation)
    wire.send(produce_request("t", 0, batch()), 12)
    simulation.run_for(1)
    (entry,) = cluster.history.entries("Produce")
    assert entry.answered_at is None
    if crash:
        cluster.controls.crash_broker(0)
    else:
        cluster.controls.stop_broker(0)
    assert entry.answered_at is not None
    assert entry.response is None
    wire.close()


@one_broker
def test_never_and_order_report_the_requests_seen_instead(live: LiveCluster) -> None:
    history = live.history
    wire = live.leader()
    wire.call(METADATA, 12)
    produce(wire, "t", 0, batch())
    produce(wire, "t", 0, batch(), acks=1)
    history.never("Fetch")
    history.exactly(2, "Produce")
    history.exactly(0, "Fetch")
    with pytest.raises(AssertionError, match=r"2 Produce instead of 3; the last ones were\n  .*Produce v12"):
        history.exactly(3, "Produce", client_id="wire")
    with pytest.raises(AssertionError, match="0 requests instead of 1; there were none"):
        history.exactly(1, client_id="nobody")
    history.never("Produce", where=lambda request: request.acks == 0)
    with pytest.raises(AssertionError, match=r"1 times, first: .* Produce v12; ProduceRequest\(acks=1"):
        history.never("Produce", where=acks_one)
    history.order("Metadata", "Produce", ("Produce", acks_one))
    with pytest.raises(AssertionError, match=r"no Produce after Metadata, Produce, Produce; the last ones"):
        history.order("Metadata", "Produce", "Produce", "Produce")
    with pytest.raises(AssertionError, match=r"no Metadata after Produce"):
        history.order(("Produce", acks_one), "Metadata")
    with pytest.raises(AssertionError, match=r"no Fetch at all"):
        history.order("Fetch")
    with pytest.raises(ConfigurationError, match="did you mean 'Fetch'"):
        history.never("Fetsch")
    with pytest.raises(ConfigurationError, match="has no filter 'clinet_id'; did you mean 'client_id'"):
        history.count("Produce", clinet_id="wire")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="kind 'leadr'; did you mean 'leader'"):
        live.cluster.events.events("leadr")


def test_the_history_may_be_short_or_off(simulation: Simulation) -> None:
    for entries, kept in ((2, 2), (0, 0)):
        cluster = simulation.cluster(brokers=1, topics={"t": 1}, history_entries=entries)
        with simulation.producer(cluster) as producer:
            producer.send("t", b"x").result(timeout=30)
        assert len(cluster.history) == kept


# ---------------------------------------------------------------------- the timeline


@pytest.mark.kafka(brokers=3, topics={"t": 1})
def test_timeline_has_requests_and_events_in_order(live: LiveCluster) -> None:
    controls = live.controls
    controls.rule(api="Produce", nth=1, then="error:NOT_LEADER_OR_FOLLOWER")
    wire = live.leader()
    produce(wire, "t", 0, batch())
    produce(wire, "t", 0, batch())
    view = live.cluster.partition("t", 0)
    other, third = sorted(set(view.isr) - {view.leader})
    controls.shrink_isr(("t", 0), third)
    controls.move_leader(("t", 0), to=other)
    controls.crash_broker(third)
    timeline = live.cluster.timeline()
    items = timeline.as_list()
    assert [item["at"] for item in items] == sorted(item["at"] for item in items)
    produces = [item for item in items if item["kind"] == "request"]
    assert [item["errors"] for item in produces] == [["NOT_LEADER_OR_FOLLOWER"], []]
    assert produces[0]["partitions"] == ["t-0"]
    kinds = [item["kind"] for item in items]
    for earlier, later in (("fault", "isr"), ("isr", "leader")):
        assert kinds.index(earlier) < kinds.index(later)
    leaders = live.cluster.events.events("leader")
    assert [event.facts["leader"] for event in leaders] == [other]
    text = str(timeline)
    for part in ("NOT_LEADER_OR_FOLLOWER", f"t-0 is led by broker {other}", f"broker {third} crashed"):
        assert part in text
    assert "request times in ms" in text
    assert json.loads(timeline.json())["metrics"]["apis"]["Produce"]["total"]["count"] >= 2
    assert len(live.cluster.timeline(last=3)) == 3
    assert "earlier ones left out" in live.cluster.timeline(last=3).text()


def test_the_event_log_is_bounded() -> None:
    log = EventLog(max_events=3)
    for number in range(5):
        log.note(float(number), "fault", str(number))
    assert [event.text for event in log.events()] == ["2", "3", "4"]
    log.clear()
    assert log.events() == []


def test_equal_seeds_give_equal_timelines() -> None:
    def story(seed: int) -> list[str]:
        with Simulation(seed=seed) as simulation:
            cluster = simulation.cluster(brokers=3, topics={"t": 2})
            with simulation.producer(cluster) as producer:
                for number in range(20):
                    producer.send("t", b"%d" % number)
                producer.flush(timeout=30)
            cluster.controls.crash_broker(1)
            simulation.run_for(1.0)
            return str(cluster.timeline()).splitlines()

    assert story(5) == story(5)


@pytest.mark.slow
def test_groups_and_transactions_are_in_the_timeline(simulation: Simulation) -> None:
    world = ClusterTransactions(simulation, brokers=1)
    producer = Producer(world).begin()
    assert producer.add(("t", 0)) == [0]
    producer.end(committed=False)
    world.until("CompleteAbort")
    transactions = world.cluster.events.events("transaction")
    found = [event.facts["state"] for event in transactions if event.facts["transactional_id"] == "tid"]
    assert found == ["Empty", "Ongoing", "PrepareAbort", "CompleteAbort"]
    assert "transaction: tid is Ongoing, producer" in str(world.cluster.timeline())


def test_group_records_are_events_but_commits_are_not() -> None:
    log = EventLog()
    records = [
        record_of(
            GroupMetadataKey(group="g"),
            GroupMetadataValue(
                protocol_type="consumer", generation=3, protocol=None, leader=None, members=[]
            ),
        ),
        record_of(
            OffsetCommitKey(group="g", topic="t", partition=0),
            OffsetCommitValue(offset=5, metadata="", commit_timestamp=0),
        ),
        record_of(ConsumerGroupMetadataKey(group_id="k"), ConsumerGroupMetadataValue(epoch=7)),
        record_of(GroupMetadataKey(group="g"), None),
    ]
    note_records(log, OFFSETS_TOPIC, records, 1.0)
    assert [event.text for event in log.events("group")] == [
        "g is Empty, generation 3, 0 members",
        "k has epoch 7",
        "g was removed",
    ]


# ---------------------------------------------------------------------- metrics and views


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_metrics_of_all_brokers_together(live: LiveCluster) -> None:
    """Readable from Python, as data and in the timeline."""
    wire = live.leader()
    for _ in range(3):
        produce(wire, "t", 0, batch([b"x" * 1000]))
    fetch(wire, "t", 0, 0)
    live.wait_for(lambda: live.cluster.metrics().api("Fetch").count == 1)
    metrics = live.cluster.metrics()
    assert metrics.api("Produce").count == 3
    assert metrics.api("Produce").total.p50 <= metrics.api("Produce").total.p999
    assert metrics.bytes_in > 3000
    assert metrics.bytes_out > 3000
    assert metrics.replication_bytes > 3000
    data = json.loads(json.dumps(metrics.as_dict()))
    assert set(data["apis"]["Produce"]) == {*SPANS, "count", "bytes_in", "bytes_out"}
    assert set(data["brokers"]) == {"0", "1"}
    produce(wire, "t", 0, batch())
    assert metrics.api("Produce").count == 3  # a copy
    with pytest.raises(ConfigurationError, match="did you mean 'Produce'"):
        metrics.api("Prodduce")


def test_partition_view_has_the_last_caught_up_time_of_followers(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    leader = cluster.partition("t", 0).leader
    with simulation.producer(cluster) as producer:
        producer.send("t", b"x").result(timeout=30)
        simulation.run_for(3.0)
        before = cluster.partition("t", 0)
        cluster.controls.pause_followers()
        simulation.run_for(1.0)
        paused_at = simulation.clock.monotonic()
        producer.send("t", b"y")
        simulation.run_for(3.0)
        after = cluster.partition("t", 0)
        cluster.controls.resume_followers()
    assert before.replicas[leader].last_caught_up is None
    caught_up = after.replicas[1 - leader].last_caught_up
    assert caught_up is not None
    assert (before.replicas[1 - leader].last_caught_up or 0.0) <= caught_up <= paused_at
    follower = after.replicas[1 - leader]
    assert (follower.log_end_offset, follower.high_watermark, follower.log_start_offset) == (1, 1, 0)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_controllers_and_pauses_are_seen(kafka_cluster: KafkaCluster) -> None:
    before = kafka_cluster.controller.id, kafka_cluster.controller.epoch
    kafka_cluster.controls.move_controller(1 - before[0])
    kafka_cluster.controls.pause_broker(before[0])
    kafka_cluster.controls.resume_broker(before[0])
    assert kafka_cluster.controller.id == 1 - before[0]
    assert kafka_cluster.partition("t", 0).controller_epoch == kafka_cluster.controller.epoch == before[1] + 1
    found = [event.text for event in kafka_cluster.events.events("controller")]
    assert f"broker {1 - before[0]} is the controller in epoch {before[1] + 1}" in found
    states = [event.facts.get("state") for event in kafka_cluster.events.events("broker")]
    assert states[-2:] == ["paused", "resumed"]


# ---------------------------------------------------------------------- connections, waiting, forgetting


@one_broker
def test_rejected_controller_change_is_not_an_event_of_success(kafka_cluster: KafkaCluster) -> None:
    with pytest.raises(TopicAlreadyExists):
        kafka_cluster.create_topic("t")
    kafka_cluster.create_topic("u")
    *_, refused, made = kafka_cluster.events.events("controller")
    epoch = kafka_cluster.controller.epoch
    assert refused.text == f"controller 0 in epoch {epoch}: create topic t, TopicAlreadyExists"
    assert refused.facts["outcome"] == "TopicAlreadyExists"
    assert made.facts["outcome"] == "done"


@one_broker
def test_connections_view_lists_connected_clients(live: LiveCluster) -> None:
    address = live.cluster.brokers[0].address
    live.controls.hold("Produce")
    with RawClient(address, "orders-app") as sending, RawClient(address) as silent:
        sending.call(ApiVersionsRequest(client_software_name="their", client_software_version="2.1"), 3)
        sending.send(produce_request("t", 0, batch()), 12)
        live.cluster.wait_until(lambda: live.controls.held() == 1)
        live.wait_for(lambda: len(live.cluster.connections()) == 2)
        (one,) = live.cluster.connections("orders-app")
        assert (one.broker, one.software, one.in_flight, one.is_read) == (0, "their 2.1", 1, False)
        assert one.peer == "{}:{}".format(*sending.socket.getsockname())
        other = next(one for one in live.cluster.connections() if one.client_id is None)
        assert other.peer == "{}:{}".format(*silent.socket.getsockname())
        assert other.is_read
    live.controls.release()
    live.cluster.wait_until(lambda: not live.cluster.connections(), what="the end of all connections")


def test_wait_until_returns_the_value_or_raises_with_the_last_one(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    cluster.controls.pause_broker(1)
    started = simulation.now
    events = cluster.wait_until(lambda: cluster.events.events("broker")[1:])
    assert "fenced" in events[0].text
    assert 5.0 < simulation.now - started < 12.0  # the broker's session
    with pytest.raises(KafkaTimeoutError, match="the moon did not come true within 3 seconds; last: 0"):
        cluster.wait_until(lambda: 0, timeout=3, what="the moon")
    assert cluster.wait_until(lambda: 7, timeout=0) == 7


def test_wait_until_retries_on_not_yet_existing_objects(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, config={"num.partitions": 1})
    started = simulation.now
    with pytest.raises(KafkaTimeoutError, match=r"last: CoordinatorNotAvailable\(") as raised:
        cluster.wait_until(lambda: cluster.group("g").state == "Stable", timeout=2)
    assert isinstance(raised.value.__cause__, CoordinatorNotAvailable)
    assert simulation.now - started >= 2.0
    with pytest.raises(KafkaTimeoutError, match=r"last: UnknownTopicOrPartition\("):
        cluster.wait_until(lambda: cluster.partition("later", 0), timeout=0)
    with pytest.raises(ZeroDivisionError):
        cluster.wait_until(lambda: 1 / 0)
    with pytest.raises(IllegalState, match="virtual time"):
        asyncio.run(cluster.wait_until_async(lambda: True))


@pytest.mark.gate
@pytest.mark.parametrize("process", [False, True])
def test_waiting_in_an_event_loop(process: bool) -> None:
    async def create(cluster: KafkaCluster) -> None:
        """Create the topic after some turns of the event loop, which the wait must not block."""
        for _ in range(10):
            await asyncio.sleep(0.001)
        cluster.create_topic("later")

    async def story(cluster: KafkaCluster) -> None:
        creating = asyncio.create_task(create(cluster))
        found = await cluster.wait_until_async(lambda: cluster.partition("later", 0), timeout=60)
        assert found.leader == 0
        await creating
        with pytest.raises(KafkaTimeoutError, match="the moon did not come true"):
            await cluster.wait_until_async(lambda: 0, timeout=0.01, what="the moon")
        assert cluster.wait_until(lambda: 7) == 7, "what holds at once blocks nothing"
        with pytest.warns(RuntimeWarning, match="Await cluster.wait_until_async") as warned:
            assert cluster.wait_until(iter([0, 0, 0, 8]).__next__) == 8
        warnings = [one for one in warned if "wait_until_async" in str(one.message)]
        assert len(warnings) == 1, "once for each wait"

    with KafkaCluster(brokers=1, process=process) as cluster:
        asyncio.run(story(cluster))


def test_wait_until_async_raises_when_the_cluster_is_closed() -> None:
    async def story(cluster: KafkaCluster) -> None:
        asyncio.get_running_loop().call_later(0.02, cluster.close)
        await cluster.wait_until_async(lambda: False, timeout=5.0)

    with KafkaCluster(brokers=1) as cluster, pytest.raises(IllegalState, match="not running"):
        asyncio.run(story(cluster))


@one_broker
def test_forget_clears_history_metrics_and_timeline(live: LiveCluster) -> None:
    wire = live.leader()
    produce(wire, "t", 0, batch())
    live.cluster.forget()
    produce(wire, "t", 0, batch())
    live.history.exactly(1)
    live.cluster.wait_until(lambda: live.cluster.metrics().api("Produce").count == 1)
    (found,) = live.cluster.timeline().as_list()
    assert 0 <= found["at"] < 5
    assert live.cluster.log("t", 0).log_end_offset == 2


@one_broker
def test_rule_numbers_restart_after_clear_and_forget(kafka_cluster: KafkaCluster) -> None:
    controls = kafka_cluster.controls
    assert [controls.rule(api="Produce", then="hold").id for _ in range(2)] == [1, 2]
    kafka_cluster.forget()
    assert controls.rule(api="Produce", then="hold").id == 3, "two are planted yet"
    controls.clear()
    kafka_cluster.forget()
    assert controls.rule(api="Produce", then="hold").id == 1


@one_broker
def test_a_reply_to_a_forgotten_request_is_not_counted(live: LiveCluster) -> None:
    """Metrics count when a reply has left, a moment after the client may have read it."""
    live.controls.rule(api="Produce", then="hold")
    wire = live.leader()
    wire.send(produce_request("t", 0, batch()), 12)
    live.cluster.wait_until(lambda: live.controls.held("Produce") == 1)
    live.cluster.forget()
    live.controls.release()
    wire.receive(ProduceRequest, 12)
    wire.call(MetadataRequest(topics=[]), 12)
    live.cluster.wait_until(lambda: live.cluster.metrics().api("Metadata").count == 1)
    assert live.cluster.metrics().names == ["Metadata"]


@pytest.mark.kafka(brokers=3)
def test_a_timeline_begins_with_two_lines_of_the_start(kafka_cluster: KafkaCluster) -> None:
    started, elected, *_ = str(kafka_cluster.timeline()).splitlines()  # brokers may have sent requests
    assert "cluster: 3 brokers started in" in started
    assert elected.endswith("broker 0 is the controller in epoch 1")


@one_broker
def test_rejected_connection_is_an_event(live: LiveCluster) -> None:
    """An old client sees only its connection close; the test's author gets the reason, once."""
    for _ in range(3):
        wire = live.connect()
        wire.socket.sendall(bytes.fromhex("0000001b 0000 0000 00000001 0007") + b"ancient" + bytes(10))
        assert wire.socket.recv(100) == b""
    wire = live.connect()
    wire.socket.sendall(b"GET / HTTP/1.1")
    assert wire.socket.recv(100) == b""
    refused = live.cluster.events.events("refused")
    assert [event.text for event in refused] == [
        "broker 0 closed a connection of ancient: Produce v0 is not served, v3 to v13 are",
        "broker 0 closed a connection of a client without a client_id: a request of 1195725856 bytes; "
        "socket.request.max.bytes is 104857600",
    ]
    assert "Produce v0 is not served" in live.cluster.timeline().text()
