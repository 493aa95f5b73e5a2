"""Fetch sessions (KIP-227): incremental fetches, errors, limits and evictions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
import pytest

from pykafka2 import errors
from pykafka2.broker.log.leader_epochs import EpochEnd
from pykafka2.broker.replication.fetch import (
    FetchInfo,
    FetchPartitionData,
    FetchSession,
    FetchSessionCache,
    next_epoch,
)
from pykafka2.clock import SeededEntropy
from pykafka2.errors import (
    FetchSessionIdNotFound,
    NotLeaderOrFollower,
    TopicAuthorizationFailed,
    UnknownTopicId,
    for_code,
)
from pykafka2.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from pykafka2.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka2.testing.cluster import KafkaCluster, Topic
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.leaders import append
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

two_partitions = pytest.mark.kafka(brokers=1, topics={"t": 2})


class Reader:
    """A client with a session, by topic id (version 17) or by name (version 12)."""

    def __init__(self, wire: RawClient, topic_id: bytes = bytes(16)) -> None:
        self.wire, self.topic_id = wire, topic_id
        self.session_id = self.epoch = 0

    def request(
        self, offsets: dict[int, int] | None = None, forget: tuple[int, ...] = (), **options: Any
    ) -> FetchRequest:
        partitions = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1000)
            for number, offset in (offsets or {}).items()
        ]
        names = {"topic": "t", "topic_id": self.topic_id}
        fields = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "session_id": self.session_id,
            "session_epoch": self.epoch,
        }
        return FetchRequest(
            topics=[FetchTopic(**names, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[ForgottenTopic(**names, partitions=list(forget))] if forget else [],
            **(fields | options),
        )

    @property
    def version(self) -> int:
        return 12 if self.topic_id == bytes(16) else 17

    def fetch(
        self, offsets: dict[int, int] | None = None, forget: tuple[int, ...] = (), **options: Any
    ) -> FetchResponse:
        response = self.wire.call(self.request(offsets, forget, **options), self.version)
        if not response.error_code:
            self.session_id, self.epoch = response.session_id, self.epoch + 1
        return response


def sizes_of(response: FetchResponse) -> dict[int, int]:
    """Return the bytes of records by partition."""
    assert response.error_code == 0
    return {
        data.partition_index: len(data.records or b"")
        for topic in response.responses
        for data in topic.partitions
    }


def code_of(response: FetchResponse) -> str:
    assert response.responses == []
    return for_code(response.error_code).__name__


@pytest.fixture(params=["by name", "by id"])
def reader(request: pytest.FixtureRequest, live: LiveCluster) -> Reader:
    topic_id = live.cluster.controller.image.topics["t"].id
    return Reader(live.connect(), topic_id if request.param == "by id" else bytes(16))


@two_partitions
def test_incremental_fetch_returns_only_changed_partitions(reader: Reader) -> None:
    first = reader.fetch({0: 0, 1: 0})
    assert sizes_of(first) == {0: 0, 1: 0}, "a full response has all partitions"
    assert first.session_id > 0
    assert sizes_of(reader.fetch()) == {}
    produce(reader.wire, "t", 1, batch([b"x"]))
    size = len(batch([b"x"]))
    assert sizes_of(reader.fetch()) == {1: size}
    assert sizes_of(reader.fetch()) == {1: size}, "until the reader fetches from the next offset"
    assert sizes_of(reader.fetch({1: 1})) == {}
    produce(reader.wire, "t", 1, batch([b"x"]))
    assert sizes_of(reader.fetch()) == {1: size}


@two_partitions
def test_a_fetch_of_a_session_waits_for_any_of_its_partitions(reader: Reader, live: LiveCluster) -> None:
    reader.fetch({0: 0, 1: 0})
    reader.wire.send(reader.request(max_wait_ms=10_000), reader.version)
    produce(live.connect(), "t", 1, batch([b"x"]))
    assert sizes_of(reader.wire.receive(FetchRequest, reader.version)[1]) == {1: len(batch([b"x"]))}


@two_partitions
def test_forgotten_partition_is_not_returned(reader: Reader) -> None:
    reader.fetch({0: 0, 1: 0})
    produce(reader.wire, "t", 1, batch())
    produce(reader.wire, "t", 0, batch())
    assert list(sizes_of(reader.fetch(forget=(1,)))) == [0]
    assert sorted(sizes_of(reader.fetch({1: 0}))) == [0, 1]


@two_partitions
def test_session_without_partitions_is_closed(kafka_cluster: KafkaCluster, reader: Reader) -> None:
    reader.fetch({0: 0})
    response = reader.fetch(forget=(0,))
    assert (sizes_of(response), response.session_id) == ({}, 0)
    assert not kafka_cluster.broker(0).replicas.sessions.by_id


@two_partitions
def test_fetch_session_repeats_an_error_until_it_is_over(kafka_cluster: KafkaCluster, reader: Reader) -> None:
    reader.fetch({0: 0, 1: 99})
    for _ in range(2):
        data = reader.fetch().responses[0].partitions[0]
        assert (data.partition_index, data.error_code) == (1, errors.OffsetOutOfRange.code)
    assert sizes_of(reader.fetch({1: 0})) == {1: 0}
    kafka_cluster.delete_topic("t")
    codes = [data.error_code for topic in reader.fetch().responses for data in topic.partitions]
    # The session finds its partitions by name, also for requests with topic ids.
    assert codes == [errors.UnknownTopicOrPartition.code, errors.UnknownTopicOrPartition.code]


@two_partitions
def test_partition_fetched_before_its_creation_is_read_once_it_exists(reader: Reader) -> None:
    """Readers send a partition once, so the session must not keep the error of the first fetch."""
    for response in (reader.fetch({2: 0}), reader.fetch()):
        codes = [data.error_code for topic in response.responses for data in topic.partitions]
        assert codes == [errors.UnknownTopicOrPartition.code]
    grown = CreatePartitionsTopic(name="t", count=3, assignments=None)
    assert (
        not reader.wire.call(CreatePartitionsRequest(topics=[grown], timeout_ms=1000, validate_only=False), 3)
        .results[0]
        .error_code
    )
    assert [data.error_code for topic in reader.fetch().responses for data in topic.partitions] == [0]


@two_partitions
def test_wrong_session_epoch_id_or_topic_id_use_fails_and_keeps_the_session(reader: Reader) -> None:
    reader.fetch({0: 0})
    assert code_of(reader.fetch(session_epoch=7)) == "InvalidFetchSessionEpoch"
    assert code_of(reader.fetch(session_id=77)) == "FetchSessionIdNotFound"
    other = 17 if reader.version == 12 else 12
    assert code_of(reader.wire.call(reader.request(), other)) == "FetchSessionTopicIdError"
    assert sizes_of(reader.fetch()) == {}, "none of these closed the session"


@two_partitions
@pytest.mark.parametrize("epoch", [0, -1], ids=["opens another", "opens none"])
def test_full_fetch_closes_the_session_in_its_request(reader: Reader, epoch: int) -> None:
    old = reader.fetch({0: 0}).session_id
    response = reader.fetch({0: 0}, session_epoch=epoch)
    assert sizes_of(response) == {0: 0}
    assert (response.session_id > 0) is (epoch == 0)
    assert code_of(reader.fetch(session_id=old, session_epoch=1)) == "FetchSessionIdNotFound"


@two_partitions
def test_partitions_of_a_session_take_turns_below_max_bytes(reader: Reader) -> None:
    reader.fetch({0: 0, 1: 0})
    for partition in (0, 1):
        produce(reader.wire, "t", partition, batch())
    small = {"max_bytes": 10}
    assert [sorted(p for p, size in sizes_of(reader.fetch(**small)).items() if size) for _ in range(4)] == [
        [0],
        [1],
        [0],
        [1],
    ]


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"max.incremental.fetch.session.cache.slots": 0})
def test_without_slots_every_fetch_is_a_full_one(reader: Reader) -> None:
    response = reader.fetch({0: 0})
    assert (sizes_of(response), response.session_id) == ({0: 0}, 0)


def advance(
    sessions: FetchSessionCache,
    session: FetchSession | None,
    infos: Sequence[FetchInfo] = (),
    forgotten: Sequence[tuple[bytes | str, int]] = (),
    *,
    names: Mapping[bytes, str] = MappingProxyType({}),
    now: float = 1.0,
    uses_topic_ids: bool = True,
) -> FetchSession:
    """Make the session's next fetch, with these changes and topic names."""
    assert session is not None
    return sessions.incremental(
        session.id,
        session.epoch,
        uses_topic_ids=uses_topic_ids,
        infos=infos,
        forgotten=forgotten,
        name_of=names.get,
        now=now,
    )


