"""Planted faults and the history of requests, over real sockets."""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable, Iterator
from inspect import signature
from threading import Thread
from typing import Any, cast

import pytest

from pykafka2.broker.faults.rule import FaultRule, RuleList
from pykafka2.errors import (
    ConfigurationError,
    KafkaError,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
    for_code,
)
from pykafka2.protocol.messages.cluster import DescribeClusterRequest
from pykafka2.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.protocol.struct import Request
from pykafka2.testing import STANDARD_AUTHORIZER
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.controls.controls import Controls
from pykafka2.testing.remote.proxies import RULE_RESULTS
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch_request, partition_of, produce, produce_request
from tests.connections import LiveCluster
from tests.error_codes import NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT

METADATA = MetadataRequest(topics=None)

one_broker = pytest.mark.kafka(brokers=1, topics={"t": 1, "other": 1})


@one_broker
def test_fail_next_refuses_without_acting(live: LiveCluster) -> None:
    rule = live.controls.fail_next(ProduceRequest, NotLeaderOrFollower, times=2)
    wire = live.leader()
    codes = [produce(wire, "t", 0, batch([b"%d" % n])).error_code for n in range(3)]
    assert codes == [NOT_LEADER_OR_FOLLOWER, NOT_LEADER_OR_FOLLOWER, 0]
    assert rule.fired == 2
    assert live.cluster.log("t", 0).values() == [b"2"]


@one_broker
def test_a_fault_may_name_its_topic_client_and_broker(live: LiveCluster) -> None:
    controls = live.controls
    controls.fail_next(ProduceRequest, RequestTimedOut, topic="other")
    controls.fail_next(ProduceRequest, RequestTimedOut, client_id="another client")
    with pytest.raises(ConfigurationError, match="Unknown broker 5"):
        controls.fail_next(ProduceRequest, RequestTimedOut, broker=5)
    wire = live.leader()
    assert produce(wire, "t", 0, batch()).error_code == 0
    assert produce(wire, "other", 0, batch()).error_code == REQUEST_TIMED_OUT
    assert produce(wire, "other", 0, batch()).error_code == 0


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (produce_request("t", 0, b""), 12),
        (fetch_request("t", 0, 0), 12),
        (MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12),
        (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 5),
        (FindCoordinatorRequest(coordinator_keys=["g"]), 4),
        (FindCoordinatorRequest(key="g"), 2),
        (DescribeClusterRequest(include_cluster_authorized_operations=False), 1),
        (
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
                ]
            ),
            4,
        ),
    ],
    ids=lambda value: getattr(value, "NAME", str(value)),
)
@one_broker
def test_every_api_can_be_failed(live: LiveCluster, request_: Request[Any], version: int) -> None:
    live.controls.fail_next(type(request_), RequestTimedOut)
    assert "7" in repr(live.leader().call(request_, version))


@one_broker
def test_hold_and_release(live: LiveCluster) -> None:
    controls = live.controls
    controls.hold(ProduceRequest)
    wire, other = live.leader(), live.leader()
    wire.send(produce_request("t", 0, batch([b"held"])), 12)
    behind = wire.send(METADATA, 12)
    live.wait_for(lambda: controls.held(ProduceRequest) == 1)
    # Another connection goes on, the one that waits does not.
    other.call(METADATA, 12)
    assert live.cluster.log("t", 0).values() == []
    controls.release(ProduceRequest)
    assert partition_of(wire.receive(ProduceRequest, 12)[1]).error_code == 0
    assert wire.receive(MetadataRequest, 12)[0] == behind
    assert produce(wire, "t", 0, batch([b"free"])).error_code == 0
    assert controls.held() == 0


@one_broker
def test_release_of_one_api_keeps_the_rules_of_others(live: LiveCluster) -> None:
    controls = live.controls
    produces = controls.hold(ProduceRequest)
    error = controls.rule(api="Metadata", then="error:NOT_CONTROLLER", client_id="absent")
    controls.hold("Heartbeat")
    wire = live.leader()
    wire.send(produce_request("t", 0, batch()), 12)
    live.wait_for(lambda: controls.held() == 1)
    controls.release("Heartbeat")
    assert controls.held() == 1
    assert live.cluster.faults.rules.active == [produces, error]
    controls.release(ProduceRequest)
    assert partition_of(wire.receive(ProduceRequest, 12)[1]).error_code == 0
    assert live.cluster.faults.rules.active == [error]
    controls.release()
    assert live.cluster.faults.rules.active == [error]


