"""Fault rules as data: every action over real sockets, every key, and the nearest word for a misspelt one."""

from __future__ import annotations

import json
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.base.arguments import error_class, error_name
from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.faults.partial_errors import partitions_of
from pykafka2.broker.faults.rule import RULE_KEYS, Action, FaultRule
from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.errors import ConfigurationError, FetchSessionIdNotFound, NotLeaderOrFollower
from pykafka2.producer.producer import KafkaProducer
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.fetch import FetchRequest, FetchResponse
from pykafka2.protocol.messages.group_admin import DescribeGroupsRequest
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from pykafka2.protocol.messages.produce import ProduceRequest, ProduceResponse
from pykafka2.protocol.messages.quotas import DescribeClientQuotasRequest
from pykafka2.protocol.messages.share_fetch import (
    ShareFetchableTopicResponse,
    ShareFetchResponseLeaderIdAndEpoch,
    ShareFetchResponsePartitionData,
)
from pykafka2.protocol.messages.topics import DeleteTopicsRequest
from pykafka2.protocol.messages.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.controls.rules import Matching
from pykafka2.types import TopicPartition
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import (
    data_of,
    fetch,
    fetch_request,
    partition_of,
    produce,
    produce_request,
)
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster
from tests.error_codes import NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT, UNKNOWN_TOPIC_OR_PARTITION

METADATA = MetadataRequest(topics=None)
SESSION_NOT_FOUND = FetchSessionIdNotFound.code

one_broker = pytest.mark.kafka(brokers=1, topics={"t": 2, "other": 1})


# ---------------------------------------------------------------------- which requests


@one_broker
def test_the_nth_request_and_every_nth(live: LiveCluster) -> None:
    controls = live.controls
    third = controls.rule(api="Produce", nth=3, then="error:NOT_LEADER_OR_FOLLOWER")
    fifths = controls.rule(api="Produce", every=5, then="error:7")
    wire = live.leader()
    codes = [produce(wire, "t", 0, batch()).error_code for _ in range(10)]
    assert codes == [0, 0, NOT_LEADER_OR_FOLLOWER, 0, REQUEST_TIMED_OUT, 0, 0, 0, 0, REQUEST_TIMED_OUT]
    assert (third.seen, third.fired, third.is_spent) == (3, 1, True)
    assert (fifths.seen, fifths.fired, fifths.is_spent) == (10, 2, False)


@one_broker
def test_rule_fires_from_the_nth_match_as_often_as_set(live: LiveCluster) -> None:
    live.controls.rule(api=0, nth=2, times=2, then=NotLeaderOrFollower)
    wire = live.leader()
    assert [produce(wire, "t", 0, batch()).error_code for _ in range(4)] == [
        0,
        NOT_LEADER_OR_FOLLOWER,
        NOT_LEADER_OR_FOLLOWER,
        0,
    ]


@one_broker
def test_a_partition_a_client_and_a_function_of_the_request(live: LiveCluster) -> None:
    controls = live.controls
    wire = live.leader()
    rule = controls.rule(api=ProduceRequest, topic="t", partition=1, then="error:REQUEST_TIMED_OUT", times=1)
    assert [produce(wire, "t", number, batch()).error_code for number in (0, 1, 1)] == [
        0,
        REQUEST_TIMED_OUT,
        0,
    ]
    assert rule.fired == 1
    controls.rule(api="Produce", client_id="another client", then="hold")
    controls.rule(
        api="Produce", where=lambda request: request.acks == 1, then="error:REQUEST_TIMED_OUT", times=1
    )
    assert produce(wire, "t", 0, batch()).error_code == 0
    assert produce(wire, "t", 0, batch(), acks=1).error_code == REQUEST_TIMED_OUT


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_requests_between_brokers_are_matched_only_if_selected(live: LiveCluster) -> None:
    controls = live.controls
    clients_only = controls.rule(api="Fetch", then="error:REQUEST_TIMED_OUT")
    wire = live.leader()
    assert produce(wire, "t", 0, batch()).error_code == 0
    assert clients_only.fired == 0
    rule = controls.rule(api="Fetch", then="hold", between_brokers=True)
    wire.send(produce_request("t", 0, batch()), 12)
    live.wait_for(lambda: rule.fired > 0)
    leaders_log = live.cluster.log("t", 0)
    assert (leaders_log.high_watermark, leaders_log.log_end_offset) == (1, 2)
    controls.clear()
    assert partition_of(wire.receive(ProduceRequest, 12)[1]).error_code == 0


@pytest.mark.kafka(brokers=3, topics={"t": 1})
def test_requests_of_brokers_to_the_controller_can_be_held(live: LiveCluster) -> None:
    controls = live.controls
    controls.move_leader(("t", 0), to=1)  # elsewhere than the controller
    follower = next(one for one in live.cluster.partition("t", 0).isr if one != 1)
    rule = controls.rule(api="AlterPartition", then="hold", between_brokers=True, times=1)
    shrinking = threading.Thread(target=controls.shrink_isr, args=(("t", 0), follower))
    shrinking.start()
    live.wait_for(lambda: rule.fired == 1)
    assert follower in live.cluster.partition("t", 0).isr
    controls.release("AlterPartition")
    shrinking.join(10)
    assert follower not in live.cluster.partition("t", 0).isr


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_half_a_frame_between_brokers_fails_the_request(live: LiveCluster) -> None:
    """Links between brokers have no half frames; the leader sends the change again."""
    controls = live.controls
    controls.move_leader(("t", 0), to=1)  # elsewhere than the controller
    rule = controls.rule(api="AlterPartition", then="half_frame", between_brokers=True, times=2)
    controls.shrink_isr(("t", 0), 0)
    live.wait_for(lambda: rule.fired == 2)