class TestSlots:
    """Two slots. Sessions of followers have priority over those of consumers, then larger ones."""

    def setup_method(self) -> None:
        self.sessions = FetchSessionCache(2, SeededEntropy(1))
        self.opened = 0

    def open(self, size: int, now: float, *, follower: bool = False) -> FetchSession | None:
        self.opened += 1
        replica_id = self.opened if follower else -1
        results = [FetchPartitionData(FetchInfo(f"t{self.opened}", bytes(16), n, 0, 1)) for n in range(size)]
        return self.sessions.create(results, uses_topic_ids=False, replica_id=replica_id, now=now)

    def is_open(self, session: FetchSession | None) -> bool:
        return session is not None and self.sessions.get(session.id) is session

    def use(self, session: FetchSession | None, now: float) -> None:
        advance(self.sessions, session, now=now, uses_topic_ids=False)

    def test_recent_consumer_session_is_evicted_for_followers_only(self) -> None:
        small, large = self.open(1, 0), self.open(2, 0)
        assert self.open(9, 60) is None
        follower = self.open(1, 60, follower=True)
        assert [self.is_open(one) for one in (small, large, follower)] == [False, True, True]

    def test_session_unused_for_two_minutes_is_evicted(self) -> None:
        first, second = self.open(5, 0), self.open(5, 0)
        self.use(first, 100)
        third = self.open(1, 121)
        assert [self.is_open(one) for one in (first, second, third)] == [True, False, True]
        assert self.sessions.evictions == 1

    def test_old_session_in_use_is_evicted_for_a_larger_one_only(self) -> None:
        first, second = self.open(3, 0), self.open(4, 0)
        for session in (first, second):
            self.use(session, 120)
        assert self.open(3, 130) is None
        larger = self.open(4, 130)
        assert [self.is_open(one) for one in (first, second, larger)] == [False, True, True]

    def test_session_of_a_follower_is_never_evicted_for_a_consumer(self) -> None:
        followers = [self.open(1, 0, follower=True) for _ in range(2)]
        for session in followers:
            self.use(session, 120)
        assert self.open(99, 200) is None

    def test_restarted_follower_leaves_no_session_behind(self) -> None:
        results = [FetchPartitionData(FetchInfo("t", bytes(16), 0, 0, 1))]
        opened = [
            self.sessions.create(results, uses_topic_ids=False, replica_id=2, now=float(now))
            for now in range(9)
        ]
        assert [self.is_open(one) for one in opened] == [False] * 8 + [True]
        assert self.sessions.evictions == 0

    def test_an_evicted_session_is_not_found(self) -> None:
        gone = self.open(1, 0)
        self.open(1, 0)
        self.open(1, 1, follower=True)
        with pytest.raises(FetchSessionIdNotFound):
            self.use(gone, 2)
        assert list(self.sessions.moved(("t1", 0))) == []


