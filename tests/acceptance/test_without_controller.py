"""Without an active controller data flows on, changes time out with a typed error, and all
is well after the election, without a restart of any client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, NewTopic, errors
from pykafka2.admin import ConfigResource, ItemsFailed
from pykafka2.cluster.router import Router
from pykafka2.driver.pollable import GROUP, Send, ToCoordinator
from pykafka2.errors import KafkaTimeoutError
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from pykafka2.types import TopicPartition
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import partition_of, produce_request
from tests.broker.support.raw_client import RawClient


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    """Broker 0, the controller, is dead, and no other broker can be elected."""
    cluster = simulation.cluster(brokers=3, topics={"t": 3})
    simulation.run_for(1)
    cluster.controls.hold_elections()
    cluster.controls.crash_broker(0)
    assert cluster.controller.id == -1
    return cluster


def new_topic(name: str, timeout_ms: int) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=2, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)


@pytest.mark.gate
def test_changes_time_out_and_work_after_the_election(simulation: Simulation, cluster: KafkaCluster) -> None:
    wire = RawClient(cluster.brokers[1].address, simulation=simulation)
    requests: list[tuple[Any, int]] = [
        (new_topic("new", 4000), 7),
        (
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="t", count=4, assignments=None)],
                timeout_ms=4000,
                validate_only=False,
            ),
            3,
        ),
        (DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=ZERO_UUID)], timeout_ms=4000), 6),
    ]
    for request, version in requests:
        began = simulation.now
        answer = wire.call(request, version)
        (result,) = (
            answer.topics
            if isinstance(request, CreateTopicsRequest)
            else getattr(answer, "results", None) or answer.responses
        )
        assert result.error_code == errors.RequestTimedOut.code
        assert simulation.now - began == pytest.approx(4.0, abs=0.05)
    assert cluster.topics() == ["t"]
    # One that has time left when another controller is elected is carried out.
    wire.send(new_topic("new", 60_000), 7)
    simulation.run_for(20)
    assert not wire.has_response()
    cluster.controls.release_elections()
    (result,) = wire.receive(CreateTopicsRequest, 7, timeout=2.0)[1].topics
    assert result.error_code == 0
    assert cluster.topics() == ["new", "t"]
    wire.close()


def test_create_topics_timeout_names_the_request_and_its_timeout(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        began = simulation.now
        with pytest.raises(KafkaTimeoutError, match=r"CreateTopics.* within 4 s"):
            admin.create_topics([NewTopic("new", 1)], timeout=4.0)
        assert simulation.now - began == pytest.approx(4.0, abs=0.05)
        simulation.run_for(1)  # the broker gives up only when the requested time is over
        cluster.controls.release_elections()
        assert cluster.topics() == ["t"], "it is not made behind the caller's back"
        admin.create_topics([NewTopic("new", 1)], timeout=20.0)
    assert cluster.topics() == ["new", "t"]


CHANGES: dict[str, Callable[[KafkaAdminClient, float | None], object]] = {
    "create_topics": lambda admin, timeout: admin.create_topics(["new"], timeout=timeout),
    "delete_topics": lambda admin, timeout: admin.delete_topics(["t"], timeout=timeout),
    "delete_topics_by_id": lambda admin, timeout: admin.delete_topics_by_id([bytes(16)], timeout=timeout),
    "create_partitions": lambda admin, timeout: admin.create_partitions({"t": 4}, timeout=timeout),
    "alter_partition_reassignments": lambda admin, timeout: admin.alter_partition_reassignments(
        {TopicPartition("t", 0): [1]}, timeout=timeout
    ),
    "elect_leaders": lambda admin, timeout: admin.elect_leaders([TopicPartition("t", 0)], timeout=timeout),
    "alter_configs": lambda admin, timeout: admin.alter_configs(
        {ConfigResource("TOPIC", "t"): {"retention.ms": "1"}}, timeout=timeout
    ),
}


@pytest.mark.gate
@pytest.mark.parametrize(("timeout", "is_late"), [(None, False), (None, True), (4.0, True)])
@pytest.mark.parametrize("name", CHANGES)
def test_change_times_out_alike_if_the_brokers_error_comes_before_the_clients_limit(
    simulation: Simulation,
    cluster: KafkaCluster,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    timeout: float | None,
    is_late: bool,
) -> None:
    """Both have the same limit. A busy IO thread can read the broker's response before it notices its own."""
    route = Router.route

    def route_with_a_later_limit(router: Router, send: Send[Any], now: float) -> None:
        send.timeout = (30.0 if send.timeout is None else send.timeout) + 0.5
        route(router, send, now)

    if is_late:
        monkeypatch.setattr(Router, "route", route_with_a_later_limit)
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        began = simulation.now
        with pytest.raises((KafkaTimeoutError, ItemsFailed)) as raised:
            CHANGES[name](admin, timeout)
        assert simulation.now - began == pytest.approx(timeout or 60.0, abs=1.7)
    error = raised.value
    errors = error.outcomes.errors.values() if isinstance(error, ItemsFailed) else [error]
    assert {type(one) for one in errors} == {KafkaTimeoutError}