def test_topics_of_every_form_of_a_request_are_found() -> None:
    image = ClusterImage(0, "", {}, {}, {}, {})
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0, 1]) for name in ("t", "u")]
    old = AddPartitionsToTxnRequest(v3_and_below_topics=topics)
    new = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=name, producer_id=1, producer_epoch=0, verify_only=False, topics=[topic]
            )
            for name, topic in zip("ab", topics, strict=True)
        ]
    )
    for request in (old, new):
        assert [*partitions_of(request, image)] == [("t", 0), ("t", 1), ("u", 0), ("u", 1)]


# ---------------------------------------------------------------------- what happens to them


@pytest.mark.parametrize("ends", ["clear", "remove_rule"])
@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_swallowed_fetch_of_a_follower_is_sent_again_after_the_rule(live: LiveCluster, ends: str) -> None:
    """Links between brokers have no request timeout, so the follower would wait for good."""
    rule = live.controls.rule(api="Fetch", then="swallow", between_brokers=True)
    live.wait_for(lambda: rule.fired > 0)
    wire = live.leader()
    wire.send(produce_request("t", 0, batch()), 12)
    if ends == "clear":
        live.controls.clear()
    else:
        live.controls.remove_rule(rule)
    assert partition_of(wire.receive(ProduceRequest, 12)[1]).error_code == 0


@one_broker
def test_swallow_leaves_the_connection_open_and_silent(live: LiveCluster) -> None:
    rule = live.controls.rule(api="Produce", times=1, then="swallow")
    wire = live.leader()
    wire.send(produce_request("t", 0, batch([b"lost"])), 12)
    wire.socket.settimeout(0.05)
    assert not wire.is_closed_by_broker()
    assert produce(live.leader(), "t", 0, batch([b"kept"])).error_code == 0
    assert live.cluster.log("t", 0).values() == [b"kept"]
    assert rule.fired == 1
    assert live.controls.held() == 0


@one_broker
def test_half_a_frame_then_the_end(live: LiveCluster) -> None:
    live.controls.rule(api="Produce", times=1, then="half_frame")
    wire = live.leader()
    wire.send(produce_request("t", 0, batch([b"applied"])), 12)
    received = b""
    while more := wire.socket.recv(1000):
        received += more
    assert 4 < len(received) < 4 + struct.unpack(">i", received[:4])[0]
    assert live.cluster.log("t", 0).values() == [b"applied"]


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_connection_gets_no_bytes_after_half_a_frame(live: LiveCluster) -> None:
    """The answer behind it was ready first and must not complete it."""
    controls = live.controls
    controls.rule(api="Produce", times=1, then="half_frame")
    controls.pause_followers()
    wire = live.leader()
    wire.send(produce_request("t", 0, batch()), 12)
    wire.send(METADATA, 12)
    live.wait_for(lambda: any(one.answered_at is not None for one in live.history.entries("Metadata")))
    controls.resume_followers()
    received = b""
    while more := wire.socket.recv(1000):
        received += more
    assert 4 < len(received) < 4 + struct.unpack(">i", received[:4])[0]


@one_broker
def test_close_before_and_close_after(live: LiveCluster) -> None:
    controls = live.controls
    controls.rule(api="Produce", nth=1, then="close_before")
    controls.rule(api="Produce", nth=2, then="close_after")
    wire = live.leader()
    wire.send(produce_request("t", 0, batch([b"not applied"])), 12)
    assert wire.socket.recv(1) == b""  # in good order: no reset
    wire = live.leader()
    assert produce(wire, "t", 0, batch([b"answered"])).error_code == 0
    assert wire.socket.recv(1) == b""
    assert live.cluster.log("t", 0).values() == [b"answered"]


@one_broker
def test_rule_with_reset_resets_the_connection(live: LiveCluster) -> None:
    live.controls.rule(api="Produce", then="close_before", reset=True)
    wire = live.leader()
    wire.send(produce_request("t", 0, batch()), 12)
    with pytest.raises(ConnectionResetError):
        wire.socket.recv(1)


@one_broker
@pytest.mark.parametrize("then", ["apply_then_lose_reply", "replay"])
def test_lost_reply_and_replay_reset_the_connection_by_default(live: LiveCluster, then: str) -> None:
    for reset in (None, False):
        live.controls.rule(api="Produce", then=then, times=1, reset=reset)
        wire = live.leader()
        wire.send(produce_request("t", 0, batch()), 12)
        if reset is None:
            with pytest.raises(ConnectionResetError):
                wire.socket.recv(1)
        else:
            assert wire.socket.recv(1) == b""


