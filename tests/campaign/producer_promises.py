"""Promises of producers, checked against the brokers' logs and produce requests.

Each class is one promise.  Which producer promises what depends on its options: acknowledged records of
acks=all are kept for ever, those of acks=1 as far as they were replicated; with idempotence nothing is
doubled, lost in the middle or out of order.  All look at the same `Evidence`, gathered once at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pykafka2.producer.idempotence import next_sequence
from pykafka2.records.batch import RecordBatch
from pykafka2.testing.simulation.checkers import Checker
from pykafka2.testing.simulation.history import FAILED, OK, Sent
from pykafka2.types import TopicPartition
from tests.campaign.producer_evidence import Evidence, Logged, Numbered, Place, records_of
from tests.campaign.producer_lives import ALL, Life

if TYPE_CHECKING:
    from pykafka2.broker.broker import Broker
    from pykafka2.broker.log.partition_log import PartitionLog
    from pykafka2.testing.simulation.world import World

MOST_QUESTIONS_PER_SECOND = 60
"""For one API and one client: with back-off and three brokers it is ten or twenty."""


class Promise(Checker):
    """A promise of producers: `look` is called once for all, with the evidence."""

    def __init__(self, lives: Mapping[str, Life], evidence: list[Evidence]) -> None:
        self.lives = lives
        self._evidence = evidence

    def finish(self, world: World) -> None:
        if not self._evidence:
            self._evidence.append(Evidence.gather(world))
        self.look(world, self._evidence[0])

    def look(self, world: World, evidence: Evidence) -> None:
        raise NotImplementedError


# ---------------------------------------------------------------------- at least once


class AcknowledgedIsAtItsOffset(Promise):
    """A record acknowledged with acks=all is in the log at the reported offset."""

    def look(self, world: World, evidence: Evidence) -> None:
        at = {place: {one.offset: one.value for one in log} for place, log in evidence.logs.items()}
        for sent in world.history.with_outcome(OK):
            if self.lives[sent.producer].acks != ALL:
                continue
            if sent.offset < 0:
                # A broker that recognises a batch and does not remember its offset any more.
                if sent.value not in at[sent.topic, sent.partition].values():
                    self.fail(f"{sent} was acknowledged and is not in the log")
                continue
            found = at[sent.topic, sent.partition].get(sent.offset)
            if found != sent.value:
                self.fail(f"{sent} was acknowledged at offset {sent.offset}, where the log has {found!r}")


class LogsHoldWhatWasSent(Promise):
    """Nothing is in a log but what was sent there, and nothing whose producer was sure that it is not."""

    def look(self, world: World, evidence: Evidence) -> None:
        for place, log in evidence.logs.items():
            for one in log:
                sent = evidence.sent.get(one.value)
                where = f"{place[0]}-{place[1]} offset {one.offset}"
                if sent is None:
                    self.fail(f"{where} holds {one.value!r}, which was never sent")
                elif (sent.topic, sent.partition) != place:
                    self.fail(f"{where} holds {sent}")
                elif sent.outcome == FAILED:
                    self.fail(f"{where} holds {sent}, whose send failed: {sent.error}")


class CopiesAreAttempts(Promise):
    """A record is not in the log more often than brokers received it, and is not sent more often than
    `retries` allows. A batch that was too large is sent in parts, which does not count as a retry (KIP-126).
    """

    def look(self, world: World, evidence: Evidence) -> None:
        attempts = Counter(
            value for attempt in evidence.attempts if not attempt.is_late for value in attempt.values
        )
        for place in evidence.logs:
            for value, offsets in evidence.offsets(place).items():
                if len(offsets) > attempts[value]:
                    self.fail(f"{value!r} is {len(offsets)} times in the log, sent {attempts[value]} times")
        split = Counter(
            value for attempt in evidence.attempts if attempt.was_too_large for value in attempt.values
        )
        for value, count in (attempts - split).items():
            sent = evidence.sent.get(value)
            retries = self.lives[sent.producer].options.get("retries") if sent is not None else None
            if retries is not None and count > retries + 1:
                self.fail(f"{sent} was sent {count} times with retries={retries}")


class CommittedIsKept(Promise):
    """Records that all in-sync replicas had keep their offset, also if acks=1 needed fewer replicas."""

    def __init__(self, lives: Mapping[str, Life], evidence: list[Evidence]) -> None:
        super().__init__(lives, evidence)
        self._committed: dict[Place, dict[int, RecordBatch]] = {}
        self._marks: dict[tuple[int, Place], int] = {}

    def turned(self, world: World, broker: Broker) -> None:
        # Hot: after every turn of a broker.
        replicas, marks = broker.replicas.replicas, self._marks
        for place in world.partitions():
            replica = replicas.get(place)
            if replica is not None:
                mark = replica.log.high_watermark
                before = marks.get((broker.id, place), 0)
                if mark != before:
                    marks[broker.id, place] = mark
                    if mark > before:
                        self._remember(place, replica.log, before, mark)

    def _remember(self, place: Place, log: PartitionLog, start: int, end: int) -> None:
        committed = self._committed.setdefault(place, {})
        for batch in log.batches(start):
            if batch.next_offset > end:
                return
            known = committed.setdefault(batch.base_offset, batch)
            if known is not batch and known.buffer != batch.buffer:
                self.fail(f"{place}: {batch!r} is committed where {known!r} was before")

    def look(self, world: World, evidence: Evidence) -> None:
        for place, committed in self._committed.items():
            at = {one.offset: one.value for one in evidence.logs[place]}
            for batch in committed.values():
                for offset, value in records_of(batch):
                    if at.get(offset) != value:
                        self.fail(
                            f"{place} offset {offset}: {value!r} was committed, there is {at.get(offset)!r}"
                        )


class NobodyAsksWithoutRest(Promise):
    """Whatever brokers answer, a client asks for metadata, versions and ids with pauses between."""

    def look(self, world: World, evidence: Evidence) -> None:
        attempts: Counter[tuple[str, str, int]] = Counter()
        for entry in world.cluster.history.entries():
            client = entry.client_id or ""
            if entry.api in ("Metadata", "ApiVersions", "InitProducerId") and client in self.lives:
                attempts[client, entry.api, int(entry.received_at)] += 1
        for (client, api, second), count in attempts.items():
            if count > MOST_QUESTIONS_PER_SECOND:
                self.fail(f"{client} sent {count} requests of {api} in the second from {second}")


class WindowsAreKept(Promise):
    """Not more requests wait for answers on a connection than its client may send ahead."""

    def look(self, world: World, evidence: Evidence) -> None:
        for life in self.lives.values():
            if life.acks == 0:
                continue  # no caller waits for answers
            most = world.cluster.history.in_flight_max("Produce", client_id=life.name)
            if most > life.options["max_in_flight_requests_per_connection"]:
                self.fail(f"{life.name} had {most} requests in flight: {life.options}")


class OneInFlightKeepsOrder(Promise):
    """With a window of one, acknowledged records lie in the order of sending also without idempotence."""

    def look(self, world: World, evidence: Evidence) -> None:
        for life in self.lives.values():
            if life.acks != ALL or life.options["max_in_flight_requests_per_connection"] != 1:
                continue
            last: dict[Place, Sent] = {}
            for sent in life.sent:
                if sent.outcome == OK and sent.offset >= 0:
                    before = last.get((sent.topic, sent.partition))
                    if before is not None and before.offset >= sent.offset:
                        self.fail(f"{sent} at {sent.offset} comes behind {before} at {before.offset}")
                    last[sent.topic, sent.partition] = sent


# ---------------------------------------------------------------------- with idempotence


class IdempotentPromise(Promise):
    """A promise of those producers that number their batches."""

    def look(self, world: World, evidence: Evidence) -> None:
        for life in self.lives.values():
            if life.is_idempotent:
                for place in evidence.logs:
                    self.look_at(life, TopicPartition(*place), evidence)

    def look_at(self, life: Life, place: TopicPartition, evidence: Evidence) -> None:
        raise NotImplementedError

    def of(self, life: Life, place: TopicPartition, evidence: Evidence) -> list[tuple[Sent, Logged]]:
        """This producer's records in the log, in log order."""
        return [
            (sent, logged)
            for logged in evidence.logs[place]
            if (sent := evidence.sent.get(logged.value)) is not None and sent.producer == life.name
        ]


