"""The checkers of the scenario `queues`: what must hold for share groups, whatever happened.

Each record is accepted once, or rejected once, or archived after exactly the delivery limit; with a
dead-letter topic the last two are in it.  No record is held by two members.  They compare the ledger
(queue_evidence.py), the requests and responses, the dead-letter topic, and what the applications know
(queue_work.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from pykafka2.broker.share.state_changes import (
    ACCEPT,
    LIMIT_REACHED,
    REJECT,
    REJECTED,
    RELEASE,
    RENEW,
)
from pykafka2.testing.simulation.checkers import Checker
from tests.campaign.queue_evidence import (
    FINAL,
    Delivery,
    Fate,
    Ledger,
    RecordKey,
    confirmed_on_the_wire,
)
from tests.campaign.queue_work import Diary

if TYPE_CHECKING:
    from pykafka2.testing.simulation.world import World

MARGIN = 0.01
"""Seconds by which a timer can be early."""

MOST_ENTRIES = 10_000
"""The history drops the oldest entries beyond this number."""

HEADER = "__dlq.errors."


@attrs.define(frozen=True)
class GroupRules:
    """The options of one share group."""

    lock_seconds: float
    delivery_limit: int
    dead_letter_topic: str = ""
    """Empty without one."""
    copies_records: bool = False
    """Whether dead letters have key and value of their record."""


Rules = Mapping[str, GroupRules]
"""By group."""


class RecordHasOneHolder(Checker):
    """A leader delivers a record again only after its lock, its session or its acknowledgement."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def finish(self, world: World) -> None:
        for fate in self._ledger.fates.values():
            for before, after in zip(fate.deliveries, fate.deliveries[1:], strict=False):
                if after.has_open_predecessor and self._is_held(fate, before, after):
                    self.fail(f"{before} still held the record at the {after}; {fate}")

    @staticmethod
    def _is_held(fate: Fate, before: Delivery, after: Delivery) -> bool:
        """Whether nothing but a renewal or a rejected acknowledgement of the first member was in between."""
        for one in fate.attempts:
            if one.delivery is not before or one.number > after.number or one.member != before.member:
                continue
            was_refused = one.error is not None and (one.response_number or 0) < after.number
            if one.kind != RENEW and not was_refused:
                return False
        return after.at < before.until - MARGIN


class OnlyHoldersAcknowledge(Checker):
    """No acknowledgement is confirmed while another member holds the record."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def finish(self, world: World) -> None:
        for fate in self._ledger.fates.values():
            for one in fate.attempts:
                holder = one.delivery
                if not one.is_confirmed or holder is None or holder.member == one.member or not one.is_open:
                    continue
                is_over = any(
                    other.member == holder.member and other.delivery is holder and other.number < one.number
                    for other in fate.attempts
                )
                if one.at < holder.until - MARGIN and not is_over:
                    self.fail(f"the {one} was confirmed; {fate}")


class EndedStaysEnded(Checker):
    """A record is not delivered after its accept or reject was confirmed, and accepted or rejected once.

    A broker that does not yet know that another one leads the partition can deliver it.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def finish(self, world: World) -> None:
        for fate in self._ledger.fates.values():
            ended = fate.confirmed(*FINAL)
            for one in ended:
                for delivery in fate.deliveries:
                    if delivery.is_current and delivery.number > (one.response_number or 0):
                        self.fail(f"{delivery} after the {one}; {fate}")
            if len({one.delivery for one in ended}) > 1:
                self.fail(f"it ended {len(ended)} times; {fate}")


class CountsGrowByOne(Checker):
    """A delivery count is one more than before, from 1 to the limit.

    A new leader knows at least the counts of confirmed releases; a delivery that did not end is not stored.
    """

    def __init__(self, ledger: Ledger, rules: Rules) -> None:
        self._ledger, self._rules = ledger, rules

    def finish(self, world: World) -> None:
        for fate in self._ledger.fates.values():
            limit = self._rules[fate.key.group].delivery_limit
            highest = 0
            known: dict[object, int] = {}
            for one in fate.deliveries:
                if not 1 <= one.count <= limit:
                    self.fail(f"{one}, and the limit is {limit}; {fate}")
                before = known.get(one.share)
                least = self._stored(fate, one) if before is None else before
                if before is not None and one.count != before + 1:
                    self.fail(f"{one} after count {before}; {fate}")
                if one.count > highest + 1 or (one.is_current and one.count <= least):
                    self.fail(f"{one} with {least} stored and {highest} delivered; {fate}")
                highest = max(highest, one.count)
                known[one.share] = one.count

    @staticmethod
    def _stored(fate: Fate, delivery: Delivery) -> int:
        """The highest count that the coordinator confirmed before a delivery."""
        counts = [count for number, count in fate.stored if number < delivery.number]
        counts += [
            one.delivery.count
            for one in fate.confirmed(RELEASE)
            if (one.response_number or 0) < delivery.number and one.delivery is not None
        ]
        return max(counts, default=0)


