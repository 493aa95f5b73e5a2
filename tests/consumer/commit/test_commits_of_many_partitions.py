"""With thousands of partitions: a line of the log, or an error, stays one that can be read, and no list is
searched for each of them."""

from __future__ import annotations

from pykafka2.consumer.commit.committer import in_words
from pykafka2.consumer.commit.errors import commit_timeout_error
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.types import OffsetAndMetadata, TopicPartition
from tests.consumer.logs import LogCluster

MANY = [TopicPartition("orders", number) for number in range(10_000)]


class Unsearched(list[TopicPartition]):
    """Ten thousand searches of ten thousand partitions take three seconds."""

    def __contains__(self, one: object) -> bool:
        raise AssertionError(f"it was searched for {one}")


def test_twenty_are_named_and_how_many_more_there_are() -> None:
    late = str(commit_timeout_error(MANY, "g", 5.0, None))
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


def test_returned_positions_are_found_without_a_search() -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    for number in range(2):
        cluster.append("orders", number, b"x")
    with cluster.consumer(group_id="g", enable_auto_commit=False) as consumer:
        assert consumer._core.group is not None
        consumer.assign(MANY[:2])
        for number in range(2):
            consumer.seek(MANY[number], number)
        committer, owned_partitions = (
            consumer._core.group.committer,
            consumer._core.group.rebalance._owned_partitions,
        )
        assert list(committer.consumed_offsets(Unsearched(MANY[1:]))) == [MANY[1]]
        assert owned_partitions.begin_revocation(MANY[:2], of_other_topics=Unsearched(MANY[:2]))


def test_waiting_records_of_removed_partitions_are_forgotten_without_a_search() -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, b"x", b"y")
    with cluster.consumer("orders") as consumer:
        waiting = IterationQueue()
        waiting.put(consumer.poll(1000))
        waiting.forget(Unsearched(MANY))
        assert not waiting