@one_broker
def test_a_frame_from_a_dead_connection_arrives_late(live: LiveCluster) -> None:
    controls = live.controls
    controls.rule(api="Produce", times=1, then="replay")
    wire = live.leader()
    wire.send(produce_request("t", 0, batch([b"first"])), 12)
    assert wire.is_closed_by_broker()
    wire = live.leader()
    for value in (b"first", b"second"):  # the client's retry, and what it sent then
        assert produce(wire, "t", 0, batch([value])).error_code == 0
    assert controls.held("Produce") == 1
    controls.release("Produce")
    live.wait_for(lambda: live.cluster.log("t", 0).log_end_offset == 3)
    assert live.cluster.log("t", 0).values() == [b"first", b"second", b"first"]
    entries = live.history.entries("Produce")
    late = entries[-1]
    assert late.peer.endswith("(dead)")
    assert sorted(entries, key=lambda one: one.received_at) == entries, "it is as old as its arrival"
    assert late.response is not None  # it was answered, on a closed connection


@one_broker
def test_a_late_frame_after_a_time(live: LiveCluster) -> None:
    live.controls.rule(api="Produce", times=1, then="replay:0.01")
    wire = live.leader()
    wire.send(produce_request("t", 0, batch([b"late"])), 12)
    assert wire.is_closed_by_broker()
    live.wait_for(lambda: live.cluster.log("t", 0).values() == [b"late"])


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_stale_metadata(live: LiveCluster) -> None:
    controls = live.controls
    leader = live.leader_id()
    rule = controls.rule(api="Metadata", broker=0, times=1, then="stale_metadata")
    controls.move_leader(("t", 0), to=1 - leader)
    live.cluster.create_topic("new")
    wire = live.connect()
    stale, fresh = (wire.call(METADATA, 12) for _ in range(2))
    assert [topic.partitions[0].leader_id for topic in stale.topics] == [leader]
    assert [topic.partitions[0].leader_id for topic in fresh.topics if topic.name == "t"] == [1 - leader]
    assert rule.fired == 1


@one_broker
def test_the_reply_may_be_replaced(live: LiveCluster) -> None:
    controls = live.controls
    wire = live.leader()
    by_struct = MetadataResponse(brokers=[], topics=[], cluster_id="elsewhere")
    controls.rule(api="Metadata", times=1, then="replace_reply", reply=by_struct)
    assert wire.call(METADATA, 12) == by_struct

    def rename(request: MetadataRequest, response: MetadataResponse) -> MetadataResponse:
        assert request.topics is None
        response.cluster_id = "renamed"
        return response

    controls.rule(api="Metadata", times=1, then="replace_reply", reply=rename)
    renamed = wire.call(METADATA, 12)
    assert (renamed.cluster_id, len(renamed.topics)) == ("renamed", 2)
    data = {
        "throttle_time_ms": 7,
        "topics": [{"error_code": UNKNOWN_TOPIC_OR_PARTITION, "partitions": [{"leader_id": -1}]}],
    }
    controls.rule(api="Metadata", times=1, then="replace_reply", reply=data)
    changed = wire.call(METADATA, 12)
    first = changed.topics[0]
    assert (changed.throttle_time_ms, first.error_code, first.partitions[0].leader_id) == (
        7,
        UNKNOWN_TOPIC_OR_PARTITION,
        -1,
    )
    assert [len(topic.partitions) for topic in changed.topics] == [len(t.partitions) for t in renamed.topics]


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_reply_function_gets_the_records_of_a_fetch_as_bytes(tmp_path: Path, is_on_disk: bool) -> None:
    stored: list[bytes] = []

    def flip_last_byte(request: FetchRequest, response: FetchResponse) -> FetchResponse:
        data = data_of(response)
        stored.append(bytes(data.records or b""))
        data.records = stored[0][:-1] + bytes([stored[0][-1] ^ 1])
        return response

    with (
        KafkaCluster(1, {"t": 1}, data_dir=tmp_path if is_on_disk else None) as cluster,
        RawClient(cluster.bootstrap_servers) as wire,
    ):
        for _ in range(2):
            assert not produce(wire, "t", 0, batch([bytes(10_000)])).error_code
        cluster.controls.rule(api="Fetch", times=1, then="replace_reply", reply=flip_last_byte)
        changed, whole = (bytes(fetch(wire, "t", 0, 0).records or b"") for _ in range(2))
    assert len(whole) > 20_000
    assert stored == [whole]
    assert changed == whole[:-1] + bytes([whole[-1] ^ 1])


def test_reply_function_that_edits_api_versions_in_place_changes_one_response_of_one_cluster() -> None:
    """The broker caches the ranges of versions for the process."""

    def emptied(request: ApiVersionsRequest, response: ApiVersionsResponse) -> ApiVersionsResponse:
        for one in response.api_keys:
            one.max_version = one.min_version = 0
        response.api_keys.clear()
        return response

    def ranges(wire: RawClient) -> list[tuple[int, int, int]]:
        response = wire.call(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 3)
        return [(one.api_key, one.min_version, one.max_version) for one in response.api_keys]

    with KafkaCluster(1) as cluster, RawClient(cluster.bootstrap_servers) as wire:
        before = ranges(wire)
        cluster.controls.rule(api="ApiVersions", times=1, then="replace_reply", reply=emptied)
        assert ranges(wire) == []
        assert ranges(wire) == before
    with KafkaCluster(1) as later, RawClient(later.bootstrap_servers) as wire:
        assert ranges(wire) == before


