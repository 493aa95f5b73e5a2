"""Every broker lies about the cluster: known metadata stays, and a new client gets an error that names the
problem.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest

from pykafka2.errors import (
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykafka2.testing import Simulation
from tests.gate import rest_in_gate
from tests.hostile_brokers.liar import End, Reset, Silence
from tests.hostile_brokers.lies import Lie, body, body_of, changing, saying, setting
from tests.hostile_brokers.worlds import BAD, LIES_LAST, World, check, ending, poll_for

pytestmark = pytest.mark.slow


def brokers(*entries: tuple[int, str, int]) -> Any:
    return setting(
        (
            "brokers",
            [MetadataResponseBroker(node_id=node, host=host, port=port) for node, host, port in entries],
        )
    )


def partitions(*entries: tuple[int, int]) -> Any:
    """Numbers and leaders of the topic's partitions."""
    return setting(
        (
            "topics.*.partitions",
            [
                MetadataResponsePartition(
                    partition_index=number, leader_id=leader, replica_nodes=[0], isr_nodes=[0]
                )
                for number, leader in entries
            ],
        )
    )


def many_topics(answer: Any) -> None:
    answer.topics += [MetadataResponseTopic(name=f"t{number}", partitions=[]) for number in range(20_000)]


def topic_twice(answer: Any) -> None:
    for topic in list(answer.topics):
        other = copy(topic)
        other.partitions = []
        other.topic_id = b"y" * 16
        answer.topics.insert(0, other)


def each_time_another_id(answer: Any, count: list[int] = [0]) -> None:  # noqa: B006
    count[0] += 1
    for topic in answer.topics:
        topic.topic_id = count[0].to_bytes(16, "big")


LAST_EPOCH = setting(("topics.*.partitions.*.leader_epoch", 2**31 - 1))

FAILS = (KafkaTimeoutError, NoBrokersAvailable, UnknownTopicOrPartition)

