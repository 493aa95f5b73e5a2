"""Fetch sessions: a fetch names only what has changed; a lost session costs one full fetch, nothing more."""

from __future__ import annotations

import pytest

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.consumer.fetch.brokers import LAST_EPOCH, FetchSession
from pykafka2.consumer.fetch.partitions import FetchState
from pykafka2.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster
from tests.consumer.sessions import SessionCluster

ORDERS = [TopicPartition("orders", number) for number in range(4)]


@pytest.fixture
def cluster() -> SessionCluster:
    return SessionCluster({"orders": [0, 0, 0, 0]})


def named(request: FetchRequest) -> list[int]:
    return sorted(one.partition for topic in request.topics for one in topic.partitions)


def forgotten(request: FetchRequest) -> list[int]:
    return sorted(one for topic in request.forgotten_topics_data for one in topic.partitions)


def read(consumer: KafkaConsumer, polls: int = 4) -> list[bytes]:
    return [
        record.value for _ in range(polls) for records in consumer.poll(600).values() for record in records
    ]


def last_fetch(cluster: LogCluster) -> FetchRequest:
    request: FetchRequest = cluster.requests(FetchRequest)[-1]
    return request


def test_incremental_fetch_names_only_changed_partitions(cluster: SessionCluster) -> None:
    for number in range(4):
        cluster.append("orders", number, b"a%d" % number)
    with cluster.consumer("orders") as consumer:
        assert sorted(read(consumer)) == [b"a0", b"a1", b"a2", b"a3"]
        first, second, third = cluster.requests(FetchRequest)[:3]
        assert (first.session_id, first.session_epoch, named(first)) == (0, 0, [0, 1, 2, 3])
        assert (second.session_id, second.session_epoch, named(second)) == (1, 1, [0, 1, 2, 3])
        assert (third.session_epoch, named(third)) == (2, [])
        cluster.append("orders", 2, b"b")
        assert read(consumer) == [b"b"]
        assert [2] in [named(request) for request in cluster.requests(FetchRequest)[-4:]]
    assert cluster.made == 1
    assert not cluster.errors


