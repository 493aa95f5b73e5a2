"""Bugs of fetching that other clients had, each as a story that ours passes.

Beside each stands the bug, planted into ours, with which the story fails.  Those of commits and of groups
are in commit/test_reported_commit_bugs.py and group/classic/test_reported_group_bugs.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaConsumer
from pykafka2.cluster import metadata
from pykafka2.cluster.snapshot import merge_response
from pykafka2.consumer.fetch import fetched_data as isolation
from pykafka2.consumer.fetch.fetched_data import FetchedData, Visibility
from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.fetch.responses import FetchResponses
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.errors import CorruptMessage, KafkaError
from pykafka2.protocol.messages.fetch import FetchRequest, FetchResponse
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.records.batch import RecordBatch
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Answer, ScriptedBroker
from tests.consumer.fetch.test_compacted_logs import compacted
from tests.consumer.logs import LogCluster
from tests.consumer.poll.test_corrupt_data import damage

Story = Callable[[LogCluster], None]
Plant = Callable[[pytest.MonkeyPatch], None]
FIRST = TopicPartition("orders", 0)


def values(consumer: KafkaConsumer, polls: int = 20) -> list[bytes]:
    """Records of the first partition, from polls of a tenth of a second."""
    polled = [consumer.poll(100).get(FIRST, []) for _ in range(polls)]
    return [record.value for records in polled for record in records]


# ------------------------------------------------------------------ damage


def good_records_before_a_damaged_one_come_first(cluster: LogCluster) -> None:
    """KAFKA-5078, KAFKA-5211: they vanished, or the damaged one was passed over in silence."""
    for number in range(4):
        cluster.append("orders", 0, b"%d" % number)
    batches = cluster.log("orders").batches
    batches[2] = damage(batches[2], "value")
    with cluster.consumer("orders") as consumer:
        assert values(consumer, 1) == [b"0", b"1"]
        for _ in range(3):
            with pytest.raises(CorruptMessage, match="orders-0 at offset 2"):
                consumer.poll(1000)
            assert consumer.position(FIRST) == 2


def what_was_good_goes_with_the_damage(patch: pytest.MonkeyPatch) -> None:
    take = FetchedData.take

    def take_all_or_nothing(self: FetchedData, position: int, limit: int, into: list[Any], *more: Any) -> int:
        before = len(into)
        try:
            return take(self, position, limit, into, *more)
        except KafkaError:
            del into[before:]
            raise

    patch.setattr(FetchedData, "take", take_all_or_nothing)


# ------------------------------------------------------------------ transactions


def committed_records_follow_an_abort_of_nothing(cluster: LogCluster) -> None:
    """librdkafka before 1.7.0: what a producer committed after an abort without records was dropped."""
    log = cluster.log("orders")
    log.append(b"plain")
    log.end_transaction(7, log.end, committed=False)
    first = log.append(b"committed", producer_id=7, is_transactional=True)
    log.end_transaction(7, first, committed=True)
    with cluster.consumer("orders", isolation_level="read_committed") as consumer:
        assert values(consumer) == [b"plain", b"committed"]


def markers_do_not_end_what_is_aborted(patch: pytest.MonkeyPatch) -> None:
    hides = Visibility.hides

    def hides_on(self: Visibility, batch: Any) -> bool:
        active = set(self._active)
        is_hidden = hides(self, batch)
        self._active |= active | ({batch.producer_id} if batch.is_control and self._aborted == [] else set())
        return is_hidden

    patch.setattr(Visibility, "hides", hides_on)


def aborted_transactions_may_be_listed_in_any_order(cluster: LogCluster) -> None:
    """franz-go before 1.21.4: of an unordered list some were not found, and their records shown."""
    log = cluster.log("orders")
    for producer in (9, 8, 7):
        log.append(b"kept", producer_id=producer, is_transactional=True)
        log.end_transaction(producer, log.end - 1, committed=True)
        first = log.append(b"aborted", producer_id=producer, is_transactional=True)
        log.end_transaction(producer, first, committed=False)
    log.aborted.reverse()
    with cluster.consumer("orders", isolation_level="read_committed") as consumer:
        assert values(consumer) == [b"kept"] * 3


def the_list_of_aborted_ones_is_taken_for_ordered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(isolation, "heapify", lambda aborted: None)


# ------------------------------------------------------------------ places


def a_seek_wins_over_an_answer_that_is_there(cluster: LogCluster) -> None:
    """librdkafka's 4261 and 4636, franz-go before 1.20.3: what was fetched before a seek was handed over."""
    cluster.append("orders", 0, *[b"%d" % number for number in range(10)])
    with cluster.consumer("orders") as consumer:
        assert len(consumer.poll(100, max_records=2)[FIRST]) == 2
        consumer.seek(FIRST, 7)
        assert values(consumer) == [b"7", b"8", b"9"]


