"""Fetchers of a broker: each copies the partitions of one leader, one fetch at a time.

A fetcher sends Kafka's Fetch with this broker's replica id and epoch over a link, in a fetch session that
names only changes. It appends the records, adopts the high watermark (so a follower learns it one fetch
later), and truncates where the leader reports that the logs diverge (KIP-595). Access requires the cluster's
lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from pykafka2.broker.base.image import Key
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.log.leader_epochs import UNKNOWN_EPOCH
from pykafka2.broker.replication.fetch import INITIAL_EPOCH, NO_SESSION, next_epoch
from pykafka2.broker.replication.replica import Replica
from pykafka2.broker.server.links import Links
from pykafka2.broker.server.request_metrics import RequestMetrics
from pykafka2.broker.server.threads import Part
from pykafka2.clock import FOREVER
from pykafka2.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    KafkaError,
    OffsetOutOfRange,
    for_code,
)
from pykafka2.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


@attrs.define
class Position:
    """The position of a partition in a fetch, which the leader's session then holds. Treated as immutable."""

    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int


@attrs.define(eq=False)
class PartitionFetchState:
    """A partition that this broker copies: its replica, and its back-off after an error."""

    replica: Replica
    leader_epoch: int
    delayed_until: float = 0.0
    sent: Position | None = None
    """The position that the session with the leader holds; None if it holds none."""

    @property
    def ident(self) -> Ident:
        return self.replica.log.topic_id, self.replica.key[1]

    def position(self) -> Position:
        log = self.replica.log
        return Position(log.log_end_offset, self.leader_epoch, log.epochs.latest, log.log_start_offset)


Ident = tuple[bytes, int]
"""Topic id and partition."""


@attrs.define(eq=False)
class Fetcher:
    """The partitions copied from one leader, and the fetch session with it.

    Only partitions in `changed` are considered for the next fetch: idle ones cost nothing (KIP-227).
    """

    leader: int
    partitions: dict[Key, PartitionFetchState] = attrs.field(factory=dict)
    by_ident: dict[Ident, PartitionFetchState] = attrs.field(factory=dict)
    """The partitions in the session."""
    changed: dict[Key, None] = attrs.field(factory=dict)
    delayed: dict[Key, None] = attrs.field(factory=dict)
    forgotten: dict[Ident, None] = attrs.field(factory=dict)
    session_id: int = NO_SESSION
    next_epoch: int = INITIAL_EPOCH
    in_flight: bool = False
    discards_response: bool = False
    """Whether the response to the fetch in flight is discarded."""
    delayed_until: float = 0.0

    def add(self, followed: PartitionFetchState) -> None:
        self.partitions[followed.replica.key] = followed
        self.changed[followed.replica.key] = None

    def remove(self, key: Key) -> None:
        followed = self.partitions.pop(key, None)
        self.changed.pop(key, None)
        self.delayed.pop(key, None)
        if followed is not None:
            self.remove_from_session(followed)

    def remove_from_session(self, followed: PartitionFetchState) -> None:
        """Remove a partition from the session, temporarily or permanently."""
        followed.sent = None
        if self.by_ident.get(followed.ident) is followed:
            del self.by_ident[followed.ident]
            self.forgotten[followed.ident] = None

    def reset_session(self) -> None:
        """Make the next fetch a full one, which ends the current session."""
        self.next_epoch = INITIAL_EPOCH
        self.forgotten.clear()
        self.by_ident.clear()
        for key, followed in self.partitions.items():
            followed.sent = None
            self.changed[key] = None

    def delay(self, followed: PartitionFetchState, until: float) -> None:
        followed.delayed_until = until
        self.delayed[followed.replica.key] = None
        self.remove_from_session(followed)


logger = logging.getLogger(__name__)

FETCH_VERSION = 17
LIST_OFFSETS_VERSION = 10
OPENS_NEW_SESSION_AFTER = (FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError)
"""Errors after which the leader has no session any more, so a full fetch follows at once."""

EARLIEST = -2