@one_broker
@pytest.mark.parametrize("key", ["where", "reply"])
def test_function_of_a_rule_that_edits_the_request_changes_neither_broker_nor_history(
    live: LiveCluster, key: str
) -> None:
    def edit(request: ProduceRequest, *rest: ProduceResponse) -> ProduceResponse | None:
        (topic,) = request.topic_data
        topic.partition_data[0].index = 1
        request.acks = 0
        request.topic_data.clear()
        return rest[0] if rest else None

    functions: dict[str, object] = {key: edit}
    then = "hold" if key == "where" else "replace_reply"
    rule = live.controls.rule(api="Produce", then=then, **functions)  # type: ignore[arg-type]
    for number in range(2):
        assert not produce(live.leader(), "t", 0, batch([b"%d" % number])).error_code
    assert (rule.seen, rule.fired) == ((0, 0) if key == "where" else (2, 2))
    assert live.cluster.log("t", 0).values() == [b"0", b"1"]
    for request in live.history.requests(ProduceRequest):
        assert (request.acks, request.topic_data[0].partition_data[0].index) == (-1, 0)


@one_broker
def test_reply_response_is_not_throttled_itself(live: LiveCluster) -> None:
    given = MetadataResponse(brokers=[], topics=[])
    live.controls.rule(api="Metadata", then="replace_reply", reply=given)
    live.controls.throttle("wire", "Metadata", 0.001, times=1)
    wire = live.leader()
    assert [wire.call(METADATA, 12).throttle_time_ms for _ in range(2)] == [1, 0]
    assert given.throttle_time_ms == 0


def too_large(request: MetadataRequest, response: MetadataResponse) -> MetadataResponse:
    response.controller_id = 1 << 40
    return response


@pytest.mark.parametrize(
    "reply",
    [
        lambda *_: 1 / 0,
        lambda *_: "metadata",
        lambda *_: ApiVersionsResponse(error_code=0, api_keys=[]),
        too_large,
        {"cluster_authorized_operations": 1},
        {"brokers": [{}, {"node_id": 7}]},
    ],
    ids=["error", "str", "another response", "too large", "field of another version", "missing field"],
)
@one_broker
def test_a_reply_that_cannot_be_made_costs_its_connection(
    live: LiveCluster, caplog: pytest.LogCaptureFixture, reply: Any
) -> None:
    """It is a fault of the test, so the cluster reports no problem of its own."""
    live.controls.rule(api="Metadata", then="replace_reply", reply=reply, times=1)
    wire = live.leader()
    wire.send(METADATA, 12)
    assert wire.is_closed_by_broker()
    assert "could not replace" in caplog.text
    assert live.leader().call(METADATA, 12).topics


@one_broker
def test_a_produce_without_acks_gets_no_answer_even_when_it_fails(live: LiveCluster) -> None:
    live.controls.rule(api="Produce", then="error:REQUEST_TIMED_OUT")
    wire = live.leader()
    wire.send(produce_request("t", 0, batch(), acks=0), 12)
    assert wire.is_closed_by_broker()


# ---------------------------------------------------------------------- our producer meets them

SURVIVED = [
    "error:NOT_LEADER_OR_FOLLOWER",
    "delay:0.02",
    "apply_then_lose_reply",
    "half_frame",
    "close_before",
    "close_after",
    "replay:0.01",
]


@pytest.mark.parametrize("then", SURVIVED)
@one_broker
def test_the_idempotent_producer_survives(live: LiveCluster, then: str) -> None:
    rule = live.controls.rule(api="Produce", nth=2, then=then)
    values = [b"%d" % number for number in range(6)]
    with KafkaProducer(
        bootstrap_servers=live.cluster.bootstrap_servers, retry_backoff_ms=5, linger_ms=0
    ) as producer:
        for value in values:
            producer.send("t", value, partition=0).result(timeout=60)
    assert rule.fired == 1
    if rule.action is Action.REPLAY:
        live.wait_for(lambda: live.history.entries("Produce")[-1].answered_at is not None)
    assert live.cluster.log("t", 0).values() == values


@one_broker
def test_the_producer_survives_a_reply_that_lies(kafka_cluster: KafkaCluster) -> None:
    """Appended, but answered with an error: the retry is a duplicate, and known as one."""
    lie = {
        "responses": [{"partition_responses": [{"error_code": NOT_LEADER_OR_FOLLOWER, "base_offset": -1}]}]
    }
    rule = kafka_cluster.controls.rule(api="Produce", times=1, then="replace_reply", reply=lie)
    with KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, retry_backoff_ms=5, linger_ms=0
    ) as producer:
        assert producer.send("t", b"once", partition=0).result(timeout=60).offset == 0
    assert rule.fired == 1
    assert kafka_cluster.history.count("Produce") == 2
    assert kafka_cluster.log("t", 0).values() == [b"once"]


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_the_producer_survives_stale_metadata(kafka_cluster: KafkaCluster) -> None:
    controls = kafka_cluster.controls
    leader = kafka_cluster.partition("t", 0).leader
    rule = controls.rule(api="Metadata", times=2, then="stale_metadata")
    controls.move_leader(("t", 0), to=1 - leader)
    with KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, retry_backoff_ms=5, linger_ms=0
    ) as producer:
        producer.send("t", b"value").result(timeout=60)
    assert rule.fired >= 1
    refused = kafka_cluster.history.entries("Produce", broker=leader)
    assert all(f"error_code={NOT_LEADER_OR_FOLLOWER}" in repr(entry.response) for entry in refused)
    assert len(refused) >= 1
    assert kafka_cluster.log("t", 0).values() == [b"value"]