def test_followers_fetch_idle_partitions_with_small_session_requests() -> None:
    """Their requests list no partition while none changes; a record is still replicated."""
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=2, topics={"t": Topic(60)})
        simulation.run_for(2)
        sizes: list[int] = []
        cluster.links.on_frame = lambda source, target, frame: sizes.append(len(frame))
        simulation.run_for(10)
        assert 60 <= len(sizes) <= 100, (
            "requests and responses of two fetchers, each with two fetches a second"
        )
        assert max(sizes) < 100
        cluster.links.on_frame = None
        key = ("t", 7)
        append(cluster, key, b"x")
        simulation.run_for(1)
        assert {one.high_watermark for one in cluster.partition(*key).replicas.values()} == {1}


def test_paused_partition_leaves_the_isr_while_its_session_continues() -> None:
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=2, topics={"t": 3}, config={"replica.lag.time.max.ms": 2000})
        key = ("t", 0)
        simulation.run_for(1)
        follower = 1 - cluster.partition(*key).leader
        cluster.controls.pause_followers(key, brokers=[follower])
        simulation.run_for(10)
        assert sorted(cluster.partition(*key).isr) == [0, 1], "it has all records"
        append(cluster, key, b"x")
        simulation.run_for(4)
        assert cluster.partition(*key).isr == (1 - follower,)
        cluster.controls.resume_followers()
        simulation.run_for(2)
        assert sorted(cluster.partition(*key).isr) == [0, 1]


