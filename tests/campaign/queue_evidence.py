"""The ledger of share groups: the deliveries and acknowledgements of each record, in their order.

Observed at the share partitions of the leaders, by wrapping what acquires and what acknowledges: a delivery
counts also if its response is lost.  `confirmed_on_the_wire` has what the members saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import attrs

from pykafka2.broker.share.acquired import AcquiredRange
from pykafka2.broker.share.share_partition import Acknowledgement, SharePartition
from pykafka2.broker.share.state_changes import ACCEPT, REJECT, RENEW
from pykafka2.errors import BrokerError, InvalidRecordState, InvalidRequest

if TYPE_CHECKING:
    from pykafka2.broker.share.manager import SharePartitionManager
    from pykafka2.broker.share.sessions import ShareSession
    from pykafka2.testing.simulation.world import World

FINAL = (ACCEPT, REJECT)
"""Acknowledgements after which a record is not delivered again."""


class RecordKey(NamedTuple):
    """A record in a share group."""

    group: str
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset} in {self.group}"


@attrs.define(eq=False)
class Delivery:
    """A record was acquired for a member."""

    number: int
    """In the order of all deliveries and acknowledgements."""
    at: float
    member: str
    count: int
    until: float
    """When its lock ends; a confirmed renewal extends it."""
    broker: int
    share: SharePartition
    session: ShareSession | None
    is_current: bool
    """Whether the broker was the leader, also in the view of the controller."""
    has_open_predecessor: bool
    """Whether the same share partition had delivered it before to a member whose session was still open."""

    def __str__(self) -> str:
        epoch = f"leader epoch {self.share.leader_epoch}{'' if self.is_current else ', outdated'}"
        return f"delivery {self.count} at {self.at:.3f} by broker {self.broker} ({epoch}) to {self.member}"


@attrs.define(eq=False)
class Attempt:
    """A member acknowledged a record, and what became of it."""

    number: int
    at: float
    member: str
    kind: int
    share: SharePartition
    delivery: Delivery | None
    """The last one of the same share partition, to whichever member."""
    is_open: bool
    """Whether the session to which it was delivered was open."""
    response_number: int | None = None
    responded_at: float | None = None
    error: BrokerError | None = None

    @property
    def is_confirmed(self) -> bool:
        return self.responded_at is not None and self.error is None

    @property
    def can_have_happened(self) -> bool:
        """Whether the state can have changed: not if the leader rejected it before it was stored."""
        return not isinstance(self.error, InvalidRecordState | InvalidRequest)

    @property
    def is_by_holder(self) -> bool:
        """Whether the member had the record, and its lock had not ended."""
        return (
            self.delivery is not None
            and self.delivery.member == self.member
            and self.at < self.delivery.until
        )

    def __str__(self) -> str:
        result = (
            "no result"
            if self.responded_at is None
            else f"{self.error or 'confirmed'} at {self.responded_at:.3f}"
        )
        return f"acknowledgement {self.kind} by {self.member} at {self.at:.3f}: {result}"


@attrs.define(eq=False)
class Fate:
    """All that happened to one record in one group."""

    key: RecordKey
    deliveries: list[Delivery] = attrs.field(factory=list)
    attempts: list[Attempt] = attrs.field(factory=list)
    stored: list[tuple[int, int]] = attrs.field(factory=list)
    """From which number on the coordinator must know which delivery count."""

    @property
    def highest_count(self) -> int:
        return max((one.count for one in self.deliveries), default=0)

    def last_of(self, share: SharePartition) -> Delivery | None:
        """The last delivery by one share partition."""
        return next((one for one in reversed(self.deliveries) if one.share is share), None)

    def confirmed(self, *kinds: int) -> list[Attempt]:
        """Confirmed acknowledgements of these kinds, by members that had the record."""
        return [one for one in self.attempts if one.kind in kinds and one.is_confirmed and one.is_by_holder]

    def can_be(self, *kinds: int) -> bool:
        """Whether it can have been acknowledged so, confirmed or not."""
        return any(one.kind in kinds and one.can_have_happened for one in self.attempts)

    def __str__(self) -> str:
        events: list[Delivery | Attempt] = [*self.deliveries, *self.attempts]
        story = "".join(f"\n  {one}" for one in sorted(events, key=lambda one: one.number))
        return f"{self.key}:{story}"


class Ledger:
    """The fates of all records. `lock_seconds` is the lock duration of each group."""

    def __init__(self, world: World, lock_seconds: dict[str, float]) -> None:
        self.fates: dict[RecordKey, Fate] = {}
        self._world = world
        self._lock_seconds = lock_seconds
        self._numbers = count()

    def fate(self, key: RecordKey) -> Fate:
        """The fate of a record, which begins with the first call."""
        fate = self.fates.get(key)
        if fate is None:
            fate = self.fates[key] = Fate(key)
        return fate

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Write down what all share partitions of this process do meanwhile."""
        acquire, acknowledge = SharePartition.acquire, SharePartition.acknowledge

        def acquired(share: SharePartition, member_id: str, *args: Any, **more: Any) -> list[AcquiredRange]:
            ranges = acquire(share, member_id, *args, **more)
            self._delivered(share, member_id, ranges)
            return ranges

        def acknowledged(
            share: SharePartition,
            member_id: str,
            acknowledgements: Iterable[Acknowledgement],
            on_done: Callable[[BrokerError | None, float], object],
            now: float,
        ) -> None:
            batches = list(acknowledgements)
            attempts = self._attempted(share, member_id, batches)

            def done(error: BrokerError | None, at: float) -> None:
                for one in attempts:
                    self._responded(one, error)
                on_done(error, at)

            acknowledge(share, member_id, batches, done, now)

        with (
            patch.object(SharePartition, "acquire", acquired),
            patch.object(SharePartition, "acknowledge", acknowledged),
        ):
            yield

    def note_stored(self, fate: Fate) -> None:
        """From here on the coordinator must know the count of the record's last delivery."""
        fate.stored.append((next(self._numbers), fate.deliveries[-1].count))

    def delivered_since(self, group: str, since: float) -> list[Fate]:
        """The records that a group received after this time."""
        return [
            fate
            for fate in self.fates.values()
            if fate.key.group == group and fate.deliveries and fate.deliveries[-1].at >= since
        ]

    # ------------------------------------------------------------------ what is written down

    def _delivered(self, share: SharePartition, member_id: str, ranges: Iterable[AcquiredRange]) -> None:
        broker, shares = self._place_of(share)
        if shares is None:
            return
        key, now = share.key, self._world.now
        image = self._world.cluster.controller.image.partition(*key.place)
        is_current = image is not None and (image.leader, image.leader_epoch) == (broker, share.leader_epoch)
        session = shares.sessions.get((key.group_id, member_id))
        until = now + self._lock_seconds[key.group_id]
        for one in ranges:
            for offset in range(one.first_offset, one.last_offset + 1):
                fate = self.fate(RecordKey(key.group_id, *key.place, offset))
                last = fate.deliveries[-1] if fate.deliveries else None
                is_taken = last is not None and last.share is share and self._is_open(shares, last)
                fate.deliveries.append(
                    Delivery(
                        next(self._numbers),
                        now,
                        member_id,
                        one.delivery_count,
                        until,
                        broker,
                        share,
                        session,
                        is_current,
                        is_taken,
                    )
                )

    def _attempted(
        self, share: SharePartition, member_id: str, batches: list[Acknowledgement]
    ) -> list[Attempt]:
        _, shares = self._place_of(share)
        attempts = []
        for one in batches:
            for offset in range(one.first_offset, one.last_offset + 1):
                fate = self.fate(RecordKey(share.key.group_id, *share.key.place, offset))
                delivery = fate.last_of(share)
                is_open = shares is not None and delivery is not None and self._is_open(shares, delivery)
                made = Attempt(
                    next(self._numbers),
                    self._world.now,
                    member_id,
                    one.type_of(offset),
                    share,
                    delivery,
                    is_open,
                )
                fate.attempts.append(made)
                attempts.append(made)
        return attempts

    def _responded(self, one: Attempt, error: BrokerError | None) -> None:
        one.response_number, one.responded_at, one.error = next(self._numbers), self._world.now, error
        if one.kind == RENEW and one.is_confirmed and one.is_by_holder and one.delivery is not None:
            seconds = self._lock_seconds[one.share.key.group_id]
            one.delivery.until = max(one.delivery.until, one.at + seconds)

    def _place_of(self, share: SharePartition) -> tuple[int, SharePartitionManager | None]:
        """The broker that has a share partition now."""
        for broker in self._world.cluster.brokers:
            shares = broker.parts.shares_or_none if broker.is_running else None
            if shares is not None and shares.partitions.get(share.key) is share:
                return broker.id, shares
        return -1, None

    @staticmethod
    def _is_open(shares: SharePartitionManager, delivery: Delivery) -> bool:
        key = delivery.share.key.group_id, delivery.member
        return delivery.session is not None and shares.sessions.get(key) is delivery.session


