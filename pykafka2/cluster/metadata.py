"""Requests the cluster's metadata when needed, and holds the latest snapshot.

Owned by the driver's thread, which polls it; any thread can read `snapshot` and the lookups built on it,
because the snapshot is immutable and replaced in one assignment. No request is sent before a topic or an
update is wanted. snapshot.py merges responses; router.py sends the request to any node.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.snapshot import (
    NO_LEADER,
    ClusterSnapshot,
    TopicSnapshot,
    merge_response,
    with_leader,
    without_node,
    without_topics,
)
from pykafka2.driver.pollable import AnyNode, PollResult
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import (
    BrokerError,
    CorruptResponse,
    KafkaError,
    NoBrokersAvailable,
    RebootstrapRequired,
    error_of,
)
from pykafka2.events import EventSink, LeaderChanged, MetadataUpdated
from pykafka2.options import ClientOptions
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import Node, PartitionInfo

NEVER = -FOREVER


class Metadata:
    """The cluster's metadata as this client knows it (a `Pollable`).

    A request is sent when an unknown topic is wanted, after `request_update`, and when the oldest topic
    reaches `metadata_max_age`. Requests are at least `retry_backoff` apart, up to `retry_backoff_max` while
    they fail or leave a wanted topic unresolved (KIP-580). As in the Java client, a topic that was not
    requested before does not wait for the back-off unless the last request failed.
    """

    def __init__(
        self,
        options: ClientOptions,
        random: random.Random,
        event_sink: EventSink,
        *,
        wake: Callable[[], None],
    ) -> None:
        self.snapshot = ClusterSnapshot()
        self.last_refresh: float = NEVER
        """Time of the last request (monotonic seconds)."""
        self.last_successful_refresh: float = NEVER
        self.last_error: KafkaError | None = None
        """Error of the last request; None after a success."""
        self.waiters = WaitQueue()
        """The threads that wait for a new `version` or `last_error`."""
        self.on_rebootstrap: Callable[[float], None] = lambda now: None
        """Called to restart from the bootstrap servers (KIP-1102): a broker required it, or no metadata came
        for metadata_recovery_rebootstrap_trigger_ms."""
        self._options = options
        self._event_sink = event_sink
        self._wake = wake
        self._backoff = Backoff(options.retry_backoff, options.retry_backoff_max, random)
        self._gap = 0.0
        self._wanted: dict[str, float] = {}
        self._pinned: frozenset[str] = frozenset()
        self._pinned_by_leader: frozenset[str] = frozenset()
        self._wanted_ids: frozenset[bytes] = frozenset()
        self._wants_all_topics = False
        self._all_topics_as_of = FOREVER
        """The version of the first response with all topics since they are wanted."""
        self._update_requested = False
        self._doubted: int | None = None
        """The broker that the next request must avoid: its metadata seems stale."""
        self._topic_requested = False
        self._in_flight = False
        self._in_flight_all = False
        self._in_flight_names: frozenset[str] = frozenset()
        self._next_forget_at = FOREVER
        self._has_changed = False
        """Whether a request or response since the last poll requires another."""
        self._quiet = PollResult.idle_until(NEVER)
        """Result of the last poll; valid until its time if nothing has changed."""
        self._give_up_at = FOREVER
        """When to rebootstrap for lack of a response from the known brokers."""
        self._refreshed_at: dict[str, float] = {}
        """When a response last refreshed each known topic."""

    # ------------------------------------------------------------------ reading, any thread

    @property
    def version(self) -> int:
        """Number of successful responses; a waiter waits for a newer version than it has seen."""
        return self.snapshot.version

    @property
    def has_all_topics(self) -> bool:
        """Whether the snapshot has a response with all topics that came since they are wanted."""
        return self.snapshot.version >= self._all_topics_as_of

    @property
    def controller(self) -> Node | None:
        """The broker for administrative requests; KRaft clusters name any live broker here."""
        snapshot = self.snapshot
        return snapshot.nodes.get(snapshot.controller_id)

    def node(self, node_id: int) -> Node | None:
        return self.snapshot.nodes.get(node_id)

    def topic(self, topic: str) -> TopicSnapshot | None:
        return self.snapshot.topics.get(topic)

    def topic_id(self, topic: str) -> bytes:
        """Return the topic's id, or sixteen zero bytes if it is unknown."""
        known = self.snapshot.topics.get(topic)
        return known.topic_id if known is not None else ZERO_UUID

    def topic_name(self, topic_id: bytes) -> str | None:
        return self.snapshot.names_by_id.get(topic_id)

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        return self.snapshot.partition(topic, partition)

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions, or None if the topic is unknown."""
        known = self.snapshot.topics.get(topic)
        return len(known.partitions) if known is not None and known.partitions else None

    def leader_of(self, topic: str, partition: int) -> PartitionInfo | None:
        """Return the partition if its leader is known and among the live nodes."""
        snapshot = self.snapshot
        known = snapshot.topics.get(topic)
        info = known.partitions.get(partition) if known is not None else None
        return info if info is not None and info.leader in snapshot.nodes else None

    def topic_error(self, topic: str) -> BrokerError | None:
        """Return the topic's error in the last response, or None."""
        known = self.snapshot.topics.get(topic)
        return known.error if known is not None else None

    def wanted_topics(self) -> frozenset[str]:
        """Return the topics that the next full update requests."""
        return self._pinned.union(self._pinned_by_leader, tuple(self._wanted))

    # ------------------------------------------------------------------ wishes, any thread

    def want_topic(self, topic: str, now: float) -> None:
        """Mark the topic as used now; requests it if it is unknown.

        A topic that is not wanted again for `metadata_max_idle` is forgotten.
        """
        # No lock: a single dict operation, and _forget_idle puts back topics that were wanted meanwhile.
        is_new = topic not in self._wanted
        self._wanted[topic] = now
        if is_new or topic not in self.snapshot.topics:
            if self._topic_requested:
                self._has_changed = True
            else:
                self._request_topics()

    def pin_topics(self, topics: Iterable[str]) -> None:
        """Keep exactly these topics, besides those wanted, until the next call (a consumer's topics)."""
        before, self._pinned = self._pinned, frozenset(topics)
        self._request_pinned(self._pinned, before)

    def pin_topics_of_group(self, topics: Iterable[str]) -> None:
        """Pin exactly these topics as well: those of all members, while this consumer leads its group."""
        before, self._pinned_by_leader = self._pinned_by_leader, frozenset(topics)
        self._request_pinned(self._pinned_by_leader, before)

    def _request_pinned(self, pinned: frozenset[str], before: frozenset[str]) -> None:
        # A topic that was not pinned can be known now and be dropped by a response that is being merged.
        if not pinned <= before or not pinned <= self.snapshot.topics.keys():
            self._request_topics()

    def want_topic_ids(self, topic_ids: Iterable[bytes]) -> None:
        """Request the topics with these ids until each is known, or until the next call.

        Once its name is known, the caller must `want_topic` or pin it.
        """
        self._wanted_ids = frozenset(topic_ids)
        if not self._wanted_ids <= self.snapshot.names_by_id.keys():
            self._request_topics()

    def want_all_topics(self, wanted: bool) -> None:
        """Request every topic of the cluster from the next update on (pattern subscriptions, listings)."""
        if wanted and not self._wants_all_topics:
            self._all_topics_as_of = FOREVER
        self._wants_all_topics = wanted
        if wanted:
            self.request_update()

    def request_update(self, reason: object = None, *, doubted: int | None = None) -> None:
        """Send a request as soon as the back-off allows; call until then share it.

        `doubted` is the id of a broker with possibly stale metadata; another one is used if possible.
        """
        if doubted is not None:
            self._doubted = doubted
        if not self._update_requested:
            self._update_requested = True
            self._has_changed = True
            self._wake()

    def _request_topics(self) -> None:
        self._topic_requested = True
        self._has_changed = True
        self._wake()

    # ------------------------------------------------------------------ the driver's thread

    def update_leader(
        self,
        topic: str,
        partition: int,
        leader_id: int,
        leader_epoch: int,
        node_endpoints: Sequence[Node] = (),
    ) -> bool:
        """Apply a broker's hint about a newer leader (KIP-951); return whether it changed anything."""
        new = with_leader(self.snapshot, topic, partition, leader_id, leader_epoch, node_endpoints)
        if new is self.snapshot:
            return False
        self.snapshot = new
        self.waiters.wake()
        return True

    def forget_address(self, node: Node) -> None:
        """Forget a node's wrong address, unless the metadata has another one meanwhile."""
        known = self.snapshot.nodes.get(node.id)
        if known is not None and (known.host, known.port) == (node.host, node.port):
            self.snapshot = without_node(self.snapshot, node.id)

    def poll(self, now: float) -> PollResult:
        if now < self._quiet.wake_at and not self._has_changed:
            return self._quiet
        self._has_changed = False  # cleared first, so a change during this poll triggers the next
        result = self._poll(now)
        self._quiet = PollResult.idle_until(NEVER) if result.sends else result
        return result

    def _poll(self, now: float) -> PollResult:
        if now >= self._give_up_at:
            self._give_up_at = now + self._options.metadata_recovery_rebootstrap_trigger
            self.on_rebootstrap(now)
        if self._in_flight:
            return PollResult.idle_until(self._give_up_at)
        if now >= self._next_forget_at:
            self._forget_idle(now)
        due = self._due_at(now)
        if due > now:
            return PollResult.idle_until(min(due, self._next_forget_at, self._give_up_at))
        doubted, self._doubted = self._doubted, None
        return PollResult.send(
            self._request(now),
            to=AnyNode(doubted),
            on_response=self._on_response,
            on_failure=self._on_failure,
        )

    def _due_at(self, now: float) -> float:
        if self._topic_requested:
            # Requests made while a response was in flight count only for topics that are still missing.
            # Cleared before that check, never after it: another thread can set it again meanwhile.
            self._topic_requested = False
            unknown = self.wanted_topics() - self.snapshot.topics.keys()
            if unknown or not self._wanted_ids <= self.snapshot.names_by_id.keys():
                self._topic_requested = True
            if unknown - self._in_flight_names and self.last_error is None:
                return now  # otherwise each of a thousand new topics would wait for retry_backoff
        if self._update_requested or self._topic_requested:
            due = now
        elif self.last_refresh == NEVER:
            return FOREVER
        else:
            due = self._oldest_refresh() + self._options.metadata_max_age
        return max(due, self.last_refresh + self._gap)

    def _oldest_refresh(self) -> float:
        """Return the refresh time of the oldest topic; a partial response refreshes only some topics."""
        return min(self._refreshed_at.values(), default=self.last_successful_refresh)

    def _request(self, now: float) -> MetadataRequest:
        is_partial = (
            not self._update_requested
            and not self._wants_all_topics
            and now < self._oldest_refresh() + self._options.metadata_max_age
        )
        # Cleared before the wanted topics are read, so that one added meanwhile triggers another request.
        self._update_requested = self._topic_requested = False
        wanted = self.wanted_topics()
        self._in_flight_names = wanted - self.snapshot.topics.keys() if is_partial else wanted
        self._in_flight = True
        self._in_flight_all = self._wants_all_topics
        self.last_refresh = now
        self._gap = self._options.retry_backoff
        if self._give_up_at == FOREVER and self._options.metadata_recovery_strategy == "rebootstrap":
            self._give_up_at = now + self._options.metadata_recovery_rebootstrap_trigger
        if self._next_forget_at == FOREVER and self._wanted:
            self._next_forget_at = now + self._options.metadata_max_idle
        return MetadataRequest(
            topics=None if self._wants_all_topics else self._topics_to_request(),
            allow_auto_topic_creation=self._options.allow_auto_create_topics,
        )

    def _topics_to_request(self) -> list[MetadataRequestTopic]:
        unknown_ids = sorted(self._wanted_ids - self.snapshot.names_by_id.keys())
        return [
            *(MetadataRequestTopic(name=name) for name in sorted(self._in_flight_names)),
            *(MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in unknown_ids),
        ]

    def _on_response(self, response: MetadataResponse, now: float) -> None:
        self._in_flight = False
        self._has_changed = True
        if response.error_code:
            self._on_refused(error_of(response.error_code), now)
            return
        if not response.brokers:
            self._fail(NoBrokersAvailable("a metadata response lists no brokers"))
            return
        before = self.snapshot
        try:
            merged = merge_response(before, response, self.wanted_topics(), names_all=self._in_flight_all)
        except CorruptResponse as error:
            self._fail(error)
            return
        if self._in_flight_all:
            # Before the snapshot: a thread that sees its version must not check `has_all_topics` too early.
            self._all_topics_as_of = min(self._all_topics_as_of, merged.version)
        self.snapshot = merged
        self.last_successful_refresh = now
        self._note_refreshed(response, now)
        self.last_error = None
        self.waiters.wake()
        self._give_up_at = FOREVER
        self._emit_changes(before, now)
        if self._is_unresolved(response):
            self._retry_later()
        else:
            self._backoff.reset()

    def _note_refreshed(self, response: MetadataResponse, now: float) -> None:
        """Set the refresh time of each known topic.

        Requested topics count as refreshed even if the response leaves them out, as a response with all
        topics leaves out those that do not exist.
        """
        known = self.snapshot.topics.keys()
        ages = {name: at for name, at in self._refreshed_at.items() if name in known}
        ages.update((topic.name, now) for topic in response.topics if topic.name is not None)
        ages.update((name, now) for name in self._in_flight_names if name in known)
        self._refreshed_at = ages

    def _on_refused(self, error: BrokerError, now: float) -> None:
        if isinstance(error, RebootstrapRequired):
            self.on_rebootstrap(now)
        self._fail(error)

    def _on_failure(self, error: KafkaError, now: float) -> None:
        self._in_flight = False
        self._has_changed = True
        self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        self.last_error = error
        self.waiters.wake()
        self._retry_later()

    def _retry_later(self) -> None:
        # The jitter must not make it shorter than retry_backoff.
        self._gap = max(self._backoff.next(), self._options.retry_backoff)
        self._update_requested = True

    def _is_unresolved(self, response: MetadataResponse) -> bool:
        """Return True if another request can resolve more: during an election or a topic's creation."""
        if not self._wanted_ids <= self.snapshot.names_by_id.keys():
            return True
        if not self._in_flight_all:
            missing = self._in_flight_names & self.wanted_topics() - {topic.name for topic in response.topics}
            if any(map(self._is_unsettled, missing)):
                return True  # requested by name and not in the response
        if any(topic.is_in_doubt for topic in self.snapshot.topics.values()):
            return True
        wanted = self.wanted_topics()
        for topic in response.topics:
            if topic.name not in wanted:
                continue
            if topic.error_code and error_of(topic.error_code).retriable:
                return True
            if any(partition.leader_id == NO_LEADER for partition in topic.partitions):
                return True
        return False

    def _is_unsettled(self, topic: str) -> bool:
        """Return True if the topic is unknown, or has a retriable error or a partition without a leader."""
        known = self.snapshot.topics.get(topic)
        if known is None:
            return True
        if known.error_code:
            return error_of(known.error_code).retriable
        return any(partition.leader == NO_LEADER for partition in known.partitions.values())

    def _forget_idle(self, now: float) -> None:
        idle_since = now - self._options.metadata_max_idle
        for topic in [topic for topic, used_at in tuple(self._wanted.items()) if used_at <= idle_since]:
            used_at = self._wanted.pop(topic)
            if used_at > idle_since:
                self._wanted.setdefault(topic, used_at)
        gone = self.snapshot.topics.keys() - self.wanted_topics()
        if gone and not self._wants_all_topics:
            self.snapshot = without_topics(self.snapshot, gone)
            self._refreshed_at = {name: at for name, at in self._refreshed_at.items() if name not in gone}
        oldest = min(tuple(self._wanted.values()), default=FOREVER)
        self._next_forget_at = oldest + self._options.metadata_max_idle

    def _emit_changes(self, before: ClusterSnapshot, now: float) -> None:
        if not self._event_sink.is_watched:
            return
        after = self.snapshot
        self._event_sink.emit(MetadataUpdated(now, after.version, len(after.nodes), len(after.topics)))
        for topic in after.topics.values():
            for info in topic.partitions.values():
                known = before.partition(info.topic, info.partition)
                if known is not None and known.leader_epoch != info.leader_epoch:
                    self._event_sink.emit(
                        LeaderChanged(now, info.topic, info.partition, info.leader, info.leader_epoch)
                    )
