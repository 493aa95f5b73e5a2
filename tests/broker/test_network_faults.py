"""Links between brokers and of clients: cut, silent, delayed and throttled; and controls of the ISR."""

from __future__ import annotations

import time
from threading import Thread

import pytest

from pykafka2.errors import ConfigurationError
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing.arguments import Topic
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch_request, produce, produce_request
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

METADATA = MetadataRequest(topics=None)

one_broker = pytest.mark.kafka(brokers=1, topics={"t": 1})


def test_client_cut_off_from_one_broker_still_reaches_the_other(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 2})
    with simulation.producer(cluster, client_id="orders-app", delivery_timeout_ms=120_000) as producer:
        producer.send("t", b"before", partition=0).result(timeout=30)
        leader = cluster.partition("t", 0).leader
        cluster.controls.cut_client("orders-app", broker=leader)
        waiting = producer.send("t", b"cut", partition=0)
        producer.send("t", b"fine", partition=1).result(timeout=30)
        simulation.run_for(5.0)
        assert not waiting.done()
        cluster.controls.heal()
        waiting.result(timeout=60)
    assert cluster.log("t", 0).values() == [b"before", b"cut"]


@one_broker
def test_cut_client_resets_only_the_connections_of_that_client(live: LiveCluster) -> None:
    address = live.cluster.brokers[0].address
    with (
        RawClient(address, "orders-app") as cut,
        RawClient(address, "other") as other,
        RawClient(address, "orders-app") as new,
    ):
        for wire in (cut, other):
            wire.call(METADATA, 12)
        live.controls.cut_client("orders-app")
        with pytest.raises(ConnectionResetError):
            cut.socket.recv(1)
        assert other.call(METADATA, 12).topics
        new.send(METADATA, 12)
        with pytest.raises(ConnectionResetError):
            new.socket.recv(1)
        live.controls.heal()
    with RawClient(address, "orders-app") as healed:
        assert healed.call(METADATA, 12).topics


@one_broker
def test_silent_cut_loses_requests_and_responses(live: LiveCluster) -> None:
    controls = live.controls
    controls.rule(api="Produce", nth=1, then="hold")
    handled, lost = live.leader(), live.leader()
    handled.send(produce_request("t", 0, batch([b"handled"])), 12)
    live.wait_for(lambda: controls.held() == 1)
    controls.cut_client("wire", silently=True)
    lost.send(produce_request("t", 0, batch([b"lost"])), 12)
    controls.release()
    live.wait_for(lambda: live.history.count("Produce") == 2)
    live.wait_for(lambda: live.cluster.log("t", 0).values() == [b"handled"])
    for wire in (handled, lost):
        wire.socket.settimeout(0.02)
        assert not wire.is_closed_by_broker()


def test_delay_client_delays_pipelined_requests_by_one_round_trip(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"t": 1})
    with simulation.producer(cluster, client_id="far", linger_ms=0) as producer:
        producer.send("t", b"warm").result(timeout=30)
        cluster.controls.delay_client("far", 1.0)
        started = simulation.clock.monotonic()
        futures = []
        for number in range(5):
            futures.append(producer.send("t", b"%d" % number))
            simulation.run_for(0.01)
        for future in futures:
            future.result(timeout=60)
        took = simulation.clock.monotonic() - started
    assert 2.0 <= took < 2.5  # one round trip, not five
    assert cluster.history.in_flight_max("Produce") == 5
    assert cluster.log("t", 0).values() == [b"warm", b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("healed", [True, False])
def test_later_message_on_a_faster_link_does_not_overtake(simulation: Simulation, healed: bool) -> None:
    cluster = simulation.cluster(brokers=1, topics={"t": 1})
    cluster.controls.delay_client("wire", 2.0)
    wire = RawClient(cluster.brokers[0].address, simulation=simulation)
    wire.send(produce_request("t", 0, batch([b"first"])), 12)
    simulation.run_for(0.5)
    if healed:
        cluster.controls.heal()
    else:
        cluster.controls.delay_client("wire", 0.1)
    wire.send(produce_request("t", 0, batch([b"second"])), 12)
    simulation.run_for(1.0)
    assert cluster.log("t", 0).values() == []
    simulation.run_for(3.0)
    assert cluster.log("t", 0).values() == [b"first", b"second"]
    assert cluster.faults.is_active is not healed
    wire.close()


def test_throttle_client_limits_the_bytes_per_second(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"t": 1})
    with simulation.producer(cluster, client_id="narrow", linger_ms=0) as producer:
        producer.send("t", b"warm").result(timeout=30)
        cluster.controls.throttle_client("narrow", 10_000)
        started = simulation.clock.monotonic()
        producer.send("t", b"x" * 20_000).result(timeout=30)
        assert 2.0 <= simulation.clock.monotonic() - started < 2.2
        cluster.controls.throttle_client("narrow", None)
        started = simulation.clock.monotonic()
        producer.send("t", b"x" * 20_000).result(timeout=30)
        assert simulation.clock.monotonic() - started < 0.1