class NothingIsDoubled(IdempotentPromise):
    """A record is in the log once at most."""

    def look_at(self, life: Life, place: TopicPartition, evidence: Evidence) -> None:
        seen: dict[int, Logged] = {}
        for sent, logged in self.of(life, place, evidence):
            first = seen.setdefault(sent.number, logged)
            if first is not logged:
                self.fail(f"{place}: {sent} is at {first.offset} and at {logged.offset}")


class OrderIsKept(IdempotentPromise):
    """Records are in the log in the order in which they were sent."""

    def look_at(self, life: Life, place: TopicPartition, evidence: Evidence) -> None:
        last = -1
        for sent, logged in self.of(life, place, evidence):
            if sent.number < last:
                self.fail(f"{place} offset {logged.offset}: {sent} comes behind number {last}")
            last = sent.number


class HolesEndAnEpoch(IdempotentPromise):
    """If a record is missing between two others of its producer, its send did not succeed. If a broker has
    received it at all, the records after it were written in a later epoch, so the missing one cannot arrive
    late.
    """

    def look_at(self, life: Life, place: TopicPartition, evidence: Evidence) -> None:
        there = self.of(life, place, evidence)
        present = {sent.number for sent, _ in there}
        numbers = {
            value: attempt.number[:2]
            for attempt in evidence.attempts
            if attempt.client == life.name and attempt.place == place
            for value in attempt.values
        }
        for sent in life.sent:
            if (sent.topic, sent.partition) != place or sent.number in present:
                continue
            if sent.outcome == OK:
                self.fail(f"{place}: {sent} was acknowledged and is missing")
            under = numbers.get(sent.value)
            after = next((logged for later, logged in there if later.number > sent.number), None)
            if under is not None and after is not None and after.number[:2] == under:
                self.fail(
                    f"{place}: {sent} is missing, and offset {after.offset} follows under the same {under}"
                )