def test_fetch_visits_only_moved_partitions_of_ten_thousand(
    cluster: SessionCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    visited: list[TopicPartition] = []
    entry = FetchState.entry

    def noted(state: FetchState, leader_epoch: int, max_bytes: int) -> FetchPartition:
        visited.append(state.partition)
        return entry(state, leader_epoch, max_bytes)

    with cluster.consumer("orders") as consumer:
        read(consumer)
        monkeypatch.setattr(FetchState, "entry", noted)
        before = len(cluster.requests(FetchRequest))
        read(consumer, 20)
        assert len(cluster.requests(FetchRequest)) > before + 10
        assert visited == []
        for value in (b"b", b"c"):
            cluster.append("orders", 2, value)
            assert read(consumer) == [value]
        assert visited == [ORDERS[2], ORDERS[2]]
        consumer.seek(ORDERS[1], 0)
        cluster.append("orders", 1, b"d")
        assert read(consumer) == [b"d"]
    assert not cluster.errors


def test_new_leader_is_fetched_from_without_a_hint() -> None:
    cluster = SessionCluster({"orders": [0, 0]}, brokers=2)
    with cluster.consumer("orders", metadata_max_age_ms=1000) as consumer:
        read(consumer)
        cluster.move_leader("orders", 1, 1)
        read(consumer)
        cluster.append("orders", 1, b"there")
        assert read(consumer) == [b"there"]


def test_paused_and_removed_partitions_are_forgotten_in_the_session(cluster: SessionCluster) -> None:
    with cluster.consumer() as consumer:
        consumer.assign(ORDERS)
        read(consumer, 2)
        consumer.pause(ORDERS[1])
        read(consumer, 2)
        consumer.assign([ORDERS[0], ORDERS[1]])
        read(consumer, 2)
        consumer.resume(ORDERS[1])
        cluster.append("orders", 1, b"late")
        assert read(consumer, 2) == [b"late"]
        requests = [(named(one), forgotten(one)) for one in cluster.requests(FetchRequest)]
        assert ([], [1]) in requests
        assert ([], [2, 3]) in requests
        assert ([1], []) in requests
    assert cluster.made == 1


def test_partitions_assigned_again_within_a_session_have_their_high_watermarks(
    cluster: SessionCluster,
) -> None:
    """The broker leaves them out of its responses until something changes."""
    for number in range(2):
        cluster.append("orders", number, b"a%d" % number)
    with cluster.consumer() as consumer:
        consumer.assign(ORDERS)
        read(consumer)
        consumer.unsubscribe()
        cluster.runtime.run_for(2.0)
        assert [consumer.highwater(partition) for partition in ORDERS] == [None] * 4
        cluster.append("orders", 1, b"b")
        consumer.assign(ORDERS)
        for number, end in enumerate((1, 1, 0, 0)):
            consumer.seek(ORDERS[number], end)
        assert read(consumer) == [b"b"]
        assert [consumer.highwater(partition) for partition in ORDERS] == [1, 2, 0, 0]
        assert not consumer._core.fetcher.table.without_end, "each response would search for the ends again"
    assert cluster.made == 1
    assert not cluster.errors


def test_dropped_fetch_session_is_recreated_at_once(cluster: SessionCluster) -> None:
    with cluster.consumer("orders") as consumer:
        read(consumer, 2)
        cluster.sessions.clear()
        assert read(consumer, 2) == []
        cluster.append("orders", 1, b"x")
        assert read(consumer, 1) == [b"x"]
        assert cluster.errors == [70]
        seen = [one for one in cluster.brokers[0].seen if isinstance(one.request, FetchRequest)]
        (again,) = [at for at, one in enumerate(seen) if at and one.request.session_epoch == 0]
        assert seen[again].at - seen[again - 1].at < 0.05
        full = [one for one in cluster.requests(FetchRequest) if one.session_epoch == 0]
        assert [(one.session_id, named(one)) for one in full] == [(0, [0, 1, 2, 3])] * 2


def test_invalid_session_epoch_ends_the_session(cluster: SessionCluster) -> None:
    with cluster.consumer("orders") as consumer:
        read(consumer, 2)
        cluster.sessions[1].epoch = 77
        cluster.append("orders", 1, b"x")
        assert read(consumer, 2) == [b"x"]
        assert [one.session_id for one in cluster.requests(FetchRequest) if one.session_epoch == 0] == [0, 1]
        assert list(cluster.sessions) == [2]


def test_lost_connection_starts_a_new_fetch_session(cluster: SessionCluster) -> None:
    with cluster.consumer("orders") as consumer:
        read(consumer, 2)
        cluster.brokers[0].stop()
        cluster.runtime.run_for(1)
        cluster.brokers[0].is_up = True
        cluster.append("orders", 3, b"x")
        assert read(consumer, 6) == [b"x"]
        assert cluster.made >= 2
        assert 71 not in cluster.errors


def test_broker_without_sessions_gets_all_partitions_each_time() -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    with cluster.consumer("orders") as consumer:
        read(consumer, 3)
        requests = {
            (one.session_id, one.session_epoch, *named(one)) for one in cluster.requests(FetchRequest)
        }
        assert requests == {(0, 0, 0, 1)}


def test_fetch_sessions_can_be_disabled(cluster: SessionCluster) -> None:
    with cluster.consumer("orders", enable_incremental_fetch_sessions=False) as consumer:
        read(consumer, 3)
        requests = {
            (one.session_id, one.session_epoch, *named(one)) for one in cluster.requests(FetchRequest)
        }
        assert requests == {(0, -1, 0, 1, 2, 3)}
    assert cluster.made == 0


# ---------------------------------------------------------------------------------------- alone


def filled(session: FetchSession, topic_id: bytes = b"t" * 16, *, has_ids: bool = True) -> FetchRequest:
    """A request for one partition, as the session has it."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    session.fill(request, {("t", topic_id, 0): partition}, has_ids=has_ids)
    return request


def begun() -> FetchSession:
    session = FetchSession(is_wanted=True)
    filled(session)
    session.on_answer(9)
    return session


def test_epochs_wrap_to_one() -> None:
    session = begun()
    session._epoch = LAST_EPOCH
    request = filled(session)
    assert (request.session_epoch, request.topics) == (LAST_EPOCH, [])
    session.on_answer(9)
    request = filled(session)
    assert request.session_epoch == 1


def test_recreated_topic_starts_a_new_fetch_session() -> None:
    """Its broker may take names alone, as before Kafka 3.1, and to that the old topic is this one."""
    session = begun()
    request = filled(session, b"n" * 16)
    assert (request.session_id, request.session_epoch, forgotten(request)) == (9, 0, [])
    assert [topic.topic_id for topic in request.topics] == [b"n" * 16]


def test_fetch_session_never_mixes_topic_names_and_ids() -> None:
    session = begun()
    request = filled(session, has_ids=False)
    assert (request.session_id, request.session_epoch, named(request)) == (9, 0, [0])


def test_names_of_other_topics_do_not_mix_with_ids_in_a_session() -> None:
    session = begun()
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    session.fill(request, {("other", ZERO_UUID, 0): partition}, has_ids=False)
    assert (request.session_id, request.session_epoch, named(request), forgotten(request)) == (9, 0, [0], [])


def test_topic_with_a_newly_known_id_stays_in_a_session_by_names() -> None:
    """A cluster during an upgrade to topic ids, with another topic whose id is not known yet.

    A broker takes in what is named, then lets go what is forgotten: what is both would be read no more.
    """
    session = FetchSession(is_wanted=True)
    filled(session, ZERO_UUID, has_ids=False)
    session.on_answer(7)
    request = filled(session, has_ids=False)
    assert (named(request), forgotten(request)) == ([], [])


@pytest.mark.parametrize(("error", "kept"), [(FetchSessionIdNotFound(), 0), (InvalidFetchSessionEpoch(), 9)])
def test_after_an_error_the_next_fetch_is_full(error: Exception, kept: int) -> None:
    session = begun()
    session.on_failure(error)
    assert not session.is_incremental
    request = filled(session)
    assert (request.session_id, request.session_epoch, named(request)) == (kept, 0, [0])