@pytest.mark.slow
def test_produce_fetch_and_metadata_continue_without_a_controller(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """On partitions that have a leader; those of the dead broker get one after the election."""
    producer = simulation.producer(cluster, acks=1, delivery_timeout_ms=120_000)
    led = {number: cluster.controller.partition("t", number).leader for number in range(3)}
    served = [number for number, leader in led.items() if leader != 0]
    (lost,) = set(led) - set(served)
    futures = [
        producer.send("t", value=b"%d" % number, partition=served[number % 2]) for number in range(100)
    ]
    producer.flush(timeout=10)
    assert all(future.result(0).offset >= 0 for future in futures)
    assert sum(len(cluster.log("t", number).values()) for number in served) == 100
    consumer = simulation.consumer(cluster, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("t", number) for number in served])
    wire = RawClient(cluster.brokers[2].address, simulation=simulation)
    assert {topic.name for topic in wire.call(MetadataRequest(topics=None), 12).topics} == {"t"}
    waiting = producer.send("t", value=b"waits", partition=lost)
    simulation.run_for(5)
    assert cluster.log("t", lost, broker=1).values() == []
    cluster.controls.release_elections()
    producer.flush(timeout=60)
    assert waiting.result().offset == 0
    got: list[bytes | None] = []
    deadline = simulation.now + 60
    while len(got) < 100:
        assert simulation.now < deadline, len(got)
        for records in consumer.poll(timeout_ms=1000).values():
            got.extend(record.value for record in records)
    assert sorted(int(value or b"-1") for value in got) == list(range(100))
    wire.close()


def test_commits_continue_without_a_controller(simulation: Simulation) -> None:
    """A group whose coordinator needs nothing of the dead broker commits and reads as before."""
    config = {"offsets.topic.replication.factor": 1}
    cluster = simulation.cluster(brokers=3, topics={"t": 1}, config=config)
    client = simulation.client(cluster)

    def coordinator_of(group: str) -> int:
        client.request(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), check=_first_coordinator)
        return cluster.coordinator(group)

    group = next(name for name in ("a", "b", "c", "d", "e") if coordinator_of(name) != 0)
    cluster.controls.hold_elections()
    cluster.controls.crash_broker(0)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topic = OffsetCommitRequestTopic(
        name="t", topic_id=client.wait_for_topic("t").topic_id, partitions=[partition]
    )
    answer = client.request(OffsetCommitRequest(group_id=group, topics=[topic]), ToCoordinator(GROUP, group))
    assert answer.topics[0].partitions[0].error_code == 0
    assert cluster.group(group).offsets == {TopicPartition("t", 0): 7}
    assert cluster.controller.id == -1


def test_acks_all_that_needs_a_smaller_isr_waits_for_its_own_timeout(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """The dead follower cannot leave the ISR before the election; then it does."""
    number = next(n for n in range(3) if cluster.controller.partition("t", n).leader == 1)
    wire = RawClient(cluster.brokers[1].address, simulation=simulation)
    began = simulation.now
    request = produce_request("t", number, batch([b"waits"]), timeout_ms=2500)
    assert partition_of(wire.call(request, 9)).error_code == errors.RequestTimedOut.code
    assert simulation.now - began == pytest.approx(2.5, abs=0.05)
    assert len(cluster.partition("t", number).isr) == 3
    cluster.controls.release_elections()
    simulation.run_for(45)  # replica.lag.time.max.ms and a half
    assert partition_of(wire.call(request, 9)).error_code == 0
    wire.close()


def _first_coordinator(response: FindCoordinatorResponse) -> errors.KafkaError | None:
    code = response.coordinators[0].error_code
    return errors.error_of(code) if code else None
