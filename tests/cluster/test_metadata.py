"""The times of Metadata requests, in virtual time; brokers are scripted, the client is real."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.metadata import Metadata
from pykafka2.errors import NoBrokersAvailable, TopicAuthorizationFailed, UnknownTopicOrPartition
from pykafka2.events import LeaderChanged, MetadataUpdated
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.cluster.scripted import Hold, ScriptedBroker, ScriptedCluster


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster(brokers=3, topics={"orders": [0, 1, 2], "bills": [1]})


@pytest.fixture
def client(cluster: ScriptedCluster) -> Iterator[ClusterClient]:
    client = cluster.client()
    yield client
    client.close()


def requested_topics(cluster: ScriptedCluster) -> list[list[str | None] | None]:
    """The topics of each Metadata request so far."""
    return [
        None if request.topics is None else [topic.name for topic in request.topics]
        for request in cluster.requests(MetadataRequest)
    ]


def times(cluster: ScriptedCluster) -> list[float]:
    seen = [
        one for broker in cluster.brokers for one in broker.seen if isinstance(one.request, MetadataRequest)
    ]
    return sorted(one.at for one in seen)


def test_no_connection_is_opened_before_the_first_request(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.runtime.run_for(3600)
    assert cluster.network.connects == []
    assert client.metadata.version == 0


def test_topic_wanted_repeatedly_during_a_request_causes_one_request(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    for _ in range(5):
        client.metadata.want_topic("orders", cluster.now)
    client.wait_for_topic("orders", 10)
    client.metadata.want_topic("orders", cluster.now)
    cluster.runtime.run_for(60)
    assert requested_topics(cluster) == [["orders"]]


def test_new_topic_is_requested_alone_and_known_topics_stay(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    client.wait_for_topic("orders", 10)
    client.wait_for_topic("bills", 10)
    assert requested_topics(cluster) == [["orders"], ["bills"]]
    assert client.metadata.partition_count("orders") == 3
    assert client.metadata.version == 2


def test_refreshes_are_at_least_retry_backoff_apart(cluster: ScriptedCluster, client: ClusterClient) -> None:
    client.wait_for_topic("orders", 10)
    for _ in range(20):
        client.metadata.request_update()
        cluster.runtime.run_for(0.03)
    moments = times(cluster)
    assert len(moments) > 3
    assert all(later - sooner >= 0.1 - 1e-9 for sooner, later in pairwise(moments))


def test_first_request_of_a_topic_has_no_backoff(cluster: ScriptedCluster, client: ClusterClient) -> None:
    for topic in ("orders", "bills"):
        client.wait_for_topic(topic, 10)
    first, second = times(cluster)
    assert second - first < 0.05


def test_new_topics_do_not_shorten_the_backoff_after_failures(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    client.wait_for_topic("orders", 10)
    cluster.on(MetadataRequest, lambda request, broker: MetadataResponse(brokers=[], topics=[]))
    for number in range(20):
        client.metadata.want_topic(f"new-{number}", cluster.now)
        cluster.runtime.run_for(0.02)
    moments = times(cluster)[1:]
    assert len(moments) >= 2
    assert all(later - sooner >= 0.1 - 1e-9 for sooner, later in pairwise(moments))


def test_unresolved_topic_is_requested_with_growing_backoff(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="'nowhere' does not exist"):
        client.wait_for_topic("nowhere", 30)
    gaps = [later - sooner for sooner, later in pairwise(times(cluster))]
    assert gaps[0] < 0.2
    assert all(0.8 <= gap <= 1.2 for gap in gaps[6:])


def test_a_topic_made_in_time_is_found(cluster: ScriptedCluster, client: ClusterClient) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        client.wait_for_topic("late", 1)
    cluster.add_topic("late", [2])
    assert list(client.wait_for_topic("late", 5).partitions) == [0]


def test_fatal_topic_error_is_raised_at_once(cluster: ScriptedCluster, client: ClusterClient) -> None:
    cluster.topics["bills"].error_code = TopicAuthorizationFailed.code
    before = cluster.now
    with pytest.raises(TopicAuthorizationFailed, match="bills"):
        client.wait_for_topic("bills", 30)
    assert cluster.now - before < 1
    cluster.topics["bills"].error_code = 0
    assert client.wait_for_topic("bills", 30).is_usable, "an ACL granted later helps the next call"


def test_new_topics_do_not_postpone_the_refresh_of_known_ones(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    client.wait_for_topic("orders", 10)
    for number in range(12):
        cluster.runtime.run_for(120)
        client.metadata.want_topic("orders", cluster.now)
        cluster.add_topic(f"new-{number}", [0])
        client.wait_for_topic(f"new-{number}", 10)
    named = [
        one.at
        for one in (one for broker in cluster.brokers for one in broker.seen)
        if isinstance(one.request, MetadataRequest) and "orders" in [t.name for t in one.request.topics or []]
    ]
    gaps = [later - sooner for sooner, later in pairwise(sorted(named))]
    assert gaps, "orders was requested again in 24 minutes"
    assert max(gaps) <= 301


def test_metadata_is_refreshed_at_its_age(cluster: ScriptedCluster, client: ClusterClient) -> None:
    client.metadata.pin_topics({"orders"})
    client.wait_for_metadata(0, 10)
    first = client.metadata.last_successful_refresh
    cluster.runtime.run_for(299)
    assert len(requested_topics(cluster)) == 1
    cluster.runtime.run_for(2)
    assert len(requested_topics(cluster)) == 2
    assert client.metadata.version == 2
    assert client.metadata.last_successful_refresh == pytest.approx(first + 300)


def test_unused_topic_is_forgotten(cluster: ScriptedCluster, client: ClusterClient) -> None:
    client.wait_for_topic("orders", 10)
    cluster.runtime.run_for(200)
    client.wait_for_topic("bills", 10)
    cluster.runtime.run_for(150)
    assert client.metadata.topic("orders") is None
    assert client.metadata.partition_count("bills") == 1
    assert requested_topics(cluster)[-1] == ["bills"], "nor is it requested"


def test_unused_topics_are_forgotten_together(cluster: ScriptedCluster, client: ClusterClient) -> None:
    for name in ("old-1", "old-2", "used-1", "used-2"):
        cluster.add_topic(name, [0])
        client.wait_for_topic(name, 10)
    cluster.runtime.run_for(200)
    for name in ("used-1", "used-2"):
        client.wait_for_topic(name, 10)
    cluster.runtime.run_for(150)
    assert set(client.metadata.snapshot.topics) == {"used-1", "used-2"}


def test_every_partition_without_a_leader_is_waited_for(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    """Each is the last of its topic, and elected at another time."""
    for name in ("late-1", "late-2"):
        cluster.add_topic(name, [0, -1])
    for name in ("orders", "late-1", "late-2"):
        client.wait_for_topic(name, 10)
    for name in ("late-2", "late-1"):
        cluster.runtime.run_for(3)
        assert client.metadata.leader_of(name, 1) is None
        cluster.move_leader(name, 1, 2)
        cluster.runtime.run_for(3)
        info = client.metadata.leader_of(name, 1)
        assert info is not None
        assert info.leader == 2


def test_moved_leaders_of_several_topics_are_each_reported(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    events: list[object] = []
    client.wait_for_topic("bills", 10)
    client.wait_for_topic("orders", 10)
    client.event_sink.subscribe(events.append)
    for topic, partition in (("orders", 0), ("orders", 2), ("bills", 0)):
        cluster.move_leader(topic, partition, 0)
    client.wait_for_metadata(client.metadata.version, 10)
    moved = {(one.topic, one.partition) for one in events if isinstance(one, LeaderChanged)}
    assert moved == {("orders", 0), ("orders", 2), ("bills", 0)}


def test_a_pinned_topic_is_never_forgotten(cluster: ScriptedCluster, client: ClusterClient) -> None:
    client.metadata.pin_topics({"orders"})
    client.wait_for_metadata(0, 10)
    cluster.runtime.run_for(1000)
    assert client.metadata.partition_count("orders") == 3
    client.metadata.pin_topics(())
    cluster.runtime.run_for(301)
    assert client.metadata.topic("orders") is None


def test_partition_without_a_leader_is_requested_until_it_has_one(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.topics["bills"].leaders[0] = -1
    client.wait_for_topic("bills", 10)
    assert client.metadata.leader_of("bills", 0) is None
    cluster.runtime.run_for(2)
    cluster.move_leader("bills", 0, 2)
    cluster.runtime.run_for(2)
    info = client.metadata.leader_of("bills", 0)
    assert info is not None
    assert info.leader == 2


def test_a_request_for_an_update_during_one_is_not_lost(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    client.wait_for_topic("bills", 10)
    cluster.runtime.run_for(1)
    hold = Hold()
    cluster.on(MetadataRequest, lambda request, broker: hold)
    client.metadata.request_update()
    cluster.runtime.run_for(1)
    stale = cluster.metadata(cluster.requests(MetadataRequest)[-1])
    cluster.move_leader("bills", 0, 2)
    client.metadata.request_update("it moved while the answer was on its way")
    del cluster.handlers[MetadataRequest]
    hold.release(stale)
    cluster.runtime.run_for(1)
    info = client.metadata.leader_of("bills", 0)
    assert info is not None
    assert info.leader == 2


def test_an_answer_without_brokers_is_a_failure(cluster: ScriptedCluster, client: ClusterClient) -> None:
    def empty(request: MetadataRequest, broker: ScriptedBroker) -> object:
        answer = cluster.metadata(request)
        answer.brokers = []
        return answer

    cluster.on(MetadataRequest, empty)  # type: ignore[arg-type]
    client.metadata.want_topic("orders", cluster.now)
    cluster.runtime.run_for(1)
    assert client.metadata.version == 0
    assert client.metadata.last_error is not None
    del cluster.handlers[MetadataRequest]
    cluster.runtime.run_for(2)
    assert client.metadata.version == 1
    assert client.metadata.last_error is None


def test_topic_missing_in_the_response_is_requested_again(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    def silent(request: MetadataRequest, broker: ScriptedBroker) -> object:
        answer = cluster.metadata(request)
        answer.topics = []
        return answer

    client.wait_for_topic("bills", 10)
    cluster.on(MetadataRequest, silent)  # type: ignore[arg-type]
    client.metadata.want_topic("orders", cluster.now)
    cluster.runtime.run_for(3)
    gaps = [later - sooner for sooner, later in pairwise(times(cluster)[1:])]
    assert len(gaps) >= 3, "requested again"
    assert min(gaps) >= 0.1 - 1e-9, "and not in a hurry"
    assert client.metadata.partition_count("bills") == 1, "what was known stays"
    del cluster.handlers[MetadataRequest]
    client.wait_for_topic("orders", 3)


@pytest.mark.parametrize("known_by", ["an error", "a partition without a leader"])
def test_new_topic_missing_in_a_later_response_is_requested_again(
    cluster: ScriptedCluster, client: ClusterClient, known_by: str
) -> None:
    """The broker that does not know the topic returns an error; the next one knows no topic yet."""

    def not_yet(request: MetadataRequest, broker: ScriptedBroker) -> object:
        answer = cluster.metadata(request)
        if known_by == "an error":
            answer.topics[0].error_code, answer.topics[0].partitions = 3, []
        else:
            answer.topics[0].partitions[0].leader_id = -1
        cluster.on(MetadataRequest, silent)  # type: ignore[arg-type]
        return answer

    def silent(request: MetadataRequest, broker: ScriptedBroker) -> object:
        answer = cluster.metadata(request)
        answer.topics = []
        del cluster.handlers[MetadataRequest]
        return answer

    cluster.on(MetadataRequest, not_yet)  # type: ignore[arg-type]
    client.metadata.want_topic("bills", cluster.now)
    cluster.runtime.run_for(3)
    assert requested_topics(cluster) == [["bills"]] * 3
    assert client.metadata.leader_of("bills", 0) is not None


def test_changes_are_reported_to_the_event_sink(cluster: ScriptedCluster, client: ClusterClient) -> None:
    events: list[object] = []
    client.event_sink.subscribe(events.append)
    client.wait_for_topic("bills", 10)
    cluster.move_leader("bills", 0, 0)
    client.wait_for_metadata(client.metadata.version, 10)
    assert [event for event in events if isinstance(event, MetadataUpdated)][-1].version == 2
    (moved,) = [event for event in events if isinstance(event, LeaderChanged)]
    assert (moved.topic, moved.leader, moved.leader_epoch) == ("bills", 0, 1)


def test_all_topics_are_in_the_metadata_when_all_are_wanted(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    client.metadata.want_all_topics(True)
    client.wait_for_metadata(0, 10)
    assert requested_topics(cluster) == [None]
    assert set(client.metadata.snapshot.topics) == {"orders", "bills"}
    del cluster.topics["bills"]
    client.wait_for_metadata(client.metadata.version, 10)
    assert set(client.metadata.snapshot.topics) == {"orders"}


def test_thread_that_sees_a_response_with_all_topics_sees_that_it_has_all(
    cluster: ScriptedCluster, client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll() in between would find that it must wait for all topics, and not be called again for them."""
    seen: list[tuple[int, bool]] = []

    def set_attribute(metadata: Metadata, name: str, value: object) -> None:
        object.__setattr__(metadata, name, value)
        if hasattr(metadata, "_has_changed"):
            seen.append((metadata.version, metadata.has_all_topics))

    client.wait_for_topic("orders", 10)
    monkeypatch.setattr(Metadata, "__setattr__", set_attribute, raising=False)
    client.metadata.want_all_topics(True)
    client.wait_for_metadata(client.metadata.version, 10)
    assert set(seen) == {(1, False), (2, True)}