@pytest.mark.gate
@pytest.mark.slow
def test_an_idle_cluster_with_internal_topics_takes_little_of_a_core() -> None:
    with KafkaCluster(brokers=3, topics={"offsets": Topic(50, 3), "transactions": Topic(50, 3)}):
        time.sleep(0.7)
        before, began = time.process_time(), time.monotonic()
        time.sleep(1.3)
        assert (time.process_time() - before) / (time.monotonic() - began) < 0.1  # about 0.01


IDLE = FetchPartitionData(FetchInfo("t", bytes(16), 0, 5, 1000), None, 5, 5, 1)
NEWS = [
    {"records": b"x"},
    {"error": NotLeaderOrFollower()},
    {"diverging": EpochEnd(1, 3)},
    {"preferred_read_replica": 0},
    {"high_watermark": 6},
    {"log_start_offset": 2},
]


@pytest.mark.parametrize("news", NEWS, ids=[next(iter(one)) for one in NEWS])
def test_session_returns_a_partition_with_any_news_once_they_are_over_no_more(news: dict[str, Any]) -> None:
    sessions = FetchSessionCache(2, SeededEntropy(1))
    session = sessions.create([IDLE], uses_topic_ids=False, replica_id=-1, now=0.0)
    assert session is not None
    assert session.current_partitions() == session.record_responses([IDLE]) == session.changed([IDLE]) == []
    changed = attrs.evolve(IDLE, **news)
    list(sessions.moved(("t", 0)))
    assert session.changed([changed]) == session.record_responses([changed]) == [changed]
    # What the reader must react to stays due; a moved offset was reported.
    is_due = next(iter(news)) not in ("high_watermark", "log_start_offset")
    assert session.current_partitions() == [IDLE.info] * is_due
    after = attrs.evolve(changed, records=b"", error=None, diverging=None, preferred_read_replica=-1)
    assert session.record_responses([after]) == [after] * ("error" in news)  # the end of an error is news
    assert session.record_responses([after]) == session.current_partitions() == []


def test_partition_both_added_and_forgotten_by_a_fetch_is_not_in_its_session() -> None:
    sessions = FetchSessionCache(2, SeededEntropy(1))
    results = [FetchPartitionData(FetchInfo("t", bytes(16), number, 0, 1000)) for number in range(2)]
    session = sessions.create(results, uses_topic_ids=False, replica_id=-1, now=0.0)
    assert session is not None
    infos = [FetchInfo("t", bytes(16), number, 0, 1000) for number in (1, 2)]
    advance(sessions, session, infos, [("t", 1), ("t", 2)], uses_topic_ids=False)
    assert list(session.partitions) == [("t", 0)]


def test_session_records_its_last_two_fetches() -> None:
    sessions = FetchSessionCache(2, SeededEntropy(1))
    session = sessions.create([IDLE], uses_topic_ids=False, replica_id=1, now=1.0)
    assert session is not None
    assert session.last_fetch_at == 1.0
    for now in (2.0, 3.0):
        advance(sessions, session, now=now, uses_topic_ids=False)
        assert (session.previous_fetch_at, session.last_fetch_at) == (now - 1, now)


