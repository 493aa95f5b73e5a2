"""Arguments of the producer are checked at its construction, or by `send` before anything is appended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import ConfigurationError, IllegalArgument
from pykafka2.producer.partitioning.key_hashes import KeyHashes
from pykafka2.testing import KafkaCluster, Simulation


def of_one(key: bytes | None) -> int:
    return 0


class OfTwo:
    def partition(self, topic: str, key: object) -> int:
        return 0


@pytest.mark.parametrize(
    ("partitioner", "takes"),
    [
        (of_one, r"of_one.* is called with \(key_bytes, all_partitions, available_partitions\)"),
        (OfTwo(), r"OfTwo.* with \(topic, key, key_bytes, value, value_bytes, cluster\)"),
    ],
    ids=["callable", "object"],
)
def test_a_partitioner_that_cannot_be_called_is_refused_when_the_producer_is_made(
    simulation: Simulation, cluster: KafkaCluster, partitioner: object, takes: str
) -> None:
    with pytest.raises(ConfigurationError, match=takes):
        simulation.producer(cluster, partitioner=partitioner)


def test_unserialized_value_raises_type_error(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    with pytest.raises(
        TypeError, match="the value of a record for topic 'orders' is a str; give bytes, or set"
    ):
        producer.send("orders", cast("Any", "text"))
    with pytest.raises(IllegalArgument, match="a topic must be a str, not None"):
        producer.send(cast("Any", None), b"v")


@pytest.mark.parametrize(
    ("argument", "invalid", "words"),
    [
        ("headers", {"a": b"1"}, r"headers=\{'a': b'1'\} .* must be a list of pairs .*headers.items\(\)"),
        ("headers", {"ab": b"1"}, "for a dict"),
        ("headers", "ab", "headers='ab'"),
        ("headers", 5, "headers=5"),
        ("headers", ["ab"], r"headers\[0\]='ab' .* is not a pair"),
        ("headers", [("a", b"1"), (b"b", b"1")], r"headers\[1\]=.* the name is not a str"),
        ("headers", [("\ud800", b"1")], "headers=.* a name cannot be encoded as UTF-8"),
        ("headers", [("a", 1)], r"headers\[0\]=\('a', 1\) .* the value is not bytes"),
        ("partition", "0", "partition='0' of a record for topic 'orders': must be a partition number"),
        ("partition", True, "partition=True"),
        ("partition", 0.0, "partition=0.0"),
        ("timestamp_ms", "5", "timestamp_ms='5' .* must be milliseconds"),
        ("timestamp_ms", 1.5, r"timestamp_ms=1\.5"),
        ("timestamp_ms", 2**63, "does not fit into 64 bits"),
        ("on_delivery", "print", "on_delivery='print' .* must be a callable"),
        ("topic", ["orders"], r"topic=\['orders'\] .* must be a str"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named_and_leaves_no_trace(
    simulation: Simulation, cluster: KafkaCluster, argument: str, invalid: object, words: str
) -> None:
    producer = simulation.producer(cluster)
    producer.partitions_for("orders")
    before = producer.health()
    arguments: dict[str, Any] = {"topic": "orders", "value": b"v", argument: invalid}
    with pytest.raises(IllegalArgument, match=words) as raised:
        producer.send(**arguments)
    assert isinstance(raised.value, TypeError)
    assert producer.health() == {**before, "metadata_age": producer.health()["metadata_age"]}


def test_headers_may_come_from_a_generator(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    invalid = cast(Any, (pair for pair in [("a", b"1")]))
    producer.send("orders", b"v", headers=invalid).result(10)
    [record] = cluster.log("orders", 0).records()
    assert record.headers == [("a", b"1")]


def test_headers_may_be_lists_of_lists(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    invalid = cast(Any, [["a", b"1"], ("b", None)])
    producer.send("orders", b"v", headers=invalid).result(10)
    [record] = cluster.log("orders", 0).records()
    assert record.headers == [("a", b"1"), ("b", None)]


def test_headers_that_a_serializer_adds_are_not_in_the_callers_list(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    class Tracing:
        def serialize(self, topic: str, headers: Any, data: str) -> bytes:
            headers.append(("by", b"me"))
            return data.encode()

    producer = simulation.producer(cluster, value_serializer=Tracing())
    mine: list[tuple[str, bytes | None]] = [("a", b"1")]
    for _ in range(2):
        producer.send("orders", "v", headers=mine).result(10)
    producer.send_many("orders", ["v"], headers=[mine]).result(10)
    assert mine == [("a", b"1")]
    assert [record.headers for record in cluster.log("orders", 0).records()] == [[*mine, ("by", b"me")]] * 3


@pytest.mark.parametrize("partitioner", ["murmur", b"murmur", KeyHashes, 5])
def test_a_partitioner_that_is_none_is_refused_when_the_producer_is_made(
    simulation: Simulation, cluster: KafkaCluster, partitioner: object
) -> None:
    with pytest.raises(
        ConfigurationError, match=r"partitioner=.* use one of 'murmur2_round_robin'.*a callable"
    ):
        simulation.producer(cluster, partitioner=partitioner)


def test_a_producer_that_cannot_be_made_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with pytest.raises(ConfigurationError):
        KafkaProducer(partitioner="murmur")
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize("timeout", ["5", float("nan"), True, [1]], ids=repr)
@pytest.mark.parametrize(
    "call", ["flush", "close", "result", "exception", "results of many", "commit", "init"]
)
def test_a_timeout_is_a_number_of_seconds(
    simulation: Simulation, cluster: KafkaCluster, call: str, timeout: Any
) -> None:
    producer = simulation.producer(cluster, transactional_id="t" if call in ("init", "commit") else None)
    calls: dict[str, Callable[[], object]] = {
        "flush": lambda: producer.flush(timeout),
        "close": lambda: producer.close(timeout),
        "result": lambda: producer.send("orders", b"v").result(timeout),
        "exception": lambda: producer.send("orders", b"v").exception(timeout),
        "results of many": lambda: producer.send_many("orders", [b"v"]).result(timeout),
        "commit": lambda: producer.commit_transaction(timeout),
        "init": lambda: producer.init_transactions(timeout),
    }
    with pytest.raises(IllegalArgument, match=r"timeout=.*: must be a number of seconds, or None"):
        calls[call]()
    producer.close(1e300)
