"""With thousands of partitions a line of the log, or an error, stays one that can be read."""

from __future__ import annotations

from pykafka2.consumer.commit_errors import words_for_late
from pykafka2.consumer.committer import in_words
from pykafka2.types import OffsetAndMetadata, TopicPartition

MANY = [TopicPartition("orders", number) for number in range(10_000)]


def test_twenty_are_named_and_how_many_more_there_are() -> None:
    late = str(words_for_late(MANY, "g", 5.0, None))
    offsets = in_words({one: OffsetAndMetadata(7) for one in MANY})
    assert "orders-0, orders-1, " in late
    assert "orders-0 at 7, orders-1 at 7, " in offsets
    for text in (late, offsets):
        assert "orders-19" in text
        assert "and 9980 more" in text
        assert "orders-20" not in text


def test_a_few_are_named_all() -> None:
    assert (
        in_words({MANY[0]: OffsetAndMetadata(5), MANY[1]: OffsetAndMetadata(7)})
        == "orders-0 at 5, orders-1 at 7"
    )