LIES = [
    Lie("metadata: no brokers at all", "Metadata", setting(("brokers", [])), FAILS, "lists no brokers"),
    Lie("metadata: one broker with an empty host", "Metadata", brokers((0, "", 9092)), FAILS, "host"),
    Lie("metadata: a host of 30,000 characters", "Metadata", brokers((0, "h" * 30_000, 9092)), FAILS, "host"),
    Lie(
        "metadata: a host with newlines and colours",
        "Metadata",
        brokers((0, "a\nWARNING \x1b[31m", 9092)),
        FAILS,
    ),
    Lie("metadata: a host that is no name", "Metadata", brokers((0, "..%00/../", 9092)), FAILS),
    Lie("metadata: a host with a zero byte", "Metadata", brokers((0, "a\0b", 9092)), FAILS),
    Lie("metadata: port 0", "Metadata", brokers((0, "broker-0", 0)), FAILS, "port 0"),
    Lie("metadata: port 65,536", "Metadata", brokers((0, "broker-0", 65_536)), FAILS, "port 65536"),
    Lie("metadata: a negative port", "Metadata", brokers((0, "broker-0", -1)), FAILS, "port -1"),
    Lie("metadata: a negative broker", "Metadata", brokers((-3, "broker-0", 9092)), FAILS, "id -3"),
    Lie(
        "metadata: brokers that refuse connections",
        "Metadata",
        brokers((0, "broker-0", 1), (1, "broker-1", 1)),
        FAILS,
    ),
    Lie(
        "metadata: 20,000 brokers",
        "Metadata",
        brokers(*((number, "broker-0", 9092) for number in range(20_000))),
        FAILS,
        "20000 brokers",
    ),
    Lie("metadata: 20,000 topics that were not requested", "Metadata", changing(many_topics)),
    Lie("metadata: the topic is not answered", "Metadata", setting(("topics", [])), FAILS),
    Lie("metadata: the topic has no name", "Metadata", setting(("topics.*.name", None)), FAILS),
    Lie("metadata: another topic", "Metadata", setting(("topics.*.name", "other")), FAILS),
    Lie("metadata: the topic twice, first without partitions", "Metadata", changing(topic_twice)),
    Lie("metadata: no partitions and no error", "Metadata", partitions(), FAILS),
    Lie("metadata: a partition twice", "Metadata", partitions((0, 0), (0, 1)), FAILS, "a duplicate"),
    Lie("metadata: a negative partition", "Metadata", partitions((0, 0), (-1, 1)), FAILS, "-1"),
    Lie(
        "metadata: partitions 0 and 2**31 - 1",
        "Metadata",
        partitions((0, 0), (2**31 - 1, 1)),
        FAILS,
        "2147483647",
    ),
    Lie("metadata: partition 1 is left out", "Metadata", partitions((0, 0)), KafkaError),
    Lie("metadata: an unknown leader", "Metadata", partitions((0, 77), (1, 77)), KafkaError),
    Lie("metadata: leader -2", "Metadata", partitions((0, 0), (1, -2)), FAILS, "-2"),
    Lie("metadata: leaders swapped", "Metadata", partitions((0, 1), (1, 0))),
    Lie("metadata: a new topic id each time", "Metadata", changing(each_time_another_id), KafkaError),
    Lie("metadata: the zero topic id", "Metadata", setting(("topics.*.topic_id", bytes(16)))),
    Lie("metadata: epoch -9", "Metadata", setting(("topics.*.partitions.*.leader_epoch", -9))),
    Lie("metadata: epoch 2**31 - 1", "Metadata", LAST_EPOCH, FAILS, "epoch 2147483647"),
    Lie(
        "metadata: unknown replicas",
        "Metadata",
        setting(("topics.*.partitions.*.replica_nodes", [-1, 9, 9])),
    ),
    Lie(
        "metadata: another cluster",
        "Metadata",
        setting(("cluster_id", "c\n" * 10_000)),
        FAILS,
        "its address belongs to another broker or cluster",
    ),
    Lie("metadata: no cluster id", "Metadata", setting(("cluster_id", None))),
    Lie("metadata: an unknown controller", "Metadata", setting(("controller_id", -5))),
    Lie(
        "metadata: an unknown error of the topic",
        "Metadata",
        setting(("topics.*.error_code", 12_345)),
        KafkaError,
        "12345",
    ),
    Lie(
        "metadata: an unknown error of the whole",
        "Metadata",
        setting(("error_code", 12_345)),
        KafkaError,
        "12345",
    ),
    Lie(
        "metadata: ask for another broker list, for ever",
        "Metadata",
        setting(("error_code", 129)),
        KafkaError,
    ),
    Lie(
        "metadata: an error of the topic with all its partitions",
        "Metadata",
        setting(("topics.*.error_code", 5)),
        KafkaError,
    ),
    Lie("metadata: an error of each partition", "Metadata", setting(("topics.*.partitions.*.error_code", 9))),
    Lie("metadata: negative throttling", "Metadata", setting(("throttle_time_ms", -1))),
    Lie(
        "metadata: an answer cut short", "Metadata", body_of(lambda data: data[:9]), FAILS, "MetadataResponse"
    ),
    Lie(
        "metadata: an answer that goes on after its end",
        "Metadata",
        body_of(lambda data: data + b"!"),
        FAILS,
        "follow its last field",
    ),
    Lie(
        "metadata: 2**31 - 2 brokers in twenty bytes",
        "Metadata",
        body(bytes(4) + b"\xff\xff\xff\xff\x07" + bytes(11)),
        FAILS,
        "announced",
    ),
    Lie(
        "metadata: a name that is no UTF-8",
        "Metadata",
        body(bytes(4) + b"\2\0\0\0\0\3\xc3\x28" + bytes(40)),
        FAILS,
        "UTF-8",
    ),
    Lie("metadata: no answer", "Metadata", saying(Silence), FAILS),
    Lie("metadata: the end in place of an answer", "Metadata", saying(End), FAILS),
    Lie("metadata: a reset in place of an answer", "Metadata", saying(Reset), FAILS),
]


def test_consumer_does_not_wait_for_an_impossible_epoch(simulation: Simulation) -> None:
    """A broker refuses fetches of an epoch that it does not know, and older epochs are not believed again."""
    world = World(simulation, everywhere=True)
    with world.producer() as producer:
        producer.send("orders", b"1", partition=0).result(5)
    consumer = world.consumer()
    consumer.assign([BAD])
    with world.lied_to(Lie("an epoch that never comes", "Metadata", LAST_EPOCH)):
        poll_for(world, consumer, LIES_LAST / 2)
    poll_for(world, consumer, LIES_LAST, lambda: world.read[BAD] == [b"1"])
    assert world.read[BAD] == [b"1"]
    consumer.close()


@pytest.mark.parametrize("lie", rest_in_gate(LIES), ids=str)
def test_false_metadata_is_rejected_or_raised_and_known_metadata_stays(
    simulation: Simulation, lie: Lie
) -> None:
    world = World(simulation, everywhere=True)
    known = world.producer(metadata_max_age_ms=1_000)
    for partition in (0, 1):
        known.send("orders", b"before", partition=partition).result(5)
    with world.lied_to(lie):
        fresh = world.producer(max_block_ms=4_000, delivery_timeout_ms=4_000)
        errors = [ending(lambda: fresh.send("orders", b"fresh", partition=1).result(6))]
        kept = ending(lambda: known.send("orders", b"kept", partition=1).result(8))
        simulation.sleep(LIES_LAST / 2)
    check(lie, errors)
    assert kept is None or errors != [None], repr(kept)
    for producer in (fresh, known):
        for partition in (0, 1):
            producer.send("orders", b"after", partition=partition).result(20)
        producer.close(5)