def test_messages_of_a_throttled_client_queue_behind_each_other(simulation: Simulation) -> None:
    """Its connections share the link: two messages of 2 s need 4 s in either direction."""
    cluster = simulation.cluster(brokers=1, topics={"t": 1})
    address = cluster.brokers[0].address
    with (
        RawClient(address, "narrow", simulation=simulation) as one,
        RawClient(address, "narrow", simulation=simulation) as two,
    ):
        cluster.controls.throttle_client("narrow", 10_000)
        for wire in (one, two):
            wire.send(produce_request("t", 0, batch([b"x" * 20_000])), 12)
        for appended in (0, 1, 2):
            assert len(cluster.log("t", 0).values()) == appended
            simulation.run_for(2.1)
        for wire in (one, two):
            wire.receive(ProduceRequest, 12)
            wire.send(fetch_request(partition_max_bytes=1), 12)  # one record
        for responded in (0, 1, 2):
            assert sum(wire.has_response() for wire in (one, two)) == responded
            simulation.run_for(2.1)


def test_message_after_the_first_of_two_delayed_ones_does_not_overtake_the_second(
    simulation: Simulation,
) -> None:
    cluster = simulation.cluster(brokers=1, topics={"t": 1})
    cluster.controls.delay_client("wire", 2.0)
    with RawClient(cluster.brokers[0].address, simulation=simulation) as wire:
        for value in (b"first", b"second"):
            wire.send(produce_request("t", 0, batch([value])), 12)
            simulation.run_for(1.5)
        assert cluster.log("t", 0).values() == [b"first"]
        cluster.controls.heal()
        wire.send(produce_request("t", 0, batch([b"third"])), 12)
        simulation.run_for(0.1)
        assert cluster.log("t", 0).values() == [b"first"]
        simulation.run_for(2.0)
        assert cluster.log("t", 0).values() == [b"first", b"second", b"third"]


def test_cut_client_does_not_affect_brokers(simulation: Simulation) -> None:
    """A client can have the client id that brokers use among themselves."""
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    for number in range(2):
        cluster.controls.cut_client(f"broker-{number}")
    with simulation.producer(cluster, acks="all") as producer:
        producer.send("t", b"replicated").result(timeout=10)
    with RawClient(cluster.brokers[0].address, "broker-1", simulation=simulation) as wire:
        wire.send(METADATA, 12)
        with pytest.raises(ConnectionError):
            wire.receive(MetadataRequest, 12)


