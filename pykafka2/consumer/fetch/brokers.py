"""The state per broker of the fetcher: its fetch session, the fetch in flight, and its backoff.

Used on the driver's thread by fetcher.py. A session (KIP-227) starts with a full fetch; after any failure
the next fetch is a full one again.

| epoch | the request names | the response names |
|---|---|---|
| 0, with the id of a session to close, if any | all partitions | all partitions and the new session id |
| 1, 2, … | added, changed and removed partitions | partitions with news |
| -1 | all partitions | all partitions; no session is created |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.consumer.fetch.partitions import FetchInFlight
from pykafka2.errors import FetchSessionIdNotFound
from pykafka2.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from pykafka2.protocol.primitives import ZERO_UUID


class FetchNodes:
    """The fetch state of all brokers, by node id."""

    def __init__(self, *, sessions_are_wanted: bool, new_backoff: Callable[[], Backoff]) -> None:
        self._sessions_are_wanted = sessions_are_wanted
        self._new_backoff = new_backoff
        self.in_flight: dict[int, FetchInFlight] = {}
        self.last_incremental: dict[int, tuple[FetchInFlight, float]] = {}
        """The last incremental fetch with a response, and when it arrived.  Any thread."""
        self._turns: dict[int, int] = {}
        self._sessions: dict[int, FetchSession] = {}
        self._backoffs: dict[int, Backoff] = {}
        self.not_before: dict[int, float] = {}
        """The earliest time of the next fetch from a node, if it has to wait."""

    def session(self, node_id: int) -> FetchSession:
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = FetchSession(is_wanted=self._sessions_are_wanted)
        return session

    def next_turn(self, node_id: int, count: int) -> int:
        """Return which of `count` partitions comes first: a broker fills its response in request order."""
        turn = self._turns.get(node_id, 0) % count
        self._turns[node_id] = turn + 1
        return turn

    def end_fetch(self, flight: FetchInFlight) -> bool:
        """End a flight; False if the node was forgotten or has another fetch in flight."""
        if self.in_flight.get(flight.node_id) is not flight:
            return False
        del self.in_flight[flight.node_id]
        return True

    def on_success(self, flight: FetchInFlight, now: float) -> None:
        """Reset the backoff of a node after a successful response."""
        self._backoffs.pop(flight.node_id, None)
        if flight.is_incremental:
            self.last_incremental[flight.node_id] = flight, now

    def ends_confirmed_at(self, partition: tuple[str, int]) -> float:
        """Return when an incremental response has last left out this partition, whose ends so still hold.

        -inf without one. Any thread.
        """
        times = [
            at
            for node_id, (flight, at) in self.last_incremental.copy().items()
            if partition in flight.fetched and partition in self.session(node_id).ends
        ]
        return max(times, default=-FOREVER)

    def on_failure(self, node_id: int, now: float) -> None:
        """Delay the next fetch by a backoff that grows with each failure."""
        backoff = self._backoffs.get(node_id)
        if backoff is None:
            backoff = self._backoffs[node_id] = self._new_backoff()
        self.not_before[node_id] = now + backoff.next()

    def on_empty_response(self, flight: FetchInFlight) -> None:
        self.not_before[flight.node_id] = flight.not_again_before

    def forget(self, node_id: int) -> None:
        """Drop all state of a node."""
        self.in_flight.pop(node_id, None)
        self.last_incremental.pop(node_id, None)
        self._sessions.pop(node_id, None)
        self._backoffs.pop(node_id, None)
        self.not_before.pop(node_id, None)


NO_SESSION = 0
FULL = 0
SESSIONLESS = -1
LAST_EPOCH = 2**31 - 1

SessionKey = tuple[str, bytes, int]
"""Topic, topic id, partition: a topic that was created again has another id."""


class FetchSession:
    """The client's view of the fetch session of one broker."""

    def __init__(self, *, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._id = NO_SESSION
        self._epoch = FULL if is_wanted else SESSIONLESS
        self._has_ids = False
        self._known: dict[SessionKey, FetchPartition] = {}
        self.ends: dict[tuple[str, int], tuple[int, int]] = {}
        """By topic and partition, the last high watermark and last stable offset of this session.  They still
        hold if an incremental response leaves the partition out."""

    @property
    def is_incremental(self) -> bool:
        """Whether the next fetch, or the one in flight, names only changes."""
        return self._epoch > FULL

    def fill(
        self,
        request: FetchRequest,
        wanted: dict[SessionKey, FetchPartition],
        *,
        has_ids: bool,
        changed: dict[SessionKey, FetchPartition] | None = None,
    ) -> None:
        """Fill in the partitions of the request, without those that the session already has.

        `changed` has the changed entries, if `wanted` is the same dictionary object as in the last call.
        """
        if not has_ids:  # the session is by name, so an id that becomes known must not change the key
            wanted = {(topic, ZERO_UUID, number): entry for (topic, _, number), entry in wanted.items()}
        named: Iterable[tuple[SessionKey, FetchPartition]] = wanted.items()
        if self._epoch > FULL and has_ids == self._has_ids and changed is not None and wanted is self._known:
            named = changed.items()
        elif self._epoch > FULL and has_ids == self._has_ids:
            known = self._known
            # An unchanged entry is usually the same object.
            news = [
                (key, entry)
                for key, entry in wanted.items()
                if (before := known.get(key)) is not entry and before != entry
            ]
            forgotten = [] if known.keys() <= wanted.keys() else [key for key in known if key not in wanted]
            if forgotten and _is_any_recreated(forgotten, news):
                self._epoch = FULL
            else:
                named = news
                request.forgotten_topics_data = _forgotten(forgotten) if forgotten else []
                for topic, _, number in forgotten:
                    self.ends.pop((topic, number), None)
        elif self._epoch > FULL:
            self._epoch = FULL
        if self._epoch <= FULL:
            self.ends.clear()
        request.topics = _by_topic(named)
        self._known, self._has_ids = wanted, has_ids
        request.session_id, request.session_epoch = self._id, self._epoch

    def on_answer(self, session_id: int) -> None:
        """Handle a response without an error; `session_id` is 0 if the broker created no session."""
        if self._epoch == SESSIONLESS:
            return
        if session_id == NO_SESSION:
            self._id, self._epoch = NO_SESSION, FULL
        elif self._epoch == FULL:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = self._epoch + 1 if self._epoch < LAST_EPOCH else 1

    def on_partition(self, partition: tuple[str, int], response: PartitionData) -> None:
        """Remember the ends of a partition's log; after an error the broker sends them again."""
        if response.error_code:
            self.ends.pop(partition, None)
        elif self._epoch > FULL:
            self.ends[partition] = response.high_watermark, response.last_stable_offset

    def on_failure(self, error: Exception) -> None:
        """Handle an error or a missing response: send a full fetch, as the broker's state is unknown."""
        if isinstance(error, FetchSessionIdNotFound):
            self._id = NO_SESSION
        if self._is_wanted:
            self._epoch = FULL


def _by_topic(named: Iterable[tuple[SessionKey, FetchPartition]]) -> list[FetchTopic]:
    by_topic: dict[tuple[str, bytes], list[FetchPartition]] = {}
    for (topic, topic_id, _), entry in named:
        by_topic.setdefault((topic, topic_id), []).append(entry)
    return [
        FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)
        for (topic, topic_id), partitions in by_topic.items()
    ]


def _is_any_recreated(
    forgotten: Iterable[SessionKey], changed: Iterable[tuple[SessionKey, FetchPartition]]
) -> bool:
    """Return whether a partition is both forgotten and fetched under another topic id.

    A broker that identifies topics by name adds the fetched partitions first and then removes the forgotten
    ones, so it would remove such a partition.
    """
    gone = {(topic, number) for topic, _, number in forgotten}
    return bool(gone) and any((topic, number) in gone for (topic, _, number), _ in changed)


def _forgotten(keys: Iterable[SessionKey]) -> list[ForgottenTopic]:
    by_topic: dict[tuple[str, bytes], list[int]] = {}
    for topic, topic_id, number in keys:
        by_topic.setdefault((topic, topic_id), []).append(number)
    return [
        ForgottenTopic(topic=topic, topic_id=topic_id, partitions=numbers)
        for (topic, topic_id), numbers in by_topic.items()
    ]