class EveryRecordEnds(Checker):
    """Each record of the log was accepted, rejected, or delivered as often as the group's limit allows."""

    def __init__(self, ledger: Ledger, rules: Rules, topic: str) -> None:
        self._ledger, self._rules, self._topic = ledger, rules, topic

    def finish(self, world: World) -> None:
        for group, rules in self._rules.items():
            for number in range(world.topics[self._topic]):
                for offset, _ in world.records(self._topic, number):
                    fate = self._ledger.fate(RecordKey(group, self._topic, number, offset))
                    if not fate.can_be(*FINAL) and fate.highest_count != rules.delivery_limit:
                        self.fail(f"delivered {fate.highest_count} times of {rules.delivery_limit}; {fate}")


class DeadLettersAreComplete(Checker):
    """Rejected records and those that reached the limit are in the dead-letter topic, and no others."""

    def __init__(self, ledger: Ledger, rules: Rules) -> None:
        self._ledger, self._rules = ledger, rules

    def finish(self, world: World) -> None:
        letters = self._letters(world)
        for key, fate in self._ledger.fates.items():
            rules = self._rules[key.group]
            if not rules.dead_letter_topic:
                continue
            found = letters.pop(key, [])
            at_limit = fate.highest_count >= rules.delivery_limit
            must_be = bool(fate.confirmed(REJECT)) or (at_limit and not fate.can_be(*FINAL))
            if must_be and not found:
                self.fail(f"no dead letter; {fate}")
            if found and not at_limit and not fate.can_be(REJECT):
                self.fail(f"dead letters {found}; {fate}")
            counts = {one.count for one in fate.deliveries}
            values = {value for _, _, value in found}
            original = self._original(world, key)
            # A broker that no longer leads cannot copy the record; the next leader sends another letter.
            if found and (original not in values or values - {original, None}):
                self.fail(f"dead letters with {values} instead of {original!r}; {fate}")
            for count, cause, _ in found:
                is_right = cause == LIMIT_REACHED and count == rules.delivery_limit
                if not is_right and not (cause == REJECTED and fate.can_be(REJECT) and count in counts):
                    self.fail(f"a dead letter has the delivery count {count} and {cause!r}; {fate}")
        if letters:
            self.fail(f"dead letters of other records: {sorted(letters)}")

    def _letters(self, world: World) -> dict[RecordKey, list[tuple[int, str, bytes | None]]]:
        """Delivery count, cause and value of each dead letter, by the record that it names."""
        found: dict[RecordKey, list[tuple[int, str, bytes | None]]] = {}
        for topic in sorted({rules.dead_letter_topic for rules in self._rules.values()} - {""}):
            for number in range(world.topics[topic]):
                for record in world.cluster.log(topic, number).records():
                    at = {
                        name.removeprefix(HEADER): (value or b"").decode() for name, value in record.headers
                    }
                    key = RecordKey(at["group"], at["topic"], int(at["partition"]), int(at["offset"]))
                    letter = int(at["delivery.count"]), at["message"], record.value
                    found.setdefault(key, []).append(letter)
        return found

    def _original(self, world: World, key: RecordKey) -> bytes | None:
        """The value that a dead letter of a record has."""
        if not self._rules[key.group].copies_records:
            return None
        return dict(world.records(key.topic, key.partition)).get(key.offset)


class ConfirmedMeansApplied(Checker):
    """An acknowledgement that a response confirms was confirmed by the share partition before."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def finish(self, world: World) -> None:
        if len(world.cluster.history) >= MOST_ENTRIES:
            self.fail("the history has dropped entries, so it proves nothing")
        for seen in confirmed_on_the_wire(world):
            fate = self._ledger.fate(seen.key)
            if not any(
                one.is_confirmed
                and (one.member, one.kind) == (seen.member, seen.kind)
                and seen.requested_at <= one.at <= seen.responded_at
                for one in fate.attempts
            ):
                self.fail(f"{seen}; {fate}")


class ClientsKeepTheirWord(Checker):
    """Members acknowledge what their applications decided, and report what the brokers confirmed."""

    def __init__(self, ledger: Ledger, diary: Diary) -> None:
        self._ledger, self._diary = ledger, diary

    def finish(self, world: World) -> None:
        decided = self._diary.decisions
        for key, fate in self._ledger.fates.items():
            for one in fate.attempts:
                if one.kind in FINAL and (one.member, one.kind) not in decided.get(key, ()):
                    self.fail(f"the application did not decide on the {one}; {fate}")
        for member, key in self._diary.confirmed:
            fate = self._ledger.fate(key)
            if not any(one.member == member and one.is_confirmed for one in fate.attempts):
                self.fail(f"{member} reported a confirmation; {fate}")


def summary(ledger: Ledger) -> dict[str, int]:
    """How many records came to which end."""
    fates = ledger.fates.values()
    return {
        "deliveries": sum(len(fate.deliveries) for fate in fates),
        "accepted": sum(bool(fate.confirmed(ACCEPT)) for fate in fates),
        "rejected": sum(bool(fate.confirmed(REJECT)) for fate in fates),
        "at the limit": sum(not fate.can_be(*FINAL) for fate in fates),
    }
