"""Automatically created topics, topic names, and the checks of CreateTopics and DeleteTopics.

The messages are those of Apache Kafka 4.3.1 for the same requests.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import name_of
from pykafka2.protocol.messages.topics import (
    CreatableReplicaAssignment,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.admin_requests import (
    EMPTY,
    NOT_CONSISTENT,
    NOT_REGISTERED,
    TWICE,
    Outcome,
    create,
    delete,
    metadata_of,
    outcome,
    topic_of,
)
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

DONE: Outcome = ("NONE", None)

NOT_CONSECUTIVE = "partitions should be a consecutive 0-based integer sequence"
ILLEGAL = "Topic name is invalid: "


# ---------------------------------------------------------------------- automatic creation


@pytest.mark.kafka(brokers=3, config={"num.partitions": 4})
def test_metadata_request_creates_the_topic_on_every_broker(live: LiveCluster) -> None:
    wire = live.connect(1)
    (first,) = metadata_of(wire, "new")
    assert name_of(first.error_code) in ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE")
    for broker in range(3):
        (found,) = metadata_of(live.connect(broker), "new", create=False)
        assert (found.error_code, len(found.partitions)) == (0, 4)


@pytest.mark.parametrize(
    ("config", "in_request"), [({"auto.create.topics.enable": False}, True), ({}, False)]
)
def test_auto_creation_requires_request_and_broker_to_allow_it(
    config: dict[str, object], in_request: bool
) -> None:
    with KafkaCluster(brokers=1, config=config) as cluster, RawClient(cluster.brokers[0].address) as wire:
        (topic,) = metadata_of(wire, "new", create=in_request)
        assert name_of(topic.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert cluster.topics() == []


@pytest.mark.kafka(brokers=1)
def test_missing_internal_topics_are_marked_internal(live: LiveCluster) -> None:
    responses = metadata_of(live.connect(), "__transaction_state", "__consumer_offsets", "mine", create=False)
    assert {name_of(one.error_code) for one in responses} == {"UNKNOWN_TOPIC_OR_PARTITION"}
    assert [one.is_internal for one in responses] == [True, True, False]


@pytest.mark.kafka(brokers=1, topics={"a.b": 1})
def test_illegal_and_colliding_names_are_not_auto_created(live: LiveCluster) -> None:
    illegal, colliding = metadata_of(live.connect(), "a b", "a_b")
    assert name_of(illegal.error_code) == "INVALID_TOPIC_EXCEPTION"
    assert colliding.error_code != 0
    assert live.cluster.topics() == ["a.b"]


# ---------------------------------------------------------------------- names


@pytest.mark.kafka(brokers=1, topics={"a.b": 1})
def test_topic_names_are_checked(wire: RawClient) -> None:
    for name, words in (
        ("", ILLEGAL + "the empty string is not allowed"),
        (".", ILLEGAL + "'.' is not allowed"),
        ("..", ILLEGAL + "'..' is not allowed"),
        ("x" * 250, ILLEGAL + f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        (
            "a b",
            ILLEGAL
            + "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
        ("a_b", "Topic 'a_b' collides with existing topic: a.b"),
    ):
        (result,) = create(wire, topic_of(name))
        assert outcome(result) == ("INVALID_TOPIC_EXCEPTION", words)
    (longest,) = create(wire, topic_of("x" * 249))
    assert outcome(longest) == DONE
    (again,) = create(wire, topic_of("a.b"))
    assert outcome(again) == ("TOPIC_ALREADY_EXISTS", "Topic 'a.b' already exists.")


# ---------------------------------------------------------------------- CreateTopics, DeleteTopics

MANUAL_BUT = "A manual partition assignment was specified, but {} was not set to -1."
INVALID_TOPICS: list[tuple[dict[str, Any], str, str]] = [
    (
        {"partitions": 0},
        "INVALID_PARTITIONS",
        "Number of partitions was set to an invalid non-positive value.",
    ),
    (
        {"factor": 0},
        "INVALID_REPLICATION_FACTOR",
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (
        {"factor": 4},
        "INVALID_REPLICATION_FACTOR",
        "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached "
        "because only 3 broker(s) are registered or some brokers have all their log directories cordoned.",
    ),
    (
        {"partitions": 10_001},
        "POLICY_VIOLATION",
        "Excessively large number of partitions per request.",
    ),
    ({"assignment": {0: [0], 2: [1]}}, "INVALID_REPLICA_ASSIGNMENT", NOT_CONSECUTIVE),
    ({"assignment": {1: [0]}}, "INVALID_REPLICA_ASSIGNMENT", NOT_CONSECUTIVE),
    ({"assignment": {0: [0, 0]}}, "INVALID_REPLICA_ASSIGNMENT", TWICE),
    ({"assignment": {0: []}}, "INVALID_REPLICA_ASSIGNMENT", EMPTY),
    ({"assignment": {0: [7]}}, "INVALID_REPLICA_ASSIGNMENT", NOT_REGISTERED.format(7)),
    ({"assignment": {0: [0], 1: [0, 1]}}, "INVALID_REPLICA_ASSIGNMENT", NOT_CONSISTENT.format(2, 1)),
    ({"configs": {"nosuch": "1"}}, "INVALID_CONFIG", "Unknown topic config name: nosuch"),
    (
        {"configs": {"retention.ms": None}},
        "INVALID_CONFIG",
        "Null value not supported for topic configs: retention.ms",
    ),
    (
        {"configs": {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}},
        "INVALID_CONFIG",
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
    ),
]
INVALID_VALUES = [
    ("retention.ms", "abc", "Not a number of type LONG"),
    ("retention.ms", "-2", "Value must be at least -1"),
    ("max.message.bytes", "99999999999", "Not a number of type INT"),
    ("cleanup.policy", "foo", "String must be one of: compact, delete"),
    ("compression.type", "none", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
    ("min.insync.replicas", "0", "Value must be at least 1"),
    ("unclean.leader.election.enable", "maybe", "Expected value to be either true or false"),
    ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
    ("segment.bytes", "100", "Value must be at least 1048576"),
    ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
    ("message.timestamp.type", "foo", "String must be one of: CreateTime, LogAppendTime"),
]


@pytest.mark.kafka(brokers=3)
def test_invalid_create_topics_requests_are_rejected(live: LiveCluster, wire: RawClient) -> None:
    for arguments, error, words in INVALID_TOPICS:
        (result,) = create(wire, topic_of("t", **arguments))
        assert outcome(result) == (error, words)
        assert result.topic_id == ZERO_UUID
    for name, value, words in INVALID_VALUES:
        (result,) = create(wire, topic_of("t", configs={name: value}))
        assert outcome(result) == (
            "INVALID_CONFIG",
            f"Invalid value {value} for configuration {name}: {words}",
        )
    for partitions, factor, what in ((1, -1, "numPartitions"), (1, 1, "replication factor")):
        topic = topic_of("t", assignment={0: [0]})
        topic.num_partitions, topic.replication_factor = partitions, factor
        assert outcome(create(wire, topic)[0]) == ("INVALID_REQUEST", MANUAL_BUT.format(what))
    topic = topic_of("t", assignment={0: [0]})
    topic.assignments.append(CreatableReplicaAssignment(partition_index=0, broker_ids=[1]))
    assert outcome(create(wire, topic)[0])[0] == "INVALID_REPLICA_ASSIGNMENT"
    assert outcome(create(wire, topic_of("__cluster_metadata"))[0])[0] == "INVALID_REQUEST"
    assert outcome(create(wire, topic_of("t"), topic_of("t"))[0]) == (
        "INVALID_REQUEST",
        "Duplicate topic name.",
    )
    assert live.cluster.topics() == []


@pytest.mark.kafka(brokers=3)
def test_created_topic_is_returned_with_its_configs(live: LiveCluster) -> None:
    wire = live.connect(2)
    (validated,) = create(wire, topic_of("t", 2, 3), validate_only=True)
    assert (outcome(validated), validated.num_partitions) == (DONE, 2)
    assert live.cluster.topics() == []
    (result,) = create(wire, topic_of("t", 2, 3, {"retention.ms": "100", "internal.segment.bytes": "99"}))
    assert (outcome(result), result.num_partitions, result.replication_factor) == (DONE, 2, 3)
    assert result.topic_id == live.cluster.controller.image.topics["t"].id
    configs = {config.name: (config.value, config.config_source) for config in result.configs or []}
    assert len(configs) == 38  # Kafka's 37, and one of its own that is set
    assert configs["retention.ms"] == ("100", 1)
    assert configs["cleanup.policy"] == ("delete", 5)


@pytest.mark.kafka(brokers=3)
def test_fenced_brokers_get_replicas_only_if_there_are_too_few_others(live: LiveCluster) -> None:
    live.controls.crash_broker(0)
    wire = live.connect(1)
    assert outcome(create(wire, topic_of("two", 4, 2))[0]) == DONE
    assert outcome(create(wire, topic_of("three", 4, 3))[0]) == DONE
    topics = live.cluster.controller.image.topics
    assert all(sorted(one.replicas) == [1, 2] for one in topics["two"].partitions)
    assert all(one.replicas[2] == 0 and 0 not in one.isr for one in topics["three"].partitions)
    refused = outcome(create(wire, topic_of("dead", assignment={0: [0]}))[0])
    assert refused[0] == "INVALID_REPLICA_ASSIGNMENT"


@pytest.mark.kafka(brokers=1, topics={"a": 1, "b": 1, "c": 1})
def test_topics_are_deleted_once_by_name_or_id(live: LiveCluster, wire: RawClient) -> None:
    ids = {name: topic.id for name, topic in live.cluster.controller.image.topics.items()}
    for topics, error, words in (
        (["nosuch"], "UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."),
        ([b"\1" * 16], "UNKNOWN_TOPIC_ID", "This server does not host this topic ID."),
        ([ZERO_UUID], "INVALID_REQUEST", "Neither topic name nor id were specified."),
        (["a", "a"], "INVALID_REQUEST", "Duplicate topic name."),
        ([ids["a"]] * 2, "INVALID_REQUEST", "Duplicate topic id."),
        (
            ["a", ids["a"]],
            "INVALID_REQUEST",
            "The provided topic name maps to an ID that was already supplied.",
        ),
    ):
        (result,) = delete(wire, *topics)
        assert outcome(result) == (error, words)
    both = DeleteTopicState(name="a", topic_id=ids["b"])
    (result,) = wire.call(DeleteTopicsRequest(topics=[both], timeout_ms=1000), 6).responses
    assert name_of(result.error_code) == "INVALID_REQUEST"
    deleted = delete(wire, "a", ids["b"])
    assert [(outcome(result), result.name) for result in deleted] == [(DONE, "a"), (DONE, "b")]
    assert live.cluster.topics() == ["c"]