def test_throttle_link_between_brokers_delays_acks_all(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    leader = cluster.partition("t", 0).leader
    with simulation.producer(cluster, linger_ms=0) as producer:
        producer.send("t", b"warm").result(timeout=30)
        cluster.controls.throttle_link(leader, 1 - leader, 10_000, one_way=True)
        started = simulation.clock.monotonic()
        producer.send("t", b"x" * 20_000).result(timeout=30)
        assert 2.0 <= simulation.clock.monotonic() - started < 2.6
        cluster.controls.heal()
        started = simulation.clock.monotonic()
        producer.send("t", b"x" * 20_000).result(timeout=30)
        assert simulation.clock.monotonic() - started < 0.6


def test_bytes_on_a_throttled_link_arrive_when_the_throttle_ends(simulation: Simulation) -> None:
    """Otherwise they would take minutes at the old rate (seed 1004)."""
    cluster = simulation.cluster(brokers=2, topics={"t": 1}, config={"min.insync.replicas": 2})
    leader = cluster.partition("t", 0).leader
    with simulation.producer(cluster, linger_ms=0) as producer:
        producer.send("t", b"warm").result(timeout=30)
        cluster.controls.throttle_link(leader, 1 - leader, 100, one_way=True)
        sent = producer.send("t", b"x" * 20_000)
        simulation.run_for(2)
        assert not sent.is_done
        cluster.controls.throttle_link(leader, 1 - leader, None, one_way=True)
        sent.result(timeout=2)


@one_broker
def test_invalid_link_arguments_are_rejected(kafka_cluster: KafkaCluster) -> None:
    controls = kafka_cluster.controls
    with pytest.raises(ConfigurationError, match="Unknown broker 4"):
        controls.cut_client("x", broker=4)
    with pytest.raises(ConfigurationError, match="seconds=-1"):
        controls.delay_client("x", -1)
    with pytest.raises(ConfigurationError, match="bytes_per_second=0"):
        controls.throttle_client("x", 0)
    with pytest.raises(ConfigurationError, match="two different brokers"):
        controls.throttle_link(0, 0, 5)


# ---------------------------------------------------------------------- the ISR


@pytest.mark.kafka(brokers=3, topics={"t": 1})
def test_shrink_isr_and_expand_isr_change_the_isr(live: LiveCluster) -> None:
    controls = live.controls
    view = live.cluster.partition("t", 0)
    one, two = sorted(set(view.isr) - {view.leader})
    controls.shrink_isr(("t", 0), one, two)
    assert live.cluster.partition("t", 0).isr == (view.leader,)
    assert produce(live.leader(), "t", 0, batch()).error_code == 0  # waits for no other replica
    controls.expand_isr(("t", 0), one)  # without records to fetch
    assert set(live.cluster.partition("t", 0).isr) == {view.leader, one}
    controls.expand_isr(("t", 0), two)
    assert set(live.cluster.partition("t", 0).isr) == {0, 1, 2}
    with pytest.raises(ConfigurationError, match=f"Broker {view.leader} does not follow t-0"):
        controls.shrink_isr(("t", 0), view.leader)


@pytest.mark.slow
@pytest.mark.kafka(
    brokers=2, topics={"t": Topic(assignment=[[1, 0]])}, config={"replica.fetch.wait.max.ms": 10}
)
def test_replica_removed_from_the_isr_stays_out_despite_a_queued_fetch(live: LiveCluster) -> None:
    """The leader has a fetch of the replica in its queue, sent before."""
    parts = live.cluster.brokers[1].parts
    take = parts.queue.take
    parts.queue.take = lambda: None  # type: ignore[method-assign]
    live.wait_for(lambda: len(parts.queue) > 0)
    shrinking = Thread(target=live.controls.shrink_isr, args=(("t", 0), 0))
    shrinking.start()
    live.wait_for(lambda: ("t", 0) in live.cluster.brokers[0].fetchers.paused_keys)
    shrinking.join(timeout=0.15)  # the control waits for that fetch
    parts.queue.take = take  # type: ignore[method-assign]
    parts.handlers[0].signal()
    shrinking.join(timeout=10)
    assert live.cluster.partition("t", 0).isr == (1,)
    time.sleep(0.15)
    assert live.cluster.partition("t", 0).isr == (1,)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_kill_broker_with_keep_unflushed_keeps_unreplicated_records(live: LiveCluster) -> None:
    controls = live.controls
    view = live.cluster.partition("t", 0)
    controls.pause_followers()
    assert produce(live.leader(), "t", 0, batch([b"tail"]), acks=1).error_code == 0
    controls.kill_broker(view.leader, keep_unflushed=True)
    assert live.cluster.log("t", 0, broker=view.leader).values() == [b"tail"]
