"""Work of an application as a member of a group while faults happen, and the outcomes it sees.

Blocking code: each application is an actor with one consumer after another, made with options drawn from the
seed. It checks here what it can see itself: calls end in time, listener calls come in pairs, callbacks come
once and in order, and a member that does not poll is removed. consumer_promises.py checks what only the
brokers can see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.errors import (
    CommitFailed,
    FencedInstanceId,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    RebalanceInProgress,
    RetriableCommitFailed,
    UnknownTopicOrPartition,
)
from pykafka2.testing.simulation.world import GROUP_ID
from pykafka2.types import ConsumerRecord, OffsetAndMetadata, TopicPartition
from tests.campaign.consumer_lives import (
    ASYNCHRONOUS,
    BLOCKING,
    CRASHED,
    LOST,
    MARKED,
    RETURNED,
    REVOKED,
    ExpectedCommit,
    Handed,
    Holding,
    Life,
)

if TYPE_CHECKING:
    from pykafka2.testing.simulation.sync import SimEvent
    from pykafka2.testing.simulation.world import World

# Virtual seconds that a call may take beyond its timeout.
MARGIN = 1.0
POLL_MS = (0, 50, 200, 500)
READS = ("poll", "next")
CLOSE_TIMEOUT = 5.0

# What faults may have a call raise; anything else is the client's own mistake.
PASSING_IN_READS = (FencedInstanceId,)
"""`poll` and iteration wait for brokers and topics, however long."""
PASSING_IN_CALLS = (KafkaTimeoutError, NoBrokersAvailable, UnknownTopicOrPartition, FencedInstanceId)
PASSING_IN_COMMITS = (
    CommitFailed,
    RetriableCommitFailed,
    RebalanceInProgress,
    KafkaTimeoutError,
    FencedInstanceId,
    NoBrokersAvailable,
)

Offsets = dict[TopicPartition, OffsetAndMetadata]
Plan = Mapping[str, float]
"""For how many seconds faults stop which client."""


@attrs.define(frozen=True)
class Habits:
    """How one application lives; drawn from the seed."""

    name: str
    topics: tuple[str, ...]
    pattern: str | None
    """Instead of the topics, which are those that it names at first."""
    way: str
    options: Sequence[dict[str, Any]]
    """One after another, a consumer is made with each of these, if it comes to that."""
    iterates: bool = False
    seeks: bool = False
    is_restless: bool = False
    """Its consumers are closed, killed, unsubscribed and stalled all the time."""


class Application:
    """Reads its share of the topics until stopped, with one consumer after another."""

    def __init__(self, world: World, stop: SimEvent, done: SimEvent, seed: str, habits: Habits) -> None:
        self._world = world
        self._stop = stop
        self._done = done
        self._random = Random(seed)
        self.habits = habits
        self.lives: list[Life] = []
        self.problems: list[tuple[str, str]] = []
        """Which promise was broken, and how."""
        self.pauses: Plan = {}
        self.wants_restart = False
        """At the end: the story has it close its consumer and make another."""
        self.computes = 0.0
        """At the end: for so many seconds the story has it compute without a poll, and stay a member."""
        self.is_at_peace = False
        """Set once the faults are over; from then on it skips no step."""
        self.uncommitted: set[TopicPartition] = set()
        """Partitions that it gave up, without a fault, during a rebalance that others began. It got an error
        for the commit then, as in Apache Kafka.
        """
        self._in_listener = ""
        self._listened = 0.0
        """Seconds that listeners took in the call that is being made."""
        self._fenced = False
        self._has_news = False
        """Something was handed over since the last commit."""
        self._handed = 0
        """Records, to all of its consumers."""
        self._begin()

    @property
    def life(self) -> Life:
        return self.lives[-1]

    def run(self) -> None:
        """The actor's body."""
        self._subscribe()
        while not self._stop.is_set():
            self._live()
            self._rest(self._random.choice([0.0, 0.02, 0.1, 0.4]))
        self.is_at_peace = True
        if self.life.is_over:
            self._begin()
            self._subscribe()
        self._call("resume", 0.0, lambda: self.life.consumer.resume(*self.life.held))
        while not self._done.is_set():
            if self.wants_restart:
                self.close(CLOSE_TIMEOUT)
                self._begin()
                self._subscribe()
                self.wants_restart = False
            if self.computes:
                self._compute()
            self._read(200)
            if self._has_news:
                self._commit()
            if self._fenced:
                self._end_of_fenced()
        self.close(CLOSE_TIMEOUT)

    # ------------------------------------------------------------------ one consumer after another

    def _begin(self) -> None:
        habits, simulation = self.habits, self._world.simulation
        drawn = options = habits.options[min(len(self.lives), len(habits.options) - 1)]
        if habits.way == ASYNCHRONOUS:
            options = {**drawn, "default_offset_commit_callback": lambda offsets, error: None}
        consumer = simulation.consumer(self._world.cluster, group_id=GROUP_ID, **options)
        self.lives.append(Life(simulation.last_client, options, consumer, habits.way, habits.topics))
        # A note is part of the trace, so it says nothing that has an address in it.
        simulation.note(f"{habits.name} begins as {simulation.last_client}: {habits.way}, {drawn}")
        self._world.clients.append(simulation.last_client)
        self._world.consumers.append(consumer)
        self._fenced = False

    def _subscribe(self) -> None:
        habits, consumer = self.habits, self.life.consumer
        if habits.pattern is not None:
            self._call("subscribe", 0.0, lambda: consumer.subscribe(pattern=habits.pattern, listener=self))
        else:
            self._call("subscribe", 0.0, lambda: consumer.subscribe(list(habits.topics), listener=self))

    def close(self, timeout: float) -> None:
        life = self.life
        if life.is_over:
            return
        self._come_back()
        self._call("close", timeout, lambda: life.consumer.close(timeout=timeout))
        self._end_life(RETURNED)
        for attempt in life.commits:
            if attempt.told_at is None:
                self._complain("CallsKeepTheirWord", f"{life.name} was closed, and {attempt} had no outcome")

    def _end_life(self, how: str) -> None:
        life = self.life
        if how == RETURNED and life.held:
            self._complain("ListenersArePaired", f"{life.name} was closed and still holds {list(life.held)}")
        life.end(list(life.held), how, self._world.now)
        life.is_over = True
        self._world.clients.remove(life.name)
        self._world.consumers.remove(life.consumer)

    def _crash(self) -> None:
        """End like a process that is killed."""
        self._world.simulation.note(f"{self.life.name} crashes")
        self.life.consumer._core.cluster.close(0)
        self._end_life(CRASHED)

    def _end_of_fenced(self) -> None:
        """Another member, or a request that came late, took the place of this static member."""
        self.close(CLOSE_TIMEOUT)
        self._begin()
        self._subscribe()

    # ------------------------------------------------------------------ while faults happen

    def _live(self) -> None:
        random, restless = self._random, self.habits.is_restless
        if self.life.is_over or self._fenced:
            if not self.life.is_over:
                self.close(CLOSE_TIMEOUT)
            self._rest(random.choice([0.0, 0.5, 2.0]))
            self._begin()
            self._subscribe()
        chance = random.random()
        if restless and chance < 0.06 and len(self.lives) < len(self.habits.options):
            if random.random() < 0.5:
                self._crash()
                return
            self.close(random.choice([0.0, 0.3, CLOSE_TIMEOUT]))
        elif restless and chance < 0.08:
            self._leave_and_return()
        elif chance < 0.1:
            self._stall()
        elif chance < 0.12:
            self._call("enforce_rebalance", 0.0, self.life.consumer.enforce_rebalance)
        elif chance < 0.16:
            self._ask()
        elif chance < 0.22:
            self._pause_or_resume()
        elif chance < 0.26 and self.habits.seeks:
            self._seek()
        else:
            self._read(random.choice(POLL_MS))
            if random.random() < (0.7 if self._has_news else 0.1):
                self._commit()

    def _stall(self) -> None:
        """Compute for so long that the group may not wait; at once it must be out of it then."""
        life, limit = self.life, self.life.options["max_poll_interval_ms"] / 1000
        began = self._world.now
        self._rest(limit * self._random.choice([0.5, 1.0, 1.5]))
        overrun = self._world.now - began - limit - self._allowance()
        state = life.consumer.health()["group"]["state"]
        if overrun > MARGIN and state in ("stable", "must join", "syncing"):
            self._complain(
                "WhoDoesNotPollLeaves",
                f"{life.name} did not poll for {overrun + limit:.1f} s of {limit} and is {state!r}",
            )

    def _compute(self) -> None:
        """Take less than the group waits for, and longer than a session without heartbeats lasts."""
        life = self.life
        before = life.consumer.group_metadata().member_id
        self._world.simulation.sleep(self.computes)
        for _ in range(2):
            self._read(200)  # which tells whether it was put out
        after = life.consumer.group_metadata().member_id
        if before != after:
            self._complain("HeartbeatsGoOn", f"{life.name} computed for {self.computes} s: {before}, {after}")
        self.computes = 0.0

    def _leave_and_return(self) -> None:
        life = self.life
        self._come_back()
        self._call("unsubscribe", CLOSE_TIMEOUT, life.consumer.unsubscribe)
        if life.held:
            self._complain("ListenersArePaired", f"{life.name} unsubscribed and holds {list(life.held)}")
        life.end(list(life.held), RETURNED, self._world.now)
        self._rest(self._random.choice([0.0, 1.0]))
        self._subscribe()

    def _ask(self) -> None:
        """The group's committed offsets, and this consumer's positions."""
        consumer, place = self.life.consumer, self._any_held()
        if place is None:
            return
        timeout = self._random.choice([0.1, 2.0])
        if self._random.random() < 0.5:
            self._call("committed", timeout, lambda: consumer.committed([place], timeout_ms=timeout * 1000))
        else:
            self._call("position", timeout, lambda: consumer.position(place, timeout_ms=timeout * 1000))

    def _pause_or_resume(self) -> None:
        consumer, place = self.life.consumer, self._any_held()
        if consumer.paused():
            self._call("resume", 0.0, lambda: consumer.resume(*sorted(consumer.paused())))
        elif place is not None:
            self._call("pause", 0.0, lambda: consumer.pause(place))

    def _seek(self) -> None:
        place = self._any_held()
        holding = None if place is None else self.life.held[place]
        if place is None or holding is None or holding.next_offset is None:
            return
        offset = max(holding.next_offset - self._random.randint(0, 3), 0)
        self._call("seek", 0.0, lambda: self.life.consumer.seek(place, offset))
        holding.sought.append((len(holding.handed), offset))

    def _any_held(self) -> TopicPartition | None:
        return self._random.choice(sorted(self.life.held)) if self.life.held else None

    def _rest(self, seconds: float) -> None:
        if seconds and not self._stop.is_set():
            self._stop.wait(seconds)

    # ------------------------------------------------------------------ reading

    def _read(self, timeout_ms: float) -> None:
        self._come_back()
        if self.habits.iterates:
            timeout_ms = self.life.options["consumer_timeout_ms"]
            for _ in range(self._random.choice([1, 3, 20])):
                before = self._handed
                if not self._call("next", timeout_ms / 1000, self._iterate):
                    return
                if self._handed == before:
                    break  # not twenty waits for nothing
                self._mark()
                self._rest(self._random.choice([0.0, 0.0, 0.0, 0.05]))
                self._come_back()
        else:
            self._call("poll", timeout_ms / 1000, lambda: self._poll(timeout_ms))
        self._mark()

    def _poll(self, timeout_ms: float) -> None:
        polled = self.life.consumer.poll(timeout_ms=timeout_ms)
        for place, records in polled.items():
            for record in records:
                self._hand(place, record)

    def _iterate(self) -> None:
        record = next(self.life.consumer, None)
        if record is not None:
            self._hand(TopicPartition(record.topic, record.partition), record)

    def _hand(self, place: TopicPartition, record: ConsumerRecord) -> None:
        holding = self.life.held.get(place)
        if holding is None:
            self._complain("ListenersArePaired", f"{self.life.name} reads {place}, which it does not own")
            return
        self._has_news = True
        self._handed += 1
        holding.handed.append(Handed(record.offset, record.value or b"", self._world.now))
        self._world.history.polls += 1

    def _come_back(self) -> None:
        """The next call shows that the application has processed its records, unless it marks them itself."""
        if self.life.way != MARKED:
            for holding in self.life.held.values():
                self._be_done(holding, len(holding.handed))

    def _be_done(self, holding: Holding, count: int) -> None:
        for handed in reversed(holding.handed[:count]):
            if handed.done_at is not None:
                return
            handed.done_at = self._world.now

    def _mark(self) -> None:
        if self.life.way != MARKED:
            return
        for place, holding in list(self.life.held.items()):
            count = len(holding.handed)
            if holding.next_offset is None or (not self.is_at_peace and self._random.random() < 0.3):
                continue
            self._be_done(holding, count)
            offsets = {place: OffsetAndMetadata(holding.next_offset)}
            self._call("store_offsets", 0.0, lambda offsets=offsets: self._store(offsets))  # type: ignore[misc]

    def _store(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.life.consumer.store_offsets(offsets=offsets)

    # ------------------------------------------------------------------ commits

    def _commit(self) -> None:
        self._has_news = False
        if self.life.way == BLOCKING:
            self._come_back()
            self._commit_and_wait(self._random.choice([0.2, 2.0, 10.0]))
        elif self.life.way == ASYNCHRONOUS:
            self._come_back()
            self._commit_later()

    def _commit_and_wait(self, timeout: float) -> None:
        life = self.life
        offsets_to_commit, expected = self._what_to_commit()
        attempt = ExpectedCommit(expected, self._world.now)
        life.commits.append(attempt)
        is_done = self._call(
            "commit", timeout, lambda: life.consumer.commit(offsets_to_commit, timeout * 1000)
        )
        attempt.told_at = self._world.now
        attempt.error = "" if is_done else "failed"

    def _commit_later(self) -> None:
        life = self.life
        offsets_to_commit, expected = self._what_to_commit()
        attempt = ExpectedCommit(expected, self._world.now)

        def on_commit(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
            before = [one for one in life.commits[: life.commits.index(attempt)] if one.told_at is None]
            if attempt.told_at is not None:
                self._complain("CallbacksComeOnceInOrder", f"{life.name}: {attempt} had two outcomes")
            if before:
                self._complain(
                    "CallbacksComeOnceInOrder", f"{life.name}: {attempt} had its outcome before {before}"
                )
            if error is not None and not isinstance(error, PASSING_IN_COMMITS):
                self._complain("CallsKeepTheirWord", f"{life.name}: a commit failed with {error!r}")
            attempt.told_at = self._world.now
            attempt.error = "" if error is None else repr(error)

        life.commits.append(attempt)
        if not self._call(
            "commit_async", 0.0, lambda: life.consumer.commit_async(offsets_to_commit, on_commit)
        ):
            life.commits.remove(attempt)

    def _what_to_commit(self) -> tuple[Offsets | None, dict[TopicPartition, int]]:
        """The argument for the call (None for all returned records) and the offsets it must write."""
        held = self.life.held
        places = {place: one.next_offset for place, one in held.items()}
        expected = {place: offset for place, offset in places.items() if offset is not None}
        if not expected or self._random.random() < 0.5:
            return None, expected
        return {place: OffsetAndMetadata(offset) for place, offset in expected.items()}, expected

    # ------------------------------------------------------------------ listener

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        # As of now: while this takes its time the membership may end, and others be given the same.
        life, identity, told_at = self.life, self.life.consumer.group_metadata(), self._world.now
        self._enter("assigned", partitions)
        for place in partitions:
            if place in life.held:
                self._complain("ListenersArePaired", f"{life.name} was given {place} twice")
            life.held[place] = Holding(place, life.name, identity.member_id, identity.generation_id, told_at)
        self._leave()

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._enter(REVOKED, partitions)
        if self.life.way in (BLOCKING, ASYNCHRONOUS):
            timeout = CLOSE_TIMEOUT if self.is_at_peace else 0.5
            try:
                self.life.consumer.commit(timeout_ms=timeout * 1000)
            except KafkaError as error:
                self._world.simulation.note(f"{self.life.name} commit in its listener: {error!r}")
                if self.is_at_peace and isinstance(error, RebalanceInProgress):
                    self.uncommitted |= set(self.life.held)
        self._give_up(REVOKED, partitions)
        self._leave()

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._enter(LOST, partitions)
        self._give_up(LOST, partitions)
        self._leave()

    def _enter(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        name = self.life.name
        self._world.simulation.note(f"{name} {what}: {[str(one) for one in partitions]}")
        if self._in_listener:
            self._complain("ListenersArePaired", f"{name}: {what} amid {self._in_listener}")
        if list(partitions) != sorted(set(partitions)):
            self._complain("ListenersArePaired", f"{name}: {what} {partitions}, which is not in order")
        self._in_listener = what
        began = self._world.now
        if not self.is_at_peace and self._random.random() < 0.1:
            self._rest(self._random.choice([0.05, 1.0]))
        self._listened -= began

    def _leave(self) -> None:
        self._listened += self._world.now
        self._in_listener = ""

    def _give_up(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        life = self.life
        foreign = [place for place in partitions if place not in life.held]
        if foreign or not partitions:
            self._complain("ListenersArePaired", f"{life.name}: {what} {partitions}, held {list(life.held)}")
        if life.way != MARKED:
            for place in partitions:
                if place in life.held:
                    self._be_done(life.held[place], len(life.held[place].handed))
        life.end([place for place in partitions if place in life.held], what, self._world.now)

    # ------------------------------------------------------------------ calls

    def _call(self, what: str, timeout: float, call: Callable[[], object]) -> bool:
        """Make a call that may raise what faults explain; whether it returned."""
        began, self._listened = self._world.now, 0.0
        name, error = self.life.name, None
        try:
            call()
        except KafkaError as raised:
            self._world.simulation.note(f"{name} {what}: {raised!r}")
            error = raised
        took = self._world.now - began - self._listened
        if took > timeout + MARGIN + self._allowance():
            words = f"{name}: {what} took {took:.3f} s, its timeout is {timeout} s"
            self._complain("CallsKeepTheirWord", words)
        if error is not None:
            self._look_at(what, error)
        return error is None

    def _look_at(self, what: str, error: KafkaError) -> None:
        if isinstance(error, FencedInstanceId):
            self._fenced = True
        passing: tuple[type[KafkaError], ...] = PASSING_IN_READS if what in READS else PASSING_IN_CALLS
        if what.startswith("commit"):
            passing = PASSING_IN_COMMITS
        if not isinstance(error, passing):
            self._complain("CallsKeepTheirWord", f"{self.life.name}: {what} raised {error!r}")
        # Also once the faults are over: what raises at once and for ever would stop time.
        (self._done if self.is_at_peace else self._stop).wait(0.1)

    def _allowance(self) -> float:
        return self.pauses.get(self.life.name, 0.0)

    def _complain(self, promise: str, words: str) -> None:
        self.problems.append((promise, f"{words}, at {self._world.now:.3f}"))