@one_broker
def test_delay(live: LiveCluster) -> None:
    live.controls.delay(MetadataRequest, 0.5, times=1)
    wire = live.leader()
    for _ in range(2):
        wire.call(METADATA, 12)
    slow, fast = (entry.latency or 0.0 for entry in live.history.entries("Metadata"))
    assert slow >= 0.5 > fast


@one_broker
def test_lose_reply_acts_and_disconnect_next_does_not(live: LiveCluster) -> None:
    live.controls.lose_reply(ProduceRequest)
    live.controls.disconnect_next(ProduceRequest)
    for value in (b"applied", b"not applied"):
        wire = live.leader()
        wire.send(produce_request("t", 0, batch([value])), 12)
        assert wire.is_closed_by_broker()
    assert live.cluster.log("t", 0).values() == [b"applied"]


@one_broker
def test_clear_takes_everything_back(live: LiveCluster) -> None:
    controls = live.controls
    controls.fail_next(FetchRequest, RequestTimedOut)
    controls.hold(ProduceRequest)
    wire = live.leader()
    wire.send(produce_request("t", 0, batch()), 12)
    live.wait_for(lambda: controls.held() == 1)
    controls.clear()
    assert partition_of(wire.receive(ProduceRequest, 12)[1]).error_code == 0
    assert wire.call(fetch_request("t", 0, 0), 12).responses[0].partitions[0].error_code == 0


@one_broker
def test_invalid_faults_are_rejected(kafka_cluster: KafkaCluster) -> None:
    controls = kafka_cluster.controls
    with pytest.raises(ConfigurationError, match="times"):
        controls.fail_next(ProduceRequest, RequestTimedOut, times=0)
    for error, name in (
        (ValueError, "ValueError"),
        (KafkaError, "KafkaError"),
        (RequestTimedOut(), "RequestTimedOut()"),
        ("REQUEST_TIMED_OUT", "'REQUEST_TIMED_OUT'"),
    ):
        says = rf"a broker cannot return {re.escape(name)}.*; use a class"
        with pytest.raises(ConfigurationError, match=says):
            controls.fail_next(ProduceRequest, error)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="a broker cannot return ValueError"):
        controls.rule(api="Produce", then=ValueError)
    with pytest.raises(ConfigurationError, match="did you mean 'then'"):
        controls.rule(api="Produce", thn="hold")
    with pytest.raises(ConfigurationError, match="set the action"):
        controls.rule(api="Produce")
    for seconds in (-1.0, float("nan"), float("inf"), 3e6):
        with pytest.raises(ConfigurationError, match="use a number from 0"):
            controls.throttle("wire", "Produce", seconds)
    with pytest.raises(ConfigurationError, match="Unknown broker 3"):
        controls.crash_broker(3)
    with pytest.raises(ConfigurationError, match="two different brokers"):
        controls.cut_link(0, 0)


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3, topics={"orders": 2}) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.controls.pause_followers(("ordrs", 0)), "no topic 'ordrs'; did you mean 'orders'"),
        (lambda c: c.controls.roll_segments(("orders", 7)), "orders-7: orders has 0 to 1"),
        (lambda c: c.controls.apply_retention(("ordrs", 0)), "did you mean 'orders'"),
        (lambda c: c.controls.shrink_isr("orders", 1), "'orders' is not a partition: use"),
        (lambda c: c.controls.expand_isr(("orders", "0"), 1), "is not a partition"),
        (lambda c: c.controls.move_leader(("ordrs", 0), to=1), "did you mean 'orders'"),
        (lambda c: c.controls.move_leader(("orders", 0), to=7), "Unknown broker 7"),
        (lambda c: c.controls.compact("ordrs"), "unknown topic 'ordrs'; did you mean 'orders'"),
        (lambda c: c.controls.compact(["orders"]), 'is not a topic or partition: use "topic" or'),
        (lambda c: c.controls.compact(("orders", 7)), "orders-7: orders has 0 to 1"),
        (lambda c: c.log("ordrs", 0), "did you mean 'orders'"),
        (lambda c: c.partition("orders", 2), "0 to 1"),
        (lambda c: c.controls.delay_link(0, 1, "x"), "seconds='x': use a finite number of at least 0"),
        (lambda c: c.controls.throttle_client("app", 0), "use a finite number of at least 1"),
        (lambda c: c.controls.cut_client(None), "client_id=None: use a client id"),
        (lambda c: c.controls.slow_controller("x"), "seconds='x'"),
        (lambda c: c.controls.delay_metadata(0, -1), "seconds=-1"),
        (lambda c: c.controls.release_metadata(7), "Unknown broker 7"),
        (lambda c: c.controls.cut_link(True, 0), "Unknown broker True"),
        (lambda c: c.controls.cut_client("app", True), "Unknown broker True"),
        (lambda c: c.controls.delay_link(0, 1, 10**400), "seconds=.*: use a finite number of at least 0"),
        (lambda c: c.controls.delay_client("app", 10**400), "seconds=.*: use a finite number of at least 0"),
        (
            lambda c: c.controls.delay_client("app", float("nan")),
            "seconds=nan: use a finite number of at least 0",
        ),
        (
            lambda c: c.controls.throttle_link(0, 1, "9"),
            "bytes_per_second='9': use a finite number of at least 1",
        ),
        (lambda c: c.controls.slow_controller(1, times=1.5), "times=1.5: use a whole number of at least 1"),
        (lambda c: c.controls.slow_controller(1, times=True), "times=True: use a whole number of at least 1"),
        (lambda c: c.controls.cut_link(0, 1, one_way="no"), "one_way='no': use true or false"),
        (lambda c: c.controls.delay_link(0, 1, 0, one_way=1), "one_way=1: use true or false"),
        (lambda c: c.controls.throttle_link(0, 1, None, one_way=None), "one_way=None: use true or false"),
        (lambda c: c.controls.cut_client("app", silently="no"), "silently='no': use true or false"),
        (lambda c: c.controls.crash_broker(0, unnoticed="no"), "unnoticed='no': use true or false"),
        (lambda c: c.controls.crash_broker(0, lose_unreplicated=0), "lose_unreplicated=0: use true or false"),
        (lambda c: c.controls.kill_broker(0, keep_unflushed="no"), "keep_unflushed='no': use true or false"),
        (lambda c: c.controls.move_leader(("orders", 0), 1, unclean="no"), "unclean='no': use true or false"),
        (lambda c: c.controls.compact("orders", roll_segments="no"), "roll_segments='no': use true or false"),
    ],
)
def test_invalid_control_calls_are_rejected_with_the_reason(
    three_brokers: KafkaCluster, call: Callable[[KafkaCluster], object], words: str
) -> None:
    with pytest.raises((ConfigurationError, UnknownTopicOrPartition), match=words):
        call(three_brokers)