class FollowerFetchers(Part):
    """All fetchers of one broker, run by one loop.

    `on_moved` is called when this broker's high watermark or log start changes; `metrics` counts the copied
    bytes.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        links: Links,
        lock: Any,
        metrics: RequestMetrics,
        on_moved: Callable[[Key], None],
    ) -> None:
        super().__init__(f"fetchers-{broker_id}")
        self.broker_id = broker_id
        self.broker_epoch = -1
        self.is_paused = False
        self.paused_keys: dict[Key, None] = {}
        self._links = links
        self._lock = lock
        self._metrics = metrics
        self._on_moved = on_moved
        self._fetchers: dict[int, Fetcher] = {}
        self._leader_of: dict[Key, int] = {}
        self._backoff = config.seconds("replica.fetch.backoff.ms")
        self._max_wait_ms = config.int("replica.fetch.wait.max.ms")
        self._min_bytes = config.int("replica.fetch.min.bytes")
        self._max_bytes = config.int("replica.fetch.response.max.bytes")
        self._partition_max_bytes = config.int("replica.fetch.max.bytes")
        self._stopped = False

    # ------------------------------------------------------------------ leaders to follow

    def follow(self, replica: Replica, is_new: bool) -> None:
        """Start copying this partition from its leader, if it has one."""
        leader = replica.image.leader
        if not is_new and self._leader_of.get(replica.key) == leader:
            return
        self.unfollow(replica.key)
        if leader < 0:
            return
        self._leader_of[replica.key] = leader
        fetcher = self._fetchers.setdefault(leader, Fetcher(leader))
        fetcher.add(PartitionFetchState(replica, replica.leader_epoch))
        self.signal()

    def unfollow(self, key: Key) -> None:
        leader = self._leader_of.pop(key, None)
        if leader is not None:
            self._fetchers[leader].remove(key)

    def log_start_moved(self, key: Key) -> None:
        """Send a changed log start (after retention) to the leader with the next fetch."""
        leader = self._leader_of.get(key)
        if leader is not None:
            self._fetchers[leader].changed[key] = None

    def stop(self) -> None:
        """Stop the fetchers; later responses are ignored."""
        self._stopped = True
        self._fetchers.clear()
        self._leader_of.clear()

    def pause(self, keys: Iterable[Key] | None = None) -> None:
        """Stop fetching (these partitions) until `resume`; a response in flight is discarded."""
        if keys is None:
            self.is_paused = True
            for fetcher in self._fetchers.values():
                fetcher.discards_response = fetcher.in_flight
        else:
            for key in keys:
                self.paused_keys[key] = None
                leader = self._leader_of.get(key)
                if leader is not None:
                    self._fetchers[leader].changed[key] = None

    def resume(self, keys: Iterable[Key] | None = None) -> None:
        """Resume fetching, of these partitions or of all."""
        if keys is None:
            self.is_paused = False
            for fetcher in self._fetchers.values():
                fetcher.discards_response = False
        for key in list(self.paused_keys if keys is None else keys):
            leader = self._leader_of.get(key)
            if leader is not None:
                # Sent again even if the pause was too short for the session to notice.
                self._fetchers[leader].partitions[key].sent = None
                self._fetchers[leader].changed[key] = None
            self.paused_keys.pop(key, None)
        self.retry()

    def retry(self) -> None:
        """Reset all back-offs because links were healed or a broker came back."""
        for fetcher in self._fetchers.values():
            fetcher.delayed_until = 0.0
        self.signal()

    # ------------------------------------------------------------------ fetching

    def run(self, now: float) -> float:
        with self._lock:
            wake_at = FOREVER
            for fetcher in self._fetchers.values():
                wake_at = min(wake_at, self._turn(fetcher, now))
            return wake_at

    def _turn(self, fetcher: Fetcher, now: float) -> float:
        if fetcher.in_flight or self.is_paused or not fetcher.partitions:
            return FOREVER
        if now < fetcher.delayed_until:
            return fetcher.delayed_until
        wake_at = FOREVER
        for key in list(fetcher.delayed):
            until = fetcher.partitions[key].delayed_until
            if now < until:
                wake_at = min(wake_at, until)
            else:
                del fetcher.delayed[key]
                fetcher.changed[key] = None
        positions = self._changes(fetcher)
        if fetcher.by_ident:
            self._send(fetcher, positions, now)
        return wake_at

    def _changes(self, fetcher: Fetcher) -> list[tuple[PartitionFetchState, Position]]:
        """Return the positions for the next fetch: partitions whose state differs from the session's."""
        positions = []
        for key in fetcher.changed:
            followed = fetcher.partitions[key]
            if key in self.paused_keys:
                fetcher.remove_from_session(followed)
                continue
            if key in fetcher.delayed:
                continue
            position = followed.position()
            if position != followed.sent:
                followed.sent = position
                fetcher.by_ident[followed.ident] = followed
                fetcher.forgotten.pop(followed.ident, None)
                positions.append((followed, position))
        fetcher.changed.clear()
        return positions

    def _send(
        self, fetcher: Fetcher, positions: list[tuple[PartitionFetchState, Position]], now: float
    ) -> None:
        fetcher.in_flight = True
        topics: dict[bytes, list[FetchPartition]] = {}
        for followed, position in positions:
            topic_id, partition = followed.ident
            topics.setdefault(topic_id, []).append(
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        forgotten: dict[bytes, list[int]] = {}
        if fetcher.next_epoch != INITIAL_EPOCH:
            for topic_id, partition in fetcher.forgotten:
                forgotten.setdefault(topic_id, []).append(partition)
        fetcher.forgotten.clear()
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.broker_id, replica_epoch=self.broker_epoch),
            max_wait_ms=self._max_wait_ms,
            min_bytes=self._min_bytes,
            max_bytes=self._max_bytes,
            session_id=fetcher.session_id,
            session_epoch=fetcher.next_epoch,
            topics=[FetchTopic(topic_id=topic_id, partitions=parts) for topic_id, parts in topics.items()],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=parts) for topic_id, parts in forgotten.items()
            ],
        )
        self._links.call(
            self.broker_id,
            fetcher.leader,
            request,
            FETCH_VERSION,
            lambda response, at: self._on_response(fetcher, response, at),
            lambda error, at: self._on_failure(fetcher, error, at),
            now,
        )

    def _on_failure(self, fetcher: Fetcher, error: KafkaError, now: float) -> None:
        fetcher.in_flight = fetcher.discards_response = False
        fetcher.delayed_until = now + self._backoff
        fetcher.reset_session()
        self.signal()

    def _on_response(self, fetcher: Fetcher, response: FetchResponse, now: float) -> None:
        fetcher.in_flight = False
        is_void, fetcher.discards_response = fetcher.discards_response, False
        if self._stopped:
            return
        self.signal()
        if response.error_code:
            if for_code(response.error_code) not in OPENS_NEW_SESSION_AFTER:
                fetcher.delayed_until = now + self._backoff
            fetcher.reset_session()
            return
        for topic in response.responses:
            for data in topic.partitions:
                followed = fetcher.by_ident.get((topic.topic_id, data.partition_index))
                # The leader or epoch can have changed since the fetch; then the response is stale.
                if (
                    followed is None
                    or followed.sent is None
                    or followed.sent.offset != followed.replica.log.log_end_offset
                    or followed.sent.leader_epoch != followed.leader_epoch
                ):
                    continue
                fetcher.changed[followed.replica.key] = None
                if is_void or followed.replica.key in self.paused_keys:
                    followed.sent = None  # fetch from here again later
                    continue
                try:
                    self._take(fetcher, followed, data, now)
                except KafkaError as error:
                    logger.warning(
                        "broker %d cannot copy %s-%d: %s", self.broker_id, *followed.replica.key, error
                    )
                    fetcher.delay(followed, now + self._backoff)
                except Exception as error:
                    # Without the delay the next fetch would return the same at once.
                    where = "{}: {}-{}".format(self.name, *followed.replica.key)
                    self.loop.problems.note(where, error)
                    fetcher.delay(followed, now + self._backoff)
        self._note_session(fetcher, response.session_id)

    def _note_session(self, fetcher: Fetcher, session_id: int) -> None:
        """Continue the session; without one every fetch is a full one."""
        fetcher.session_id = session_id
        if session_id == NO_SESSION:
            fetcher.reset_session()
        else:
            fetcher.next_epoch = next_epoch(fetcher.next_epoch)

    def _take(self, fetcher: Fetcher, followed: PartitionFetchState, data: PartitionData, now: float) -> None:
        """Handle one partition of a response."""
        replica = followed.replica
        log = replica.log
        if data.error_code:
            fetcher.delay(followed, now + self._backoff)
            if for_code(data.error_code) is OffsetOutOfRange:
                self._find_log_start(fetcher, followed, now)
            return
        if data.diverging_epoch.end_offset >= 0:
            self._truncate(replica, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            return
        if data.records is not None and len(data.records):
            self._metrics.replication_bytes_in += len(data.records)
            log.append_as_follower(data.records)
        moved = log.advance_high_watermark(data.high_watermark)
        if log.advance_log_start(min(data.log_start_offset, log.high_watermark)) or moved:
            self._on_moved(replica.key)

    def _truncate(self, replica: Replica, leader_epoch: int, leader_end: int) -> None:
        """Truncate this broker's log where it diverges from the leader's."""
        log = replica.log
        own = log.end_of_epoch(leader_epoch)
        end = min(leader_end, log.log_end_offset)
        if own.epoch != UNKNOWN_EPOCH:
            end = min(end, own.end_offset)
        log.truncate_to(end)

    def _find_log_start(self, fetcher: Fetcher, followed: PartitionFetchState, now: float) -> None:
        """Restart at the leader's log start, because this log's end is outside the leader's log."""
        replica = followed.replica
        topic, partition = replica.key

        def start_again(response: ListOffsetsResponse, at: float) -> None:
            found = response.topics[0].partitions[0]
            if found.error_code or fetcher.partitions.get(replica.key) is not followed:
                return
            try:
                replica.log.truncate_fully_and_start_at(found.offset)
            except KafkaError as error:
                logger.warning("broker %d cannot truncate %s-%d: %s", self.broker_id, *replica.key, error)
                return
            followed.delayed_until = 0.0
            self.signal()

        request = ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=followed.leader_epoch, timestamp=EARLIEST
        )
        self._links.call(
            self.broker_id,
            fetcher.leader,
            ListOffsetsRequest(
                replica_id=self.broker_id, topics=[ListOffsetsTopic(name=topic, partitions=[request])]
            ),
            LIST_OFFSETS_VERSION,
            start_again,
            lambda error, at: None,
            now,
        )