@one_broker
def test_swallowed_request_is_sent_again_after_the_request_timeout(kafka_cluster: KafkaCluster) -> None:
    rule = kafka_cluster.controls.rule(api="Produce", times=1, then="swallow")
    with KafkaProducer(
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        request_timeout_ms=60,
        linger_ms=0,
        retry_backoff_ms=5,
    ) as producer:
        producer.send("t", b"value", partition=0).result(timeout=60)
    assert rule.fired == 1
    assert kafka_cluster.log("t", 0).values() == [b"value"]


@one_broker
def test_without_idempotence_a_late_frame_is_a_duplicate(live: LiveCluster) -> None:
    controls = live.controls
    controls.rule(api="Produce", times=1, then="replay")
    with KafkaProducer(
        bootstrap_servers=live.cluster.bootstrap_servers,
        enable_idempotence=False,
        linger_ms=0,
        retry_backoff_ms=5,
    ) as producer:
        for value in (b"1", b"2"):
            producer.send("t", value, partition=0).result(timeout=60)
    controls.release()
    live.wait_for(lambda: live.cluster.log("t", 0).log_end_offset == 3)
    assert live.cluster.log("t", 0).values() == [b"1", b"2", b"1"]


# ---------------------------------------------------------------------- as data


@one_broker
def test_rules_come_from_json_and_go_back(live: LiveCluster) -> None:
    controls = live.controls
    text = '{"api": "Produce", "topic": "t", "nth": 2, "times": 3, "then": "error:NOT_LEADER_OR_FOLLOWER"}'
    rule = controls.add_rule(json.loads(text))
    assert [one.id for one in controls.rules()] == [rule.id]
    wire = live.leader()
    assert [produce(wire, "t", 0, batch()).error_code for _ in range(3)] == [
        0,
        NOT_LEADER_OR_FOLLOWER,
        NOT_LEADER_OR_FOLLOWER,
    ]
    data = json.loads(json.dumps(rule.to_dict()))
    assert data["fired"] == 2
    assert data["seen"] == 3
    again = {name: value for name, value in data.items() if name not in ("id", "seen", "fired")}
    assert again == {**json.loads(text), "between_brokers": False}
    assert FaultRule.from_dict(again).error is NotLeaderOrFollower
    controls.remove_rule(rule.id)
    assert produce(wire, "t", 0, batch()).error_code == 0
    controls.clear()
    assert controls.rules() == []