# ---------------------------------------------------------------------- requests and responses


@attrs.define(frozen=True)
class Confirmed:
    """A response to a member: this acknowledgement of a record has happened."""

    key: RecordKey
    member: str
    kind: int
    requested_at: float
    responded_at: float


def confirmed_on_the_wire(world: World) -> Iterator[Confirmed]:
    """Every acknowledgement that a broker has confirmed, from the history of requests."""
    names = world.cluster.controller.image.topic_names
    for api, error_of in (("ShareFetch", "acknowledge_error_code"), ("ShareAcknowledge", "error_code")):
        for entry in world.cluster.history.entries(api):
            request, response = entry.request, entry.response
            if response is None or response.error_code or entry.answered_at is None:
                continue
            results = {
                (topic.topic_id, one.partition_index): getattr(one, error_of)
                for topic in response.responses
                for one in topic.partitions
            }
            for topic in request.topics:
                for one in topic.partitions:
                    if results.get((topic.topic_id, one.partition_index)) != 0:
                        continue
                    for batch in one.acknowledgement_batches:
                        types = batch.acknowledge_types
                        for offset in range(batch.first_offset, batch.last_offset + 1):
                            kind = types[offset - batch.first_offset if len(types) > 1 else 0]
                            key = RecordKey(
                                request.group_id, names[topic.topic_id], one.partition_index, offset
                            )
                            yield Confirmed(
                                key, request.member_id, kind, entry.received_at, entry.answered_at
                            )