@pytest.mark.kafka(brokers=3, topics={"t": 1})
def test_reset_ends_the_slowness_of_every_controller(kafka_cluster: KafkaCluster) -> None:
    """Also of the event that runs, and of a controller that is no longer active."""
    controls, first = kafka_cluster.controls, kafka_cluster.controller.id
    controls.slow_controller(600.0, 100)
    controls.move_controller((first + 1) % 3)
    controls.slow_controller(600.0, 100)
    creation = Thread(target=kafka_cluster.create_topic, args=("slow",), daemon=True)
    creation.start()
    node = kafka_cluster.running.controllers.active_node
    assert node is not None
    kafka_cluster.wait_until(lambda: len(node.events) > 0)
    started_at = time.monotonic()
    controls.reset()
    creation.join(60)
    controls.move_controller(first)
    kafka_cluster.create_topic("fast")
    assert time.monotonic() - started_at < 60
    assert kafka_cluster.topics() == ["fast", "slow", "t"]


@pytest.mark.kafka(brokers=2, topics={"t": 2}, config={"authorizer.class.name": STANDARD_AUTHORIZER})
def test_reset_ends_the_effects_of_links_loading_security_and_quotas(kafka_cluster: KafkaCluster) -> None:
    controls, running = kafka_cluster.controls, kafka_cluster.running
    controls.hold_loading()
    controls.refuse_mechanism("PLAIN")
    controls.refuse_mechanism("SCRAM-SHA-256")
    controls.cut_link(0, 1)
    controls.delay_client("app", 600.0)
    for name in ("app", "other"):
        controls.set_quota(client_id=name, producer_byte_rate=1000)
        controls.allow_access(f"User:{name}", "READ", topic="t")

    def effects() -> list[bool]:
        return [
            *(broker.coordinators.is_loading_held for broker in running.brokers),
            bool(running.shared.credentials.refused_mechanisms),
            *(running.links.is_cut(one, 1 - one) for one in (0, 1)),
            running.faults.is_active,
            len(controls.quotas()) > 0,
            len(controls.access_rules()) > 0,
        ]

    assert all(effects())
    controls.reset()
    assert not any(effects())