class NumbersHaveNoGaps(IdempotentPromise):
    """In each epoch the batches of a partition are numbered from 0 on, without a gap."""

    def look_at(self, life: Life, place: TopicPartition, evidence: Evidence) -> None:
        expected: dict[tuple[int, int], int] = {}
        before: Numbered | None = None
        for sent, logged in self.of(life, place, evidence):
            epoch, first = logged.number[:2], logged.number[2]
            if logged.number != before and first != expected.get(epoch, 0):
                self.fail(
                    f"{place} offset {logged.offset}: {sent} has sequence {first} of {epoch}, "
                    f"{expected.get(epoch, 0)} is next"
                )
            expected[epoch] = next_sequence(expected.get(epoch, 0), 1)
            before = logged.number


class RetriesAreIdentical(Promise):
    """A sequence number always carries the same bytes, unless the batch was too large and is split."""

    def look(self, world: World, evidence: Evidence) -> None:
        # The bytes under a number, and those of its batch before it was split: a copy of that may come late.
        known: dict[tuple[str, Place, Numbered], set[bytes]] = {}
        split: set[tuple[str, Place, Numbered]] = set()
        for attempt in evidence.attempts:
            if attempt.number[0] < 0:
                continue
            key = (attempt.client, attempt.place, attempt.number)
            known_data = known.setdefault(key, {attempt.data})
            if attempt.data not in known_data:
                if key not in split:
                    self.fail(
                        f"{attempt.client} {attempt.place}: other bytes under {attempt.number}: "
                        f"{attempt.values}"
                    )
                split.remove(key)
                known_data.add(attempt.data)
            if attempt.was_too_large:
                split.add(key)


PROMISES: Sequence[Any] = (
    AcknowledgedIsAtItsOffset,
    LogsHoldWhatWasSent,
    CopiesAreAttempts,
    CommittedIsKept,
    NobodyAsksWithoutRest,
    WindowsAreKept,
    OneInFlightKeepsOrder,
    NothingIsDoubled,
    OrderIsKept,
    HolesEndAnEpoch,
    NumbersHaveNoGaps,
    RetriesAreIdentical,
)


def promises_of(lives: Mapping[str, Life]) -> list[Promise]:
    """One of each; `lives` are the producers by name, and may grow."""
    evidence: list[Evidence] = []
    return [promise(lives, evidence) for promise in PROMISES]
