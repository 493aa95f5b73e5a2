"""Errors and log lines never quote the record, which exceptions of serializers may do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import BadRecord, KafkaConsumer, KafkaProducer
from pykafka2.errors import SerializationError
from pykafka2.testing import Simulation
from pykafka2.text import LONGEST_ERROR, brief
from tests.consumer.logs import LogCluster

BINARY = b"\xff" * 100_000
WORDS = "can't decode byte 0xff in position 0: invalid start byte"


def refuse(data: Any) -> bytes:
    raise ValueError(f"the beginning, {data!r}, the end")


@pytest.fixture
def cluster() -> LogCluster:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, BINARY)
    cluster.append("orders", 0, b"readable")
    return cluster


@pytest.mark.parametrize(("deserializer", "words"), [(bytes.decode, WORDS), (refuse, "the end")])
def test_large_binary_value_is_shortened_in_the_error(
    cluster: LogCluster, deserializer: Callable[[bytes], Any], words: str
) -> None:
    with cluster.consumer("orders", value_deserializer=deserializer) as consumer:
        with pytest.raises(SerializationError, match="orders-0 at offset 0") as caught:
            next(consumer)
        assert words in str(caught.value)
        assert len(str(caught.value)) < LONGEST_ERROR + 200


def test_a_skipped_one_is_one_short_line_in_the_log(
    cluster: LogCluster, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Any] = {"value_deserializer": bytes.decode, "on_bad_record": "skip"}
    with caplog.at_level(logging.WARNING), cluster.consumer("orders", **options) as consumer:
        assert next(consumer).value == "readable"
    (line,) = [one.getMessage() for one in caplog.records if "skipped" in one.getMessage()]
    assert WORDS in line
    assert len(line) < LONGEST_ERROR


def test_a_dead_letter_s_error_fits_into_a_header(cluster: LogCluster) -> None:
    dead: list[BadRecord] = []
    consumer: KafkaConsumer = cluster.consumer(
        "orders", value_deserializer=bytes.decode, on_bad_record=dead.append
    )
    with consumer:
        assert next(consumer).value == "readable"
    assert dead[0].value == BINARY
    assert len(str(dead[0].error)) < LONGEST_ERROR


def test_errors_keep_their_own_words() -> None:
    assert brief(ValueError("three is not welcome")) == "ValueError('three is not welcome')"
    assert len(brief(ValueError("x" * 10_000))) < LONGEST_ERROR + 10


SENDS: dict[str, Callable[[KafkaProducer], object]] = {
    "send": lambda producer: producer.send("orders", "x" * 100_000),
    "send_many": lambda producer: producer.send_many("orders", ["x" * 100_000]),
}


@pytest.mark.parametrize("call", SENDS)
def test_a_producer_s_serializer_that_quotes_the_value(simulation: Simulation, call: str) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 1})
    with simulation.producer(cluster, value_serializer=refuse) as producer:
        with pytest.raises(SerializationError, match="value_serializer failed for topic 'orders'") as caught:
            SENDS[call](producer)
        assert "the end" in str(caught.value)
        assert len(str(caught.value)) < LONGEST_ERROR + 200
