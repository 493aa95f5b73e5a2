"""The application's code inside calls of the consumer calls it: what counts then, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, OffsetAndMetadata, TopicPartition
from pykafka2.errors import IllegalState
from pykafka2.testing import QUICK, KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, ORDERS, committed, produce, reader
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)
Box = dict[str, KafkaConsumer]


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=11) as simulation:
        yield simulation


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    cluster = simulation.cluster(brokers=1, topics={"orders": 2}, config=dict(QUICK))
    produce(simulation, cluster, 10, ORDERS)
    return cluster


def values(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def seeker(box: Box, trigger: bytes, to: int) -> Callable[[bytes], bytes]:
    def deserialize(data: bytes) -> bytes:
        if data == trigger:
            box["consumer"].seek(ORDERS_0, to)
        return data

    return deserialize


def offsets(consumer: KafkaConsumer, polls: int = 8) -> list[int]:
    found: list[int] = []
    for _ in range(polls):
        for records in consumer.poll(300).values():
            found += [record.offset for record in records]
    return found


def test_a_seek_inside_a_deserializer_counts() -> None:
    cluster, box = LogCluster({"orders": [0]}, brokers=1), Box()
    cluster.append("orders", 0, *values(50))
    with cluster.consumer(
        "orders", value_deserializer=seeker(box, b"5", 30), max_poll_records=10
    ) as consumer:
        box["consumer"] = consumer
        assert offsets(consumer) == [*range(10), *range(30, 50)]


def test_a_seek_inside_an_interceptor_counts() -> None:
    cluster, box = LogCluster({"orders": [0]}, brokers=1), Box()
    cluster.append("orders", 0, *values(50))

    class Skipper:
        def on_consume(self, records: dict[TopicPartition, list[Any]]) -> None:
            if records[ORDERS_0][0].offset == 0:
                box["consumer"].seek(ORDERS_0, 40)

    with cluster.consumer("orders", interceptors=[Skipper()], max_poll_records=10) as consumer:
        box["consumer"] = consumer
        assert offsets(consumer) == [*range(10), *range(40, 50)]


def test_a_seek_inside_on_bad_record_counts() -> None:
    cluster, box = LogCluster({"orders": [0]}, brokers=1), Box()
    cluster.append("orders", 0, *values(50))

    def refuse_five(data: bytes) -> bytes:
        if data == b"5":
            raise ValueError
        return data

    with cluster.consumer(
        "orders",
        value_deserializer=refuse_five,
        on_bad_record=lambda bad: box["consumer"].seek(ORDERS_0, 30),
        max_poll_records=5,
    ) as consumer:
        box["consumer"] = consumer
        assert offsets(consumer)[-20:] == list(range(30, 50))


@pytest.mark.parametrize("call", ["unsubscribe", "close", "assign"])
def test_partitions_unassigned_by_a_deserializer_have_no_position(call: str) -> None:
    cluster, box = LogCluster({"orders": [0]}, brokers=1), Box()
    cluster.append("orders", 0, *values(9))

    def give_up(data: bytes) -> bytes:
        if data == b"5":
            consumer = box["consumer"]
            consumer.assign([]) if call == "assign" else getattr(consumer, call)()
        return data

    with cluster.consumer(value_deserializer=give_up, max_poll_records=8) as consumer:
        consumer.assign([ORDERS_0])
        box["consumer"] = consumer
        if call == "close":
            consumer.poll(1000)
        else:
            assert [record.offset for record in consumer.poll(1000)[ORDERS_0]] == list(range(8))
            assert consumer._core.subscription.positions == {}


def test_poll_inside_a_deserializer_is_refused_at_once() -> None:
    """It would decode the same records and come here again."""
    cluster, box, refusals = LogCluster({"orders": [0]}, brokers=1), Box(), []

    def polls(data: bytes) -> bytes:
        try:
            box["consumer"].poll()
        except IllegalState as error:
            refusals.append(str(error))
        return data

    cluster.append("orders", 0, *values(3))
    with cluster.consumer("orders", value_deserializer=polls) as consumer:
        box["consumer"] = consumer
        assert offsets(consumer) == [0, 1, 2]
    assert len(refusals) == 3
    assert "inside a deserializer" in refusals[0]


# ------------------------------------------------------------------------------ callbacks of commits


Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@pytest.mark.gate
@pytest.mark.parametrize("call", ["commit", "commit_async"])
def test_callbacks_that_commit_do_not_pile_up(
    simulation: Simulation, cluster: KafkaCluster, call: str
) -> None:
    """Hundreds of commits are over; the callback of each commits again."""
    calls: list[BaseException | None] = []
    depths: list[int] = []
    depth = 0
    with reader(simulation, cluster, [FIRST]) as consumer:

        def commit_again(offsets: Offsets, error: BaseException | None) -> None:
            nonlocal depth
            calls.append(error)
            depth += 1
            depths.append(depth)
            if call == "commit":
                consumer.commit({FIRST: 1000 + len(calls)})
            elif len(calls) < 60:
                consumer.commit_async({FIRST: 1000 + len(calls)}, commit_again)
            depth -= 1

        for number in range(50):
            consumer.commit_async({FIRST: number}, commit_again)
        simulation.sleep(1)
        while len(calls) < (50 if call == "commit" else 60):
            consumer.poll(10)
        assert calls == [None] * len(calls)
        assert max(depths) == 1
        assert committed(cluster)[FIRST] > 1000


def test_close_calls_every_commit_callback_though_earlier_ones_raise(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    calls: list[int] = []

    def note(offsets: Offsets, error: BaseException | None) -> None:
        calls.append(offsets[FIRST].offset)
        raise ValueError(f"of {offsets[FIRST].offset}")

    consumer = reader(simulation, cluster, ORDERS)
    for number in range(5):
        consumer.commit_async({FIRST: number}, note)
    with pytest.raises(ValueError, match="of 0"):
        consumer.close()
    assert calls == [0, 1, 2, 3, 4]
    assert consumer.health()["state"] == "closed"