def test_metadata_request_has_the_allow_auto_create_topics_option(cluster: ScriptedCluster) -> None:
    for allowed in (True, False):
        client = cluster.client(allow_auto_create_topics=allowed)
        client.wait_for_topic("orders", 10)
        client.close()
        assert cluster.requests(MetadataRequest)[-1].allow_auto_topic_creation is allowed


def requested_ids(cluster: ScriptedCluster) -> list[list[bytes]]:
    """The topics that each Metadata request so far named by their ids."""
    return [
        [topic.topic_id for topic in request.topics or [] if topic.name is None]
        for request in cluster.requests(MetadataRequest)
    ]


def test_topic_id_is_requested_until_its_name_is_known(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    orders = cluster.topics["orders"].topic_id
    client.metadata.want_topic_ids([orders])
    cluster.runtime.run_for(1)
    assert client.metadata.topic_name(orders) == "orders"
    assert requested_ids(cluster) == [[orders]]
    client.metadata.pin_topics(["orders"])
    cluster.runtime.run_for(60)
    assert requested_ids(cluster) == [[orders]], "what is known is not requested again"


def test_unknown_topic_id_is_requested_with_backoff_until_unwanted(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    unknown = b"?" * 16
    client.metadata.want_topic_ids([unknown])
    cluster.runtime.run_for(30)
    gaps = [later - sooner for sooner, later in pairwise(times(cluster))]
    assert gaps[0] < 0.2
    assert all(0.8 <= gap <= 1.2 for gap in gaps[6:])
    client.metadata.want_topic_ids([])
    cluster.runtime.run_for(2)
    before = len(times(cluster))
    cluster.runtime.run_for(30)
    assert len(times(cluster)) == before


def test_names_and_ids_are_requested_together(cluster: ScriptedCluster, client: ClusterClient) -> None:
    bills = cluster.topics["bills"].topic_id
    client.metadata.pin_topics(["orders"])
    client.metadata.want_topic_ids([bills])
    cluster.runtime.run_for(1)
    assert requested_topics(cluster) == [["orders", None]]
    assert client.metadata.topic_name(bills) == "bills"


class Wishes(frozenset[str]):
    """Pinned topics: another thread wishes for one just behind the look at all wishes."""

    then: Callable[[], None]

    def union(self, *others: Iterable[str]) -> frozenset[str]:  # type: ignore[override]
        found = super().union(*others)
        self.then()
        return found


def test_topic_wanted_while_wants_are_processed_is_not_lost(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    metadata = client.metadata
    hold = Hold()
    cluster.on(MetadataRequest, lambda request, broker: hold)
    metadata.want_topic("orders", cluster.now)
    cluster.runtime.run_for(1)
    metadata.want_topic("orders", cluster.now)  # it is in flight here, and known when the call below runs
    cluster.on(MetadataRequest, lambda request, broker: cluster.metadata(request))
    pinned = Wishes()

    def wish() -> None:
        if not metadata._topic_requested:  # what was requested is still in flight
            metadata.want_topic("bills", cluster.now)

    pinned.then = wish
    metadata._pinned = pinned
    hold.release(cluster.metadata(cluster.requests(MetadataRequest)[0]))
    cluster.runtime.run_for(60)
    assert requested_topics(cluster) == [["orders"], ["bills"]]


def test_topic_pinned_while_a_response_drops_it_is_requested(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    metadata = client.metadata
    metadata.pin_topics(["orders"])
    cluster.runtime.run_for(1)
    hold = Hold()
    cluster.on(MetadataRequest, lambda request, broker: hold)
    metadata.pin_topics([])
    metadata.request_update()
    cluster.runtime.run_for(1)
    cluster.on(MetadataRequest, lambda request, broker: cluster.metadata(request))
    pinned = Wishes()
    pinned.then = lambda: metadata.pin_topics(["orders"])
    metadata._pinned = pinned
    hold.release(MetadataResponse(brokers=cluster.metadata(MetadataRequest(topics=[])).brokers, topics=[]))
    cluster.runtime.run_for(60)
    assert metadata.partition_count("orders") == 3


class Wanted(dict[str, float]):
    """Topics in use: another thread uses one again just as it is forgotten."""

    def pop(self, topic: str, *default: float) -> float:  # type: ignore[override]
        self[topic] = 1e9
        return super().pop(topic, *default)


def test_a_topic_that_is_used_again_just_as_it_is_forgotten_stays(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    client.wait_for_topic("orders", 10)
    client.metadata._wanted = Wanted(client.metadata._wanted)
    client.metadata._forget_idle(cluster.now + 3600)
    assert client.metadata.partition_count("orders") == 3


def test_metadata_failure_wakes_waiters(cluster: ScriptedCluster, client: ClusterClient) -> None:
    class Sleeper:
        wakes = 0

        def unpark(self) -> None:
            self.wakes += 1

    sleeper = Sleeper()
    client.metadata.waiters.join(sleeper)
    client.metadata._on_failure(NoBrokersAvailable("none"), cluster.now)
    assert sleeper.wakes == 1


def test_deleted_topic_is_requested_no_more_often_than_others(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    """An answer about all topics leaves it out, and so tells nothing of its age."""
    client.metadata.want_all_topics(True)
    client.metadata.pin_topics(["orders", "bills"])
    cluster.runtime.run_for(10)
    del cluster.topics["bills"]
    cluster.runtime.run_for(600)
    before = len(requested_topics(cluster))
    cluster.runtime.run_for(3600)
    assert len(requested_topics(cluster)) - before <= 3600 / 300
