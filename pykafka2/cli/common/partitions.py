"""Arguments that name partitions, such as `orders` or `orders:0,2-4`."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import partition_numbers, unicode_text

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient, TopicPartition


@attrs.frozen
class Selection:
    """A topic, and some of its partitions; None for all."""

    topic: str
    numbers: tuple[int, ...] | None = None


def selection(text: str) -> Selection:
    """Return the partitions of an argument. Raise ArgumentTypeError."""
    topic, colon, numbers = text.partition(":")
    if not topic:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; use TOPIC or TOPIC:PARTITIONS")
    return Selection(unicode_text(topic), tuple(partition_numbers(numbers)) if colon else None)


def one_partition(text: str) -> TopicPartition:
    """Return the partition of an argument such as `orders:0`. Raise ArgumentTypeError."""
    from pykafka2 import TopicPartition

    topic, _, number = text.rpartition(":")
    if not topic or not (number.isascii() and number.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; use TOPIC:PARTITION, such as orders:0")
    return TopicPartition(unicode_text(topic), int(number))


def resolved(
    client: KafkaAdminClient, output: Output, selections: Iterable[Selection]
) -> tuple[list[TopicPartition], int]:
    """Return the partitions of all selections, and the exit code; print a line for each missing topic."""
    from pykafka2 import TopicPartition
    from pykafka2.cli.common.changes import found

    chosen = list(selections)
    whole = list(dict.fromkeys(one.topic for one in chosen if one.numbers is None))
    topics, code = found(output, client.describe_topics(whole, raise_errors=False)) if whole else ({}, 0)
    partitions = [
        TopicPartition(one.topic, number)
        for one in chosen
        for number in (
            one.numbers
            if one.numbers is not None
            else [info.partition for info in topics[one.topic].partitions]
            if one.topic in topics
            else []
        )
    ]
    return list(dict.fromkeys(partitions)), code