def test_session_epochs_wrap_to_one() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, 2**31 - 2, 2**31 - 1)] == [1, 2, 2**31 - 1, 1]


def test_unknown_topic_id_is_resolved_with_every_fetch() -> None:
    """The metadata of this broker can lack a topic of the session at first."""
    sessions = FetchSessionCache(10, SeededEntropy(1))
    topic_id = b"\x07" * 16
    item = FetchInfo(topic_id.hex(), topic_id, 0, 0, 1000, error=UnknownTopicId())
    unknown = FetchPartitionData(item, UnknownTopicId())
    session = sessions.create([unknown], uses_topic_ids=True, replica_id=-1, now=0.0)

    def fetched(names: dict[bytes, str]) -> list[FetchInfo]:
        return advance(sessions, session, names=names).current_partitions()

    assert fetched({}) == [item]
    (known,) = fetched({topic_id: "t"})
    assert (known.topic, known.error) == ("t", None)
    session.record_responses([FetchPartitionData(known)])
    assert fetched({topic_id: "t"}) == [], "it is resolved once"
    assert list(sessions.moved(("t", 0))) == [session]


def test_resolved_topic_id_is_checked_against_the_acls() -> None:
    """A reader can fetch an unknown id first, without a change of its ACLs."""
    sessions = FetchSessionCache(10, SeededEntropy(1))
    topic_id = b"\x07" * 16
    unknown = FetchInfo(topic_id.hex(), topic_id, 0, 0, 1000, error=UnknownTopicId())
    results = [FetchPartitionData(unknown, UnknownTopicId())]
    session = sessions.create(results, uses_topic_ids=True, replica_id=-1, now=0.0)
    assert session is not None
    rights = object()
    for names in ({}, {topic_id: "secret"}):
        advance(sessions, session, names=names)
        sessions.check_access(session, rights, lambda topic: TopicAuthorizationFailed())
    (current,) = session.current_partitions()
    assert isinstance(current.error, TopicAuthorizationFailed)


def test_forgotten_old_topic_leaves_the_recreated_one_watched() -> None:
    sessions = FetchSessionCache(10, SeededEntropy(1))
    old, new = (FetchInfo("t", bytes([number] * 16), 0, 0, 1000) for number in (7, 8))
    session = sessions.create([FetchPartitionData(old)], uses_topic_ids=True, replica_id=-1, now=0.0)
    assert session is not None
    for infos, forgotten in (([new], []), ([], [(old.topic_id, 0)])):
        sessions.incremental(
            session.id,
            session.epoch,
            uses_topic_ids=True,
            infos=infos,
            forgotten=forgotten,
            name_of=lambda topic_id: None,
            now=1.0,
        )
    assert list(session.partitions) == [(new.topic_id, 0)]
    assert list(sessions.moved(("t", 0))) == [session]


def test_recreated_topic_does_not_wake_the_session_of_the_deleted_one() -> None:
    """The session watched the old topic by its name, which is also the name of the new one."""
    sessions = FetchSessionCache(10, SeededEntropy(1))
    old_id = b"\x07" * 16
    item = FetchInfo("t", old_id, 0, 0, 1000)
    session = sessions.create([FetchPartitionData(item)], uses_topic_ids=True, replica_id=-1, now=0.0)
    kept = FetchInfo("kept", b"\x08" * 16, 0, 0, 1000)

    def fetch(items: list[FetchInfo], forgotten: list[tuple[bytes | str, int]]) -> FetchSession:
        return advance(sessions, session, items, forgotten)

    # The reader advances in the deleted topic before it learns of the deletion and forgets it.
    fetch([kept, FetchInfo(old_id.hex(), old_id, 0, 5, 1000, error=UnknownTopicId())], [])
    fetch([], [(old_id, 0)])
    sessions.moved(("t", 0))  # of the new topic
    assert fetch([], []).current_partitions() == [kept]
    assert not sessions.is_watched(("t", 0))