@one_broker
def test_removed_rule_releases_the_requests_it_holds(live: LiveCluster) -> None:
    controls = live.controls
    produces = controls.rule(api="Produce", then="hold")
    controls.rule(api="Metadata", then="hold")
    wire, other = live.leader(), live.leader()
    wire.send(produce_request("t", 0, batch()), 12)
    other.send(METADATA, 12)
    live.wait_for(lambda: controls.held() == 2)
    controls.remove_rule(produces)
    assert partition_of(wire.receive(ProduceRequest, 12)[1]).error_code == 0
    assert controls.held() == 1
    controls.release("Metadata")
    assert other.receive(MetadataRequest, 12)[1].topics


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"api": "Prodduce", "then": "hold"}, "did you mean 'Produce'"),
        ({"api": 999, "then": "hold"}, "unknown request 999"),
        ({"apy": "Produce", "then": "hold"}, "no 'apy'; did you mean 'api'"),
        ({"api": "Produce", "then": "holt"}, "did you mean 'hold'"),
        ({"api": "Produce", "then": "error:NOT_LEADER"}, "did you mean 'NOT_LEADER_OR_FOLLOWER'"),
        ({"api": "Produce", "then": "error"}, "set the error"),
        ({"api": "Produce"}, "set the action"),
        ({"api": "Produce", "then": "delay"}, "set the seconds"),
        ({"api": "Produce", "then": "delay:soon"}, "use seconds"),
        ({"api": "Produce", "then": "hold:5"}, "takes no argument"),
        ({"api": "Produce", "then": "hold", "nth": 0}, "nth=0"),
        ({"api": "Produce", "then": "hold", "nth": 1, "every": 2}, "not both"),
        ({"api": "Produce", "then": "hold", "times": 0}, "times=0"),
        ({"api": "Produce", "then": "stale_metadata"}, "one of DescribeCluster"),
        ({"api": "Produce", "then": "replace_reply"}, "needs reply"),
        ({"api": "Produce", "then": "hold", "reply": {}}, "needs reply"),
        ({"api": "Produce", "then": "hold", "broker": 7}, "Unknown broker 7"),
        ({"api": "Produce", "then": 5}, "then=5: use an action"),
        ({"api": True, "then": "hold"}, "unknown request True"),
        ({"api": object, "then": "hold"}, "unknown request <class 'object'>"),
        ({"api": MetadataResponse, "then": "hold"}, "unknown request .*MetadataResponse"),
        ({"api": "Produce", "then": "hold", "topic": 7}, "topic=7: use a name"),
        ({"api": "Produce", "then": "hold", "partition": "0"}, "partition='0': use a number"),
        ({"api": "Produce", "then": "hold", "nth": True}, "nth=True: use a number"),
        ({"api": "Produce", "then": "hold", "times": "ever"}, "times='ever': use a number"),
        ({"api": "Produce", "then": "hold", "where": "acks == 1"}, "use a function"),
        ({"api": "Produce", "then": "hold", "reset": 1}, "reset=1: use true or false"),
        ({"api": "Produce", "then": "replace_reply", "reply": 1}, "reply=1: use a response"),
        (
            {"api": "Produce", "then": "replace_reply", "reply": {"responses": [{"nane": "t"}]}},
            "has no field 'nane'; did you mean 'name'",
        ),
        ({"then": "replace_reply", "reply": {"nane": "t"}}, "set api="),
        ({"then": "replace_reply", "reply": MetadataResponse(brokers=[], topics=[])}, "set api="),
        (
            {"api": "Fetch", "then": "replace_reply", "reply": MetadataResponse(brokers=[], topics=[])},
            "reply= is a MetadataResponse, not a FetchResponse",
        ),
        ({"api": "Produce", "then": "delay:nan"}, "use seconds"),
        ({"api": "Produce", "then": "replay:-1"}, "use seconds"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_rule_is_rejected_by_name(
    shared_cluster: KafkaCluster, rule: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        shared_cluster.controls.add_rule(rule)
    assert shared_cluster.controls.rules() == []


WITHOUT_RECORDS = ShareFetchResponsePartitionData(
    partition_index=0,
    acknowledge_error_code=0,
    current_leader=ShareFetchResponseLeaderIdAndEpoch(leader_id=0, leader_epoch=0),
    records=None,  # type: ignore[arg-type]
    acquired_records=[],
)
UNFIT: list[tuple[str, Any, str]] = [
    ("DescribeClientQuotas", {"entries": [{"values": [{"value": "abc"}]}]}, "value='abc': use a number, or"),
    ("DescribeClientQuotas", {"entries": [{"values": [{"value": True}]}]}, "value=True: use a number, or"),
    ("DescribeClientQuotas", {"entries": [{"values": [{"value": 10**400}]}]}, "use a number, or"),
    ("Metadata", {"throttle_time_ms": "9"}, r"throttle_time_ms='9': use a whole number from -2\^31"),
    ("Metadata", {"throttle_time_ms": 1.5}, "throttle_time_ms=1.5: use a whole number"),
    ("Metadata", {"throttle_time_ms": True}, "throttle_time_ms=True: use a whole number"),
    ("Metadata", {"throttle_time_ms": None}, "throttle_time_ms=None: this field cannot be null"),
    ("Metadata", {"controller_id": 1 << 40}, "controller_id=1099511627776: use a whole number"),
    (
        "Metadata",
        MetadataResponse(brokers=[], topics=[], controller_id=1 << 40),
        "controller_id=1099511627776",
    ),
    ("Metadata", {"cluster_id": 7}, "cluster_id=7: use text"),
    ("Metadata", {"cluster_id": "\ud800"}, "use text"),
    ("Metadata", {"cluster_id": "é" * 16384}, r"more characters\): use text of at most 32767 bytes"),
    ("Metadata", {"topics": "t"}, "topics='t': use a list"),
    ("Metadata", {"topics": {"name": "t"}}, "use a list"),
    ("Metadata", {"topics": ["t"]}, r"topics\[0\]='t': use a mapping of the fields of MetadataResponseTopic"),
    ("Metadata", {"topics": [{"is_internal": 1}]}, r"topics\[0\].is_internal=1: use true or false"),
    ("Metadata", {"topics": [{"topic_id": "abc"}]}, "topic_id='abc': use 16 bytes, or base64 text of them"),
    ("Metadata", {"topics": [{"topic_id": "AAAA"}]}, "topic_id='AAAA': use 16 bytes, or base64 text of them"),
    (
        "Metadata",
        {"topics": [{"partitions": [{"isr_nodes": [1, "2"]}]}]},
        r"isr_nodes\[1\]='2': use a whole number",
    ),
    ("Metadata", {"topics": [{"partitions": [{"isr_nodes": None}]}]}, "isr_nodes=None: this field cannot be"),
    ("Fetch", {"responses": [{"partitions": [{"records": "!"}]}]}, "records='!': use bytes, or base64 text"),
    ("Fetch", {"responses": [{"partitions": [{"current_leader": 1}]}]}, "use a mapping of the fields of"),
    ("Fetch", {"responses": [{7: 8}]}, "has no field 7"),
    (
        "ShareFetch",
        {"responses": [ShareFetchableTopicResponse(topic_id=bytes(16), partitions=[WITHOUT_RECORDS])]},
        r"responses\[0\].partitions\[0\].records=None: this field cannot be null",
    ),
]
"""APIs with replies that have a value which the field cannot have, and the words of the error."""


@pytest.mark.parametrize(
    ("api", "reply", "words"), UNFIT, ids=lambda value: value if type(value) is str else ""
)
def test_reply_with_a_value_that_its_field_cannot_have_is_rejected(
    shared_cluster: KafkaCluster, api: str, reply: Any, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        shared_cluster.controls.rule(api=api, then="replace_reply", reply=reply)
    assert shared_cluster.controls.rules() == []


@pytest.mark.parametrize("value", [1, 0.5, "1.5", "Infinity", "-Infinity", "NaN"], ids=str)
def test_reply_can_have_each_number_of_a_float(shared_cluster: KafkaCluster, value: float | str) -> None:
    data = {"entries": [{"entity": [], "values": [{"key": "producer_byte_rate", "value": value}]}]}
    with RawClient(shared_cluster.bootstrap_servers) as wire:
        shared_cluster.controls.rule(api="DescribeClientQuotas", then="replace_reply", times=1, reply=data)
        response = wire.call(DescribeClientQuotasRequest(components=[], strict=False), 1)
    shared_cluster.controls.clear()
    (entry,) = response.entries or []
    assert repr(entry.values[0].value) == repr(float(value))


def test_fields_of_a_reply_can_be_structs(shared_cluster: KafkaCluster) -> None:
    """In place of structs of the response, and behind them."""
    brokers = [MetadataResponseBroker(node_id=node_id, host="h", port=9) for node_id in range(40, 80)]
    with RawClient(shared_cluster.bootstrap_servers) as wire:
        shared_cluster.controls.rule(
            api="Metadata", then="replace_reply", times=1, reply={"brokers": brokers}
        )
        response = wire.call(MetadataRequest(topics=[]), 9)
    shared_cluster.controls.clear()
    assert [broker.node_id for broker in response.brokers] == list(range(40, 80))


@pytest.mark.parametrize("rule", [None, 7, object, b"hold", "hold", [("then", "hold")]], ids=repr)
def test_rule_of_another_type_is_rejected(shared_cluster: KafkaCluster, rule: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a rule: use a FaultRule or a mapping"):
        shared_cluster.controls.add_rule(rule)


@pytest.mark.parametrize("rule", [1.5, "1", b"1", object, True, {"then": "hold"}], ids=repr)
def test_removal_of_another_type_is_rejected(shared_cluster: KafkaCluster, rule: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a rule: use a rule or its id"):
        shared_cluster.controls.remove_rule(rule)
    with pytest.raises(ConfigurationError, match="is not a throttle: use a throttle or its id"):
        shared_cluster.controls.unthrottle(rule)


@pytest.mark.parametrize(
    "changed",
    [
        {"seconds": None},
        {"seconds": "1"},
        {"seconds": True},
        {"seconds": float("nan")},
        {"times": "2"},
        {"times": 1.5},
        {"times": True},
        {"client_id": 7},
        {"request": object},
    ],
    ids=str,
)
def test_throttle_of_another_type_is_rejected(shared_cluster: KafkaCluster, changed: dict[str, Any]) -> None:
    given = {"client_id": "c", "request": "Fetch", "seconds": 0.1, "times": 1} | changed
    with pytest.raises(ConfigurationError):
        shared_cluster.controls.throttle(**given)
    assert shared_cluster.controls.throttles() == []


@pytest.fixture(scope="module")
def shared_cluster() -> Any:
    with KafkaCluster(brokers=1) as cluster:
        yield cluster


JSON_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.just({}), st.just([])
)


@given(st.dictionaries(st.sampled_from([*RULE_KEYS, "more"]), JSON_VALUES, max_size=5))
def test_any_json_is_a_rule_or_is_refused(data: dict[str, Any]) -> None:
    for then in (data.get("then"), "hold", "error:6", "delay:1"):
        try:
            rule = FaultRule.from_dict({**data, "then": then})
        except ConfigurationError:
            continue
        assert FaultRule.from_dict({key: rule.to_dict()[key] for key in RULE_KEYS if key in rule.to_dict()})


@one_broker
def test_a_function_that_fails_matches_nothing(live: LiveCluster, caplog: pytest.LogCaptureFixture) -> None:
    live.controls.rule(where=lambda request: request.acks == 1, then="hold")
    assert live.leader().call(METADATA, 12).topics
    assert "failed for MetadataRequest" in caplog.text
    live.cluster.check()


def test_a_misspelt_control_names_the_nearest(shared_cluster: KafkaCluster) -> None:
    with pytest.raises(AttributeError, match="Unknown control 'cut_lnik'; did you mean 'cut_link'"):
        shared_cluster.controls.cut_lnik(0, 1)


def test_type_checkers_know_every_key_of_a_rule() -> None:
    """A key that is new in `FaultRule` may be said to `controls.rule` in words of its own type."""
    assert {*Matching.__annotations__, "then"} == set(RULE_KEYS)


def test_every_error_has_its_name() -> None:
    names = {"NOT_LEADER_OR_FOLLOWER": 6, "UNKNOWN_TOPIC_OR_PARTITION": 3, "KAFKA_STORAGE_ERROR": 56}
    for name, code in names.items():
        assert error_class(name).code == code
        assert error_name(error_class(str(code))) == name


@one_broker
def test_a_fetch_is_matched_by_topic(live: LiveCluster) -> None:
    live.controls.rule(api="Fetch", topic="other", then="error:REQUEST_TIMED_OUT")
    wire = live.leader()
    assert wire.call(fetch_request("t", 0, 0), 12).responses[0].partitions[0].error_code == 0
    assert (
        wire.call(fetch_request("other", 0, 0), 12).responses[0].partitions[0].error_code == REQUEST_TIMED_OUT
    )


@one_broker
def test_one_partition_of_a_produce_is_refused_and_the_rest_appended(live: LiveCluster) -> None:
    live.controls.rule(api="Produce", topic="t", partition=1, times=1, then=NotLeaderOrFollower)
    request = produce_request("t", 0, batch([b"kept"]))
    request.topic_data[0].partition_data += (
        produce_request("t", 1, batch([b"refused"])).topic_data[0].partition_data
    )
    request.topic_data += produce_request("other", 0, batch([b"kept too"])).topic_data
    answer = live.leader().call(request, 12)
    codes = {
        (topic.name, one.index): one.error_code
        for topic in answer.responses
        for one in topic.partition_responses
    }
    assert codes == {("t", 0): 0, ("t", 1): NOT_LEADER_OR_FOLLOWER, ("other", 0): 0}
    assert len(answer.responses) == 2
    assert live.cluster.log("t", 0).values() == [b"kept"]
    assert live.cluster.log("t", 1).values() == []
    (entry,) = live.history.entries("Produce")
    assert entry.response == answer  # what was sent, not what the handler said


@one_broker
def test_a_partition_that_a_fetch_session_does_not_name_again_is_refused_too(live: LiveCluster) -> None:
    wire = live.leader()
    produce(wire, "t", 1, batch([b"fine"]))
    first = fetch_request("t", 0, 0)
    first.topics[0].partitions += fetch_request("t", 1, 0).topics[0].partitions
    first.session_epoch = 0
    opened = wire.call(first, 12)
    assert opened.session_id > 0
    rule = live.controls.rule(api="Fetch", partition=0, times=1, then="error:NOT_LEADER_OR_FOLLOWER")
    codes = []
    for epoch in (1, 2):
        again = FetchRequest(
            max_wait_ms=100, min_bytes=1, session_id=opened.session_id, session_epoch=epoch, topics=[]
        )
        answer = wire.call(again, 12)
        assert answer.error_code == 0  # the session stays in step
        codes.append({one.partition_index: one.error_code for t in answer.responses for one in t.partitions})
    assert rule.fired == 1
    assert codes[0] == {0: NOT_LEADER_OR_FOLLOWER, 1: 0}
    assert codes[1].get(0, 0) == 0


@one_broker
def test_fetch_with_a_refused_partition_does_not_wait_for_the_others(live: LiveCluster) -> None:
    wire = live.leader()
    request = fetch_request("t", 0, 0, max_wait_ms=60_000)
    request.topics[0].partitions += fetch_request("t", 1, 0).topics[0].partitions
    for number in (0, 1):
        live.controls.rule(api="Fetch", partition=number, times=1, then="error:NOT_LEADER_OR_FOLLOWER")
        (topic,) = wire.call(request, 12).responses
        codes = {one.partition_index: one.error_code for one in topic.partitions}
        assert codes == {number: NOT_LEADER_OR_FOLLOWER, 1 - number: 0}


@one_broker
def test_consumer_retries_a_rejected_fetch(live: LiveCluster) -> None:
    produce(live.leader(), "t", 0, batch([b"a"]))
    rule = live.controls.rule(api="Fetch", topic="t", nth=1, then="error:NOT_LEADER_OR_FOLLOWER")
    with KafkaConsumer(
        bootstrap_servers=live.cluster.bootstrap_servers, auto_offset_reset="earliest", retry_backoff_ms=5
    ) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        read: list[Any] = []
        for _ in range(100):
            read += [one.value for records in consumer.poll(timeout_ms=100).values() for one in records]
            if read:
                break
    assert read == [b"a"]
    assert rule.fired == 1


@pytest.mark.parametrize("version", [4, 6])
@one_broker
def test_session_error_of_a_version_without_sessions_is_an_error_of_partitions(
    live: LiveCluster, version: int
) -> None:
    wire = live.leader()
    for number in (0, 1):
        produce(wire, "t", number, batch([b"v"]))
    request = fetch_request("t", 0, 0)
    request.topics[0].partitions += fetch_request("t", 1, 0).topics[0].partitions
    for partition, expected in (
        (1, {0: 0, 1: SESSION_NOT_FOUND}),
        (None, dict.fromkeys((0, 1), SESSION_NOT_FOUND)),
    ):
        live.controls.rule(api="Fetch", partition=partition, times=1, then="error:FETCH_SESSION_ID_NOT_FOUND")
        [topic] = wire.call(request, version).responses
        assert {one.partition_index: one.error_code for one in topic.partitions} == expected


@one_broker
def test_rule_for_a_topic_matches_lists_of_names_but_no_group_of_that_name(live: LiveCluster) -> None:
    described = live.controls.rule(api="DescribeGroups", topic="t", then="error:UNKNOWN_SERVER_ERROR")
    deleted = live.controls.rule(api="DeleteTopics", topic="t", then="error:UNKNOWN_SERVER_ERROR")
    wire = live.leader()
    wire.call(DescribeGroupsRequest(groups=["t", "other"]), 5)
    assert described.fired == 0
    for names in (["other"], ["absent", "t"]):
        wire.call(DeleteTopicsRequest(topic_names=names, timeout_ms=1000), 5)
    assert deleted.fired == 1
    assert "t" in live.cluster.topics()
