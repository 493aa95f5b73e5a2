"""Offsets in checkpoints: the shape of Spark's own connector, in one order."""

from __future__ import annotations

import json

import pytest

from pykafka2 import TopicPartition
from spark_connector.errors import WrongOffsets
from spark_connector.offsets import from_spark, shown, to_spark


def test_topics_go_by_name_and_partitions_by_number() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 2): 2, TopicPartition("a", 0): 3}
    assert json.dumps(to_spark(offsets)) == '{"a": {"0": 3}, "b": {"2": 2, "10": 1}}'


def test_offsets_round_trip_through_sparks_json() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("a", 0): 3}
    assert from_spark(json.loads(json.dumps(to_spark(offsets)))) == offsets


@pytest.mark.parametrize(
    "invalid",
    [{"t": 3}, {"t": {"zero": 1}}, {"t": {"0": -1}}, {"t": {"0": "1"}}, {"t": {"0": None}}],
    ids=str,
)
def test_another_shape_is_refused(invalid: dict[str, object]) -> None:
    with pytest.raises(WrongOffsets, match="Offsets of topic 't'"):
        from_spark(invalid)


def test_partitions_in_messages() -> None:
    assert shown({TopicPartition("b", 10), TopicPartition("a", 0)}) == "a-0, b-10"