def a_place_keeps_its_generation(patch: pytest.MonkeyPatch) -> None:
    def seek(self: Subscription, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        self.unsent.add(partition)  # but what was fetched before counts still

    patch.setattr(Subscription, "rewind", seek)


def holes_at_the_end_of_a_batch_are_passed_over(cluster: LogCluster) -> None:
    """kafka-python's 1390 and 752, aiokafka's 71: reading stood still behind records that compaction took."""
    log = cluster.log("orders")
    log.batches.append(compacted(0, [0, 1]))
    log.end = 5
    cluster.append("orders", 0, b"behind")
    with cluster.consumer("orders", check_crcs=False, max_partition_fetch_bytes=1) as consumer:
        assert values(consumer) == [b"0", b"1", b"behind"]


def the_next_offset_is_that_of_the_last_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecordBatch, "next_offset", property(lambda self: self.base_offset + self.count))


# ------------------------------------------------------------------ brokers


def what_one_broker_leaves_out_is_read_on(cluster: LogCluster) -> None:
    """KAFKA-16012, KAFKA-16198, franz-go before 1.21.4: a partial answer took the place of what was known."""
    with cluster.consumer(auto_offset_reset="latest", metadata_max_age_ms=1000) as consumer:
        consumer.subscribe(pattern="ord")
        assert values(consumer, 5) == []
        known = len(cluster.requests(MetadataRequest))

        def behind(request: MetadataRequest, broker: ScriptedBroker) -> Answer:
            answer = cluster.metadata(request)
            if len(cluster.requests(MetadataRequest)) == known + 1:
                answer.topics.clear()
                cluster.append("orders", 0, b"new")
            return answer

        cluster.on(MetadataRequest, behind)
        assert values(consumer) == [b"new"]


def answers_replace_what_is_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        metadata, "merge_response", lambda old, answer, keep, **how: merge_response(old, answer, ())
    )


def a_nearer_replica_that_nobody_knows_is_not_waited_for(cluster: LogCluster) -> None:
    """KAFKA-14379, franz-go's 1167, librdkafka's 4616: reading stuck to a replica that was not there."""
    cluster.append("orders", 0, b"a")
    fetch = cluster.fetch

    def send_away_once(request: FetchRequest, broker: ScriptedBroker) -> Answer:
        if len(cluster.requests(FetchRequest)) > 1:
            return fetch(request, broker)
        answer: FetchResponse = cluster.fetch_now(request, broker)
        for partition in answer.responses[0].partitions:
            partition.preferred_read_replica, partition.records = 99, None
        return answer

    cluster.on(FetchRequest, send_away_once)
    with cluster.consumer("orders", client_rack="r1") as consumer:
        assert values(consumer) == [b"a"]


def replicas_are_believed(patch: pytest.MonkeyPatch) -> None:
    def read_from(self: FetchResponses, state: Any, node_id: int, now: float) -> None:
        state.replica, state.replica_until = node_id, now + 300

    patch.setattr(FetchResponses, "_read_from", read_from)
    patch.setattr(Fetcher, "_node_for", lambda self, state, info, now: state.replica)


STORIES: dict[Story, Plant] = {
    good_records_before_a_damaged_one_come_first: what_was_good_goes_with_the_damage,
    committed_records_follow_an_abort_of_nothing: markers_do_not_end_what_is_aborted,
    aborted_transactions_may_be_listed_in_any_order: the_list_of_aborted_ones_is_taken_for_ordered,
    a_seek_wins_over_an_answer_that_is_there: a_place_keeps_its_generation,
    holes_at_the_end_of_a_batch_are_passed_over: the_next_offset_is_that_of_the_last_record,
    what_one_broker_leaves_out_is_read_on: answers_replace_what_is_known,
    a_nearer_replica_that_nobody_knows_is_not_waited_for: replicas_are_believed,
}


def name_of(value: Any) -> str:
    return str(value.__name__)


@pytest.fixture
def cluster() -> LogCluster:
    return LogCluster({"orders": [0]}, brokers=2)


@pytest.mark.parametrize("story", STORIES, ids=name_of)
def test_ours_has_it_not(cluster: LogCluster, story: Story) -> None:
    story(cluster)


@pytest.mark.parametrize(("story", "plant"), STORIES.items(), ids=name_of)
def test_story_detects_the_planted_bug(
    cluster: LogCluster, monkeypatch: pytest.MonkeyPatch, story: Story, plant: Plant
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaError)):
        story(cluster)
