"""A broker lies about what became of records: its own partitions pay for it at most."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from pykafka2.errors import (
    DeliveryTimeout,
    InvalidRecord,
    KafkaError,
    MessageTooLarge,
    ProducerFenced,
    UnknownErrorCode,
    UnknownServerError,
)
from pykafka2.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from pykafka2.testing import Simulation
from tests.gate import rest_in_gate
from tests.hostile_brokers.lies import Lie, body, body_of, changing, setting
from tests.hostile_brokers.worlds import World, check, ending

pytestmark = pytest.mark.slow

PARTITION = "responses.0.partition_responses.0."


def twice(answer: Any) -> None:
    answer.responses.append(deepcopy(answer.responses[0]))


def partition_twice(answer: Any) -> None:
    parts = answer.responses[0].partition_responses
    parts.append(deepcopy(parts[0]))


def also_unasked(answer: Any) -> None:
    parts = answer.responses[0].partition_responses
    parts.append(deepcopy(parts[0]))
    parts[1].index = 1
    parts[1].error_code = 87


def moved(leader: int, epoch: int, *endpoints: NodeEndpoint) -> Any:
    return setting(
        (PARTITION + "error_code", 6),
        (PARTITION + "current_leader", LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)),
        ("node_endpoints", list(endpoints)),
    )


def moves_on_and_on(answer: Any, count: list[int] = [0]) -> None:  # noqa: B006
    """It leads since a later epoch each time, and is not the leader."""
    count[0] += 1
    for topic in answer.responses:
        for one in topic.partition_responses:
            one.error_code = 6
            one.current_leader = LeaderIdAndEpoch(leader_id=0, leader_epoch=100 + count[0])


def failing(code: int) -> Any:
    return setting((PARTITION + "error_code", code), (PARTITION + "base_offset", -1))


LIES = [
    Lie(
        "produce: another partition is answered",
        "Produce",
        setting((PARTITION + "index", 7)),
        DeliveryTimeout,
        "sent a response without orders-0",
    ),
    Lie(
        "produce: a negative partition is answered",
        "Produce",
        setting((PARTITION + "index", -1)),
        DeliveryTimeout,
        "sent a response without orders-0",
    ),
    Lie(
        "produce: another topic is answered",
        "Produce",
        setting(("responses.0.topic_id", b"x" * 16)),
        DeliveryTimeout,
        "sent a response without orders-0",
    ),
    Lie("produce: the topic is answered twice", "Produce", changing(twice)),
    Lie("produce: the partition is answered twice", "Produce", changing(partition_twice)),
    Lie("produce: a partition that was not sent is refused, too", "Produce", changing(also_unasked)),
    Lie(
        "produce: nothing is answered",
        "Produce",
        setting(("responses", [])),
        DeliveryTimeout,
        "sent a response without orders-0",
    ),
    Lie(
        "produce: a topic without partitions",
        "Produce",
        setting(("responses.0.partition_responses", [])),
        DeliveryTimeout,
        "sent a response without orders-0",
    ),
    Lie("produce: offset -1 without an error", "Produce", setting((PARTITION + "base_offset", -1))),
    Lie("produce: offset -5 without an error", "Produce", setting((PARTITION + "base_offset", -5))),
    Lie("produce: the last offset there is", "Produce", setting((PARTITION + "base_offset", 2**63 - 1))),
    Lie(
        "produce: a time out of this world", "Produce", setting((PARTITION + "log_append_time_ms", 2**63 - 1))
    ),
    Lie("produce: a negative time", "Produce", setting((PARTITION + "log_append_time_ms", -(2**63)))),
    Lie("produce: an unknown error", "Produce", failing(12_345), UnknownErrorCode, "12345"),
    Lie("produce: a negative unknown error", "Produce", failing(-77), UnknownErrorCode, "-77"),
    Lie("produce: unknown server error for ever", "Produce", failing(-1), UnknownServerError),
    Lie("produce: out of order for ever", "Produce", failing(45), DeliveryTimeout),
    Lie("produce: unknown producer id for ever", "Produce", failing(59), DeliveryTimeout),
    Lie("produce: duplicate sequence of what is new", "Produce", failing(46)),
    Lie("produce: one small record is too large", "Produce", failing(10), MessageTooLarge),
    Lie("produce: not leader, and there is none", "Produce", failing(6), DeliveryTimeout),
    Lie("produce: unknown topic id for ever", "Produce", failing(100), DeliveryTimeout),
    Lie("produce: fenced", "Produce", failing(90), ProducerFenced, for_good=True),
    Lie("produce: epoch of another producer", "Produce", failing(47), DeliveryTimeout),
    Lie("produce: a concurrent transaction where there is none", "Produce", failing(51), DeliveryTimeout),
    Lie("produce: invalid record without saying which", "Produce", failing(87), InvalidRecord),
    Lie(
        "produce: invalid records that are not in the batch",
        "Produce",
        setting(
            (PARTITION + "error_code", 87),
            (
                PARTITION + "record_errors",
                [
                    BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message="no")
                    for index in (-1, 5, 2**31 - 1)
                ],
            ),
        ),
        InvalidRecord,
    ),
    Lie(
        "produce: an error of 30,000 characters and newlines",
        "Produce",
        setting((PARTITION + "error_code", 87), (PARTITION + "error_message", "\nWARNING \x1b[31m" * 2_000)),
        InvalidRecord,
    ),
    Lie("produce: an unknown leader", "Produce", moved(99, 2**31 - 1), DeliveryTimeout),
    Lie(
        "produce: another leader of the last epoch there is", "Produce", moved(1, 2**31 - 1), DeliveryTimeout
    ),
    Lie("produce: another leader of an epoch that never comes", "Produce", moved(1, 50), DeliveryTimeout),
    Lie("produce: a new epoch each time", "Produce", changing(moves_on_and_on), DeliveryTimeout),
    Lie("produce: a negative leader of a new epoch", "Produce", moved(-7, 2**31 - 1), DeliveryTimeout),
    Lie(
        "produce: a leader at port 0",
        "Produce",
        moved(99, 2**31 - 1, NodeEndpoint(node_id=99, host="h", port=0)),
        DeliveryTimeout,
    ),
    Lie(
        "produce: a leader with a host of 30,000 characters",
        "Produce",
        moved(99, 2**31 - 1, NodeEndpoint(node_id=99, host="h" * 30_000, port=9092)),
        DeliveryTimeout,
    ),
    Lie(
        "produce: a leader that refuses connections",
        "Produce",
        moved(99, 2**31 - 1, NodeEndpoint(node_id=99, host="broker-0", port=1)),
        DeliveryTimeout,
    ),
    Lie("produce: 24 days of throttling", "Produce", setting(("throttle_time_ms", 2**31 - 1)), for_good=True),
    Lie("produce: negative throttling", "Produce", setting(("throttle_time_ms", -(2**31)))),
    Lie(
        "produce: an answer cut short",
        "Produce",
        body_of(lambda data: data[: len(data) // 2]),
        DeliveryTimeout,
        "ProduceResponse v13",
    ),
    Lie(
        "produce: an answer that goes on after its end",
        "Produce",
        body_of(lambda data: data + b"\0"),
        DeliveryTimeout,
        "follow its last field",
    ),
    Lie(
        "produce: 2**31 - 2 topics in ten bytes",
        "Produce",
        body(b"\xff\xff\xff\xff\x07" + bytes(5)),
        DeliveryTimeout,
        "2147483646 elements",
    ),
    Lie("produce: an endless varint", "Produce", body(b"\xff" * 20), DeliveryTimeout, "varint"),
    Lie("produce: null where topics must be", "Produce", body(b"\0" + bytes(5)), DeliveryTimeout, "null"),
    Lie(
        "init producer id: id -1 without an error",
        "InitProducerId",
        setting(("producer_id", -1)),
        DeliveryTimeout,
    ),
    Lie(
        "init producer id: epoch -1 without an error",
        "InitProducerId",
        setting(("producer_epoch", -1)),
        DeliveryTimeout,
    ),
    Lie("init producer id: the last epoch there is", "InitProducerId", setting(("producer_epoch", 32_767))),
    Lie(
        "init producer id: an unknown error",
        "InitProducerId",
        setting(("error_code", 12_345)),
        UnknownErrorCode,
        "12345",
        for_good=True,
    ),
    Lie("init producer id: loading for ever", "InitProducerId", setting(("error_code", 14)), DeliveryTimeout),
]


@pytest.mark.parametrize("lie", rest_in_gate(LIES), ids=str)
def test_a_lie_about_records_costs_its_own_partition_at_most(simulation: Simulation, lie: Lie) -> None:
    is_first = lie.api == "InitProducerId"
    world = World(simulation, everywhere=is_first)
    producer = world.producer()
    if not is_first:
        for partition in (0, 1):
            producer.send("orders", b"before", partition=partition).result(5)
    with world.lied_to(lie):
        bad = producer.send("orders", b"bad", partition=0)
        good = producer.send("orders", b"good", partition=1)
        if not is_first:
            good.result(5)
        error: KafkaError | None = ending(lambda: bad.result(10))
    check(lie, [error])
    if lie.for_good or is_first:
        ending(lambda: producer.close(5))
        producer = world.producer()
    for partition in (0, 1):
        producer.send("orders", b"after", partition=partition).result(20)
    producer.close(5)