@pytest.mark.kafka(brokers=3, topics={"t": 1})
def test_a_crash_resets_connections(live: LiveCluster) -> None:
    wire = live.connect(1)
    wire.call(METADATA, 12)
    live.controls.crash_broker(1)
    with pytest.raises(ConnectionResetError):
        wire.socket.recv(1)


@one_broker
def test_the_history_has_requests_and_answers(live: LiveCluster) -> None:
    wire = live.leader()
    produce(wire, "t", 0, batch())
    wire.call(METADATA, 12)
    history = live.history
    assert [entry.api for entry in history] == ["Produce", "Metadata"]
    (request,) = history.requests("Produce")
    assert cast(ProduceRequest, request).topic_data[0].name == "t"
    (entry,) = history.entries("Metadata", client_id="wire", broker=0)
    assert entry.response is not None
    assert entry.correlation_id == 2
    assert (entry.latency or -1) >= 0
    assert history.entries(client_id="nobody") == []
    assert history.in_flight_max("Produce") == 1
    assert for_code(3).__name__  # the history refuses names that no request has
    with pytest.raises(ConfigurationError, match="did you mean 'Produce'"):
        history.requests("Prodduce")
    history.clear()
    assert len(history) == 0


@one_broker
def test_the_history_is_bounded(live: LiveCluster) -> None:
    history = live.history
    history._max_entries, history._max_bytes = 10, 5000
    wire = live.leader()
    for _ in range(12):
        wire.call(METADATA, 12)
    assert len(history) == 10
    produce(wire, "t", 0, batch([b"x" * 4800]))
    assert sum(entry.size_bytes for entry in history) <= 5000
    history.is_on = False
    wire.call(METADATA, 12)
    assert history.entries()[-1].api == "Produce"


@pytest.mark.kafka(brokers=1, topics={"t": 1, "wide": 200})
def test_history_drops_old_large_responses(live: LiveCluster) -> None:
    """librdkafka's clients ask for all topics again and again: thousands of decoded answers filled memory."""
    history = live.history
    history._max_large_bytes = 10_000  # one of these answers
    wire = live.leader()
    produce(wire, "t", 0, batch())
    for _ in range(5):
        wire.call(METADATA, 12)
    wire.call(MetadataRequest(topics=[]), 12)
    kept = [entry.response is not None for entry in history]
    assert len(kept) == 7, "requests are kept"
    assert kept == [True, *[False] * 4, True, True], "the newest, and small answers"
    history.clear()
    assert not history._large


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_a_paused_broker_keeps_its_connections_and_answers_later(live: LiveCluster) -> None:
    wire, other = live.connect(1), live.connect()
    live.controls.pause_broker(1)
    live.controls.pause_broker(1)
    sent = wire.send(MetadataRequest(topics=[]), 12)
    late = live.connect(1)  # the machine still takes connections in, as for a stopped process
    late.send(MetadataRequest(topics=[]), 12)
    assert other.call(MetadataRequest(topics=[]), 12).brokers
    assert not select.select([wire.socket, late.socket], [], [], 0.05)[0]
    live.controls.resume_broker(1)
    assert wire.receive(MetadataRequest, 12)[0] == sent
    assert late.receive(MetadataRequest, 12)[1].brokers
    live.controls.pause_broker(1)
    live.controls.crash_broker(1)
    live.controls.restart_broker(1)
    assert live.connect(1).call(MetadataRequest(topics=[]), 12).brokers
    live.controls.pause_broker(1)  # and a cluster with a paused broker closes


def test_numbers_of_rules_restart_only_if_there_are_none() -> None:
    rules: RuleList[FaultRule] = RuleList("rule", "rules")
    numbers = []
    for is_cleared in (False, False, True, True):
        if is_cleared:
            rules.clear()
        rules.forget_numbers()
        numbers.append(rules.add(FaultRule(then="hold")).id)
    assert numbers == [1, 2, 1, 1]


def test_controls_that_return_a_rule_return_it_from_another_process_too() -> None:
    names = [name for name in dir(Controls) if not name.startswith("_")]
    making = {name for name in names if signature(getattr(Controls, name)).return_annotation == "FaultRule"}
    assert making == RULE_RESULTS
