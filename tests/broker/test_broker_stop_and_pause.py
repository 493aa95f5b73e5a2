"""State that ends with a stop of a broker, and state that a pause keeps.

Versions follow Apache Kafka 4.3.1.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykafka2.broker.lifecycle import BrokerState
from pykafka2.errors import IllegalState
from pykafka2.protocol.messages.broker_lifecycle import AllocateProducerIdsRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from pykafka2.protocol.struct import Request
from pykafka2.testing.cluster import KafkaCluster, Topic
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import delete_records_request, fetch_request, produce_request
from tests.broker.support.leaders import settled
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster
from tests.error_codes import REQUEST_TIMED_OUT

METADATA = MetadataRequest(topics=[])
SESSION = 9.0
QUICK = 4.5  # a wait until its timeout takes at least 5 s


def fenced(cluster: KafkaCluster) -> list[str]:
    return [event.text for event in cluster.events.events("broker") if "fenced" in event.text]


# ---------------------------------------------------------------------- waits end at once


@pytest.mark.kafka(brokers=2, topics={"t": 2})
def test_stop_and_restart_return_as_soon_as_the_controller_responds(kafka_cluster: KafkaCluster) -> None:
    """On threads, the waiting call is notified and does not sleep until its timeout."""
    other = 1 - kafka_cluster.controller.id
    started = time.monotonic()
    kafka_cluster.controls.stop_broker(other)
    kafka_cluster.controls.restart_broker(other)
    assert time.monotonic() - started < QUICK


@pytest.mark.kafka(brokers=2)
def test_change_without_a_controller_is_made_after_the_election(kafka_cluster: KafkaCluster) -> None:
    """The change waits on a thread."""
    kafka_cluster.controls.hold_elections()
    kafka_cluster.controls.crash_broker(0)
    with ThreadPoolExecutor(1) as pool:
        change = pool.submit(kafka_cluster.create_topic, "t", 1, replication_factor=1)
        time.sleep(0.1)
        assert not change.done()
        kafka_cluster.controls.release_elections()
        change.result(timeout=QUICK)


# ---------------------------------------------------------------------- after a crash


def test_crash_drops_requests_held_by_a_fault_rule(simulation: Simulation) -> None:
    """The request is a replayed one, whose connection was closed before."""
    cluster = simulation.cluster(brokers=1, topics={"t": 1})
    cluster.controls.rule(api="Produce", then="replay")
    wire = RawClient(cluster.brokers[0].address, simulation=simulation)
    wire.send(produce_request("t", 0, batch()), 12)
    simulation.wait_until(lambda: cluster.controls.held() == 1, 5)
    cluster.controls.crash_broker(0)
    assert cluster.controls.held() == 0
    wire.close()


def test_crash_drops_requests_that_wait_for_replicas_or_records(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": Topic(assignment=[[0, 1]])})
    cluster.controls.pause_followers()
    simulation.run_for(1)
    address, replicas = cluster.brokers[0].address, cluster.brokers[0].replicas
    waiting = [replicas.produces, replicas.fetches, replicas.deletes]
    requests: list[tuple[Request[Any], int]] = [
        (produce_request("t", 0, batch(), timeout_ms=60_000), 12),
        (fetch_request("t", 0, 1, max_wait_ms=60_000), 12),
        (delete_records_request("t", 0, 0, timeout_ms=60_000), 2),
    ]
    wires = [RawClient(address, simulation=simulation) for _ in requests]
    for wire, (request, version) in zip(wires, requests, strict=True):
        wire.send(request, version)
    simulation.run_for(1)
    assert waiting[0].waiting() == 1
    cluster.controls.crash_broker(0)
    assert [one.watched() for one in waiting] == [0, 0, 0]
    for wire in wires:
        wire.close()


def test_crash_drops_requests_on_a_slow_link(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1)
    cluster.controls.delay_client("wire", 2.0)
    wire = RawClient(cluster.brokers[0].address, simulation=simulation)
    wire.send(METADATA, 12)
    simulation.run_for(0.5)
    cluster.controls.crash_broker(0)
    cluster.controls.heal()
    cluster.controls.restart_broker(0)
    assert not cluster.faults.is_active
    wire.close()


def test_delayed_metadata_of_before_a_crash_is_dropped(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3)
    broker = cluster.brokers[1]
    cluster.controls.delay_metadata(1, 5.0)
    cluster.create_topic("t")
    simulation.run_for(4)
    cluster.controls.crash_broker(1)
    broker.start(waits=False)
    simulation.run_for(2)
    assert "t" not in broker.image.topics
    simulation.run_for(6)
    assert "t" in broker.image.topics


@pytest.mark.parametrize("unnoticed", [False, True])
def test_crashed_broker_is_not_the_controller(simulation: Simulation, unnoticed: bool) -> None:
    cluster = simulation.cluster(brokers=3)
    node = cluster.brokers[0].controller_node
    cluster.controls.slow_controller(5.0)
    with cluster.lock:
        node.change("slow", lambda: None, simulation.clock.monotonic())
    assert node.is_active
    assert len(node.events) == 1
    cluster.controls.crash_broker(0, unnoticed=unnoticed)
    assert not node.is_active
    assert len(node.events) == 0


def test_controller_requests_of_a_stopped_broker_are_dropped(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3)
    channel = cluster.brokers[1].channel
    cluster.controls.slow_controller(5.0)
    answers: list[Any] = []
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=cluster.brokers[1].epoch)
    with cluster.lock:
        channel.send(request, 0, lambda answer, at: answers.append(answer), simulation.clock.monotonic())
    assert len(channel) >= 1
    cluster.controls.crash_broker(1)
    assert len(channel) == 0
    simulation.run_for(10)
    assert answers == []


def test_timers_of_before_a_crash_do_not_run(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1)
    rang: list[float] = []
    with cluster.lock:
        cluster.brokers[0].wheel.add(simulation.clock.monotonic() + 1, rang.append)
    cluster.controls.crash_broker(0)
    cluster.controls.restart_broker(0)
    simulation.run_for(3)
    assert rang == []


def test_session_of_a_crashed_broker_ends_once(simulation: Simulation) -> None:
    """The controller is notified of the crash, and the session does not end again."""
    cluster = simulation.cluster(brokers=3)
    cluster.controls.crash_broker(1)
    simulation.run_for(2 * SESSION)
    ended = [one for one in cluster.events.events("controller") if "session of broker 1" in one.text]
    assert len(ended) == 1


# ---------------------------------------------------------------------- starts and controlled shutdowns


def test_follower_fetches_carry_the_current_broker_epoch(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    cluster.controls.restart_broker(1)
    cluster.controls.restart_broker(0)
    simulation.run_for(2)
    registered = [broker.epoch for broker in cluster.controller.image.brokers.values()]
    assert [broker.fetchers.broker_epoch for broker in cluster.brokers] == registered
    assert [broker.epoch for broker in cluster.brokers] == registered


def test_restart_does_not_wait_for_held_metadata(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3)
    cluster.controls.crash_broker(1)
    cluster.controls.hold_metadata(1)
    started = simulation.clock.monotonic()
    cluster.controls.restart_broker(1)
    assert simulation.clock.monotonic() - started < 1


def test_controlled_shutdown_does_not_wait_for_the_next_heartbeat(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"t": 3})
    for broker in (1, 2, 1, 2):
        simulation.run_for(3.3)
        started = simulation.clock.monotonic()
        cluster.controls.stop_broker(broker)
        assert simulation.clock.monotonic() - started < 0.1
        cluster.controls.restart_broker(broker)


@pytest.mark.parametrize("orderly", [True, False])
def test_controlled_shutdown_enable_decides_whether_leaders_move_first(
    simulation: Simulation, orderly: bool
) -> None:
    cluster = settled(simulation, brokers=3, config={"controlled.shutdown.enable": orderly})
    cluster.controls.stop_broker(1)
    state = cluster.brokers[1].lifecycle.state
    assert state is (BrokerState.SHUTTING_DOWN if orderly else BrokerState.RUNNING)


# ---------------------------------------------------------------------- paused brokers


def test_stop_of_a_paused_broker_does_not_wait_for_the_controller(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3)
    simulation.run_for(1)
    for broker in (1, 2):
        cluster.controls.pause_broker(broker)
        began = simulation.now
        cluster.controls.stop_broker(broker)
        assert simulation.now - began < 1


def test_running_broker_does_not_start_again(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2)
    for broker in cluster.running.brokers:
        with pytest.raises(IllegalState, match=f"broker {broker.id} is running"):
            broker.start()
        assert broker.is_running


def test_resumed_controller_expires_no_session_before_it_reads_the_heartbeats(simulation: Simulation) -> None:
    """It has not yet read the heartbeats that arrived during the pause."""
    cluster = settled(simulation, brokers=3)
    cluster.controls.hold_elections()
    cluster.controls.pause_broker(0)
    simulation.run_for(SESSION + 3)
    cluster.controls.resume_broker(0)
    simulation.run_for(3)
    cluster.controls.release_elections()
    assert fenced(cluster) == []
    assert (cluster.controller.id, cluster.controller.epoch) == (0, 1)


def test_resumed_broker_sends_a_heartbeat_at_once_and_gets_missed_changes(simulation: Simulation) -> None:
    """It does not wait for its next regular heartbeat, up to two seconds later."""
    cluster = simulation.cluster(brokers=3)
    for number in range(5):
        simulation.run_for(0.3)
        cluster.controls.pause_broker(1)
        cluster.create_topic(f"t{number}")
        cluster.controls.resume_broker(1)
        simulation.run_for(0.1)
        assert f"t{number}" in cluster.brokers[1].image.topics


def test_resumed_controller_that_was_replaced_resigns(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3)
    cluster.controls.pause_broker(0)
    simulation.run_for(2 * SESSION)
    assert cluster.controller.id != 0
    epoch = cluster.controller.epoch
    with cluster.lock:
        cluster.brokers[0].resume()
        cluster.controller.catch_up(0, simulation.clock.monotonic())
        assert not cluster.brokers[0].controller_node.is_active
    simulation.run_for(SESSION)
    assert cluster.controller.epoch == epoch


@pytest.mark.kafka(brokers=1)
def test_request_taken_by_a_handler_before_a_pause_gets_its_response_after_it(live: LiveCluster) -> None:
    """The handler has taken the request, but not yet the lock."""
    broker, wire = live.cluster.brokers[0], live.connect()
    live.controls.pause_broker(0)
    sent = wire.send(METADATA, 12)
    live.cluster.wait_until(lambda: len(broker.parts.queue) == 1)
    context = broker.parts.queue.take()
    assert context is not None
    broker.requests.handle(context, broker.clock.monotonic())
    live.controls.resume_broker(0)
    assert wire.receive(MetadataRequest, 12)[0] == sent


# ---------------------------------------------------------------------- requests to the controller


def test_request_to_the_controller_is_retried_after_50_ms(simulation: Simulation) -> None:
    """It does not wait for other timers of the broker."""
    cluster = simulation.cluster(brokers=3)
    broker = cluster.brokers[1]
    simulation.run_for(1)
    answers: list[Any] = []
    for number in range(1, 6):
        simulation.run_for(0.37)
        cluster.controls.cut_link(1, 0)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=broker.epoch)
        with cluster.lock:
            broker.channel.send(
                request, 0, lambda answer, at: answers.append(answer), simulation.clock.monotonic()
            )
        simulation.run_for(0.02)
        with cluster.lock:  # not `heal`, which wakes every broker
            cluster.links.join(1, 0)
            cluster.links.join(0, 1)
        simulation.run_for(0.1)
        assert len(answers) == number


def test_request_unanswered_by_a_controller_is_sent_to_the_next(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3)
    cluster.controls.pause_broker(0)
    answers: list[Any] = []
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=cluster.brokers[1].epoch)
    with cluster.lock:
        cluster.brokers[1].channel.send(
            request, 0, lambda answer, at: answers.append(answer), simulation.clock.monotonic()
        )
    simulation.run_for(0.5)
    assert answers == []
    cluster.controls.move_controller(2)
    simulation.run_for(0.1)
    assert len(answers) == 1


def test_forwarded_request_without_a_controller_times_out(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3)
    cluster.controls.hold_elections()
    cluster.controls.crash_broker(0)
    wire = RawClient(cluster.brokers[1].address, simulation=simulation)
    started = simulation.clock.monotonic()
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    (result,) = wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7).topics
    assert result.error_code == REQUEST_TIMED_OUT
    assert simulation.clock.monotonic() - started == pytest.approx(1.0, abs=0.1)
    wire.close()
