"""A share partition against a simple model: random members, locks, failures of the coordinator, restarts.

After every step: no record is held by two members, none is delivered after it has ended or more often than
the limit, and the counts are those of the model. At the end every record has been accepted or archived.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pykafka2.errors import BrokerError, CoordinatorNotAvailable
from tests.broker.share.bench import Bench, log_of
from tests.broker.share.test_share_partition import ACCEPT, GAP, REJECT, RELEASE, RENEW
from tests.gate import examples

LIMIT = 3
LOCK = 30.0
MEMBERS = ("a", "b", "c")
MEMBER = st.sampled_from(MEMBERS)
TYPES = st.sampled_from((GAP, ACCEPT, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, RENEW))


@attrs.define
class Held:
    """A record that a member holds until then."""

    member: str
    until: float


class ShareModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, Held] = {}
        self.counts: dict[int, int] = {}
        self.stored: dict[int, int] = {}
        self.ended: set[int] = set()
        self.archived_unstored: set[int] = set()

    @initialize(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8), locks=st.integers(3, 40))
    def start(self, sizes: list[int], locks: int) -> None:
        self.size = sum(sizes)
        self.bench = Bench(*log_of(*sizes), delivery_limit=LIMIT, max_record_locks=locks)

    # ------------------------------------------------------------------ the model

    def _release(self, offset: int, *, is_stored: bool) -> None:
        del self.held[offset]
        if self.counts[offset] >= LIMIT:
            (self.ended if is_stored else self.archived_unstored).add(offset)
        if is_stored:
            self.stored[offset] = self.counts[offset]

    @property
    def _is_failing(self) -> bool:
        return bool(self.bench.coordinator.error_code)

    # ------------------------------------------------------------------ what happens

    @rule(member=MEMBER, count=st.integers(1, 9), size=st.integers(-1, 9), strict=st.booleans())
    def acquire(self, member: str, count: int, size: int, strict: bool) -> None:
        acquired = self.bench.acquire(member, count, batch_size=size, strict=strict)
        got = [offset for one in acquired for offset in range(one.first_offset, one.last_offset + 1)]
        assert got == sorted(set(got))
        assert not strict or len(got) <= count
        for one in acquired:
            for offset in range(one.first_offset, one.last_offset + 1):
                assert offset not in self.ended, "it has ended"
                assert offset not in self.archived_unstored
                assert offset not in self.held, "another member holds it"
                assert one.delivery_count == self.counts.get(offset, 0) + 1 <= LIMIT
                self.counts[offset] = one.delivery_count
                self.held[offset] = Held(member, self.bench.now + LOCK)

    @rule(member=MEMBER, data=st.data())
    def acknowledge(self, member: str, data: st.DataObject) -> None:
        mine = sorted(offset for offset, held in self.held.items() if held.member == member)
        if not mine:
            return
        first = data.draw(st.sampled_from(mine))
        last = first
        while last + 1 in mine and data.draw(st.booleans()):
            last += 1
        count = last - first + 1
        types = [data.draw(TYPES)] if data.draw(st.booleans()) else [data.draw(TYPES) for _ in range(count)]
        result = self.bench.acknowledge(first, last, *types, member_id=member)
        self._check(result, types)
        per_offset = types * count if len(types) == 1 else types
        for offset, kind in zip(range(first, last + 1), per_offset, strict=True):
            if kind == RENEW:
                self.held[offset].until = self.bench.now + LOCK
            elif result == [None]:
                self._apply(offset, kind)

    def _apply(self, offset: int, kind: int) -> None:
        if kind == RELEASE:
            self._release(offset, is_stored=True)
        else:
            del self.held[offset]
            self.ended.add(offset)

    def _check(self, result: Sequence[BrokerError | None], types: Sequence[int]) -> None:
        is_written = any(kind != RENEW for kind in types)
        if self._is_failing and is_written:
            assert isinstance(result[0], CoordinatorNotAvailable)
        else:
            assert result == [None]

    @rule(member=MEMBER, other=MEMBER, first=st.integers(0, 40), count=st.integers(1, 5))
    def acknowledge_what_is_not_held(self, member: str, other: str, first: int, count: int) -> None:
        if any(
            offset in self.held and self.held[offset].member == member
            for offset in range(first, first + count)
        ):
            return
        before = self.bench.states
        self.bench.acknowledge(first, first + count - 1, ACCEPT, member_id=member)
        assert self.bench.states == before

    @rule(member=MEMBER)
    def leave(self, member: str) -> None:
        self.bench.leave(member)
        if not self._is_failing:
            for offset in [offset for offset, held in self.held.items() if held.member == member]:
                self._release(offset, is_stored=True)

    @rule(seconds=st.sampled_from((1.0, 10.0, 31.0)))
    def wait(self, seconds: float) -> None:
        self.bench.wait(seconds)
        for offset, held in list(self.held.items()):
            if held.until <= self.bench.now:
                self._release(offset, is_stored=not self._is_failing)

    @rule()
    def fail_writes(self) -> None:
        self.bench.coordinator.error_code = CoordinatorNotAvailable.code or 0

    @rule()
    def recover(self) -> None:
        self.bench.coordinator.error_code = 0

    @rule()
    def elect_another_leader(self) -> None:
        self.recover()
        self.bench.restart()
        assert self.bench.load_errors == [None]
        self.held.clear()
        self.archived_unstored.clear()
        self.counts = dict(self.stored)

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def states_are_those_of_the_model(self) -> None:
        if not hasattr(self, "bench"):
            return
        start, _ = self.bench.window
        ended = self.ended | self.archived_unstored
        assert set(range(start)) <= ended
        for offset, state, count in self.bench.states:
            if offset in ended:
                assert state in ("ACKNOWLEDGED", "ARCHIVED"), (offset, state)
            elif offset in self.held:
                assert (state, count) == ("ACQUIRED", self.counts[offset])
            else:
                assert (state, count) == ("AVAILABLE", self.counts.get(offset, 0)), offset

    @invariant()
    def completed_count_is_that_of_ended_records_in_the_window(self) -> None:
        if hasattr(self, "bench"):
            ended = sum(state in ("ACKNOWLEDGED", "ARCHIVED") for _, state, _ in self.bench.states)
            assert self.bench.partition.records.completed_count == ended

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        self.recover()
        self.wait(31.0)
        for _ in range(4 * self.size):
            acquired = self.bench.acquire("a", 5)
            if not acquired:
                break
            for one in acquired:
                result = self.bench.acknowledge(one.first_offset, one.last_offset, ACCEPT, member_id="a")
                assert result == [None]
                self.ended.update(range(one.first_offset, one.last_offset + 1))
        assert self.ended | self.archived_unstored == set(range(self.size))


ShareModel.TestCase.settings = settings(
    max_examples=examples(80), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestShareModel = pytest.mark.gate(ShareModel.TestCase)
