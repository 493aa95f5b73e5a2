"""Promises of the members of a group, checked against the logs and the coordinators' requests.

Each class is one promise.  All look at the same `Evidence`, gathered once at the end, and at the lives of the
applications' consumers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pykafka2.clock import FOREVER
from pykafka2.testing.simulation.checkers import Checker
from pykafka2.types import TopicPartition
from tests.campaign.consumer_evidence import Evidence, FetchedOffset, WrittenCommit
from tests.campaign.consumer_lives import ASYNCHRONOUS, BLOCKING, CRASHED, Holding, Life

if TYPE_CHECKING:
    from pykafka2.testing.simulation.world import World

MOST_QUESTIONS_PER_SECOND = 60
"""For one API and one client: with back-off and three brokers it is ten or twenty."""


class Promise(Checker):
    """A promise of groups: `look` is called once for all, with the evidence."""

    def __init__(self, lives: Sequence[Life], evidence: list[Evidence]) -> None:
        self.lives = lives
        self._evidence = evidence

    def finish(self, world: World) -> None:
        if not self._evidence:
            self._evidence.append(Evidence.gather(world))
        self.look(world, self._evidence[0])

    def look(self, world: World, evidence: Evidence) -> None:
        raise NotImplementedError

    def holdings(self) -> Iterable[Holding]:
        return (holding for life in self.lives for holding in life.holdings())

    def sought(self) -> set[TopicPartition]:
        """Partitions in which some application went to a place of its own choice."""
        return {place for life in self.lives for place in life.has_sought}


# ---------------------------------------------------------------------- owners of partitions


class OneOwnerPerGeneration(Promise):
    """In a generation a partition is given to one member."""

    def look(self, world: World, evidence: Evidence) -> None:
        owners: dict[tuple[int, TopicPartition], str] = {}
        for assigned in evidence.assigned:
            for place in assigned.places:
                known = owners.setdefault((assigned.generation, place), assigned.member)
                if known != assigned.member:
                    self.fail(f"{place} was given to {known} and {assigned.member} in {assigned.generation}")


class OwnersDoNotOverlap(Promise):
    """An assigned partition has no other owner, except former members that do not know yet that they were
    removed.
    """

    def look(self, world: World, evidence: Evidence) -> None:
        by_place: dict[TopicPartition, list[Holding]] = {}
        for holding in self.holdings():
            by_place.setdefault(holding.place, []).append(holding)
        joins = {(one.member_id, one.generation): one for one in evidence.joins}
        for holdings in by_place.values():
            for new in holdings:
                earlier = joins.get((new.member_id, new.generation))
                for old in holdings:
                    joined = joins.get((old.member_id, new.generation))
                    is_held = old.since <= new.since and (old.until or FOREVER) > new.since
                    is_other = old.life != new.life
                    if is_held and is_other and earlier and joined and joined.is_of(earlier):
                        self.fail(f"{new} in generation {new.generation} amid {old}, a member of it")


# ---------------------------------------------------------------------- what is read


class RecordsFollowOneAnother(Promise):
    """Within a holding each record follows the one before: none is left out, none comes twice."""

    def look(self, world: World, evidence: Evidence) -> None:
        for holding in self.holdings():
            sought = dict(holding.sought)
            log = dict(evidence.logs[holding.place])
            expected: int | None = None
            for number, handed in enumerate(holding.handed):
                expected = sought.get(number, expected)
                if expected is not None and handed.offset != expected:
                    self.fail(f"{holding}: offset {handed.offset}, and {expected} comes next")
                if log.get(handed.offset) != handed.value:
                    self.fail(f"{holding}: {handed}, the log has {log.get(handed.offset)!r}")
                expected = handed.offset + 1


class PositionsAreTheGroups(Promise):
    """Reading begins where the coordinator said that the group stands, and at the log's start only where it
    knew of nothing.
    """

    def look(self, world: World, evidence: Evidence) -> None:
        for holding in self.holdings():
            if not holding.handed or (holding.sought and not holding.sought[0][0]):
                continue
            first = holding.handed[0]
            fetched = {
                max(one.offset, 0)
                for one in evidence.fetched
                if one.life == holding.life
                and one.place == holding.place
                and holding.since <= one.answered_at <= first.at
            }
            if first.offset not in fetched:
                self.fail(
                    f"{holding} begins at {first.offset}, but the fetched offsets were {sorted(fetched)}"
                )


class EverythingIsRead(Promise):
    """Every record has been handed to some application."""

    def look(self, world: World, evidence: Evidence) -> None:
        read: dict[TopicPartition, set[int]] = {}
        for holding in self.holdings():
            read.setdefault(holding.place, set()).update(one.offset for one in holding.handed)
        topics = {topic for life in self.lives if not life.is_over for topic in life.topics}
        for place, log in evidence.logs.items():
            missing = [offset for offset, _ in log if offset not in read.get(place, set())]
            if missing and place.topic in topics:
                self.fail(f"{place}: no consumer received {missing}")


# ---------------------------------------------------------------------- commits


class CommitsAreOfWhatIsDone(Promise):
    """When an offset is committed, an application is done with every record before it: what was only fetched,
    or handed over a moment ago, is not.
    """

    def look(self, world: World, evidence: Evidence) -> None:
        done: dict[TopicPartition, dict[int, float]] = {}
        for holding in self.holdings():
            times = done.setdefault(holding.place, {})
            for handed in holding.handed:
                if handed.done_at is not None:
                    times[handed.offset] = min(handed.done_at, times.get(handed.offset, handed.done_at))
        for commit in evidence.commits:
            times = done.get(commit.place, {})
            for offset, value in evidence.logs[commit.place]:
                if offset < commit.offset and times.get(offset, FOREVER) > commit.asked_at:
                    self.fail(
                        f"{commit} at {commit.asked_at:.3f}, before any consumer had processed {value!r}"
                    )


class CommitsNeverGoBack(Promise):
    """A commit is not overwritten by an older one, neither from the same member nor from a former owner.

    Requests that arrive over an abandoned connection are the exception: they look like any other request. So
    is a member that continues from an offset of a replaced coordinator which does not know yet that it was
    replaced (see `CommitsAreKept`; Apache Kafka answers from memory, too), or from an offset that such a late
    commit has written.
    """

    def look(self, world: World, evidence: Evidence) -> None:
        sought = self.sought()
        highest: dict[TopicPartition, WrittenCommit] = {}
        for commit in sorted(evidence.commits, key=lambda one: one.asked_at):
            before = highest.get(commit.place)
            if before is not None and commit.offset < before.offset and commit.place not in sought:
                came_over_an_older = commit.connection != before.connection and (
                    commit.connection[1] <= before.connection[1]
                )
                is_late = commit.is_late or came_over_an_older or before.answered_at > commit.asked_at
                if not is_late and not _was_misled(commit, evidence):
                    self.fail(f"{commit} at {commit.asked_at:.3f} after {before} at {before.asked_at:.3f}")
            highest[commit.place] = commit


def _overtaken(commits: Sequence[WrittenCommit]) -> list[WrittenCommit]:
    """Those that a broker kept lying until a later one was taken, over a connection that came after theirs:
    their client had given them up.
    """
    return [
        one
        for one in commits
        if any(
            one.place == other.place
            and one.asked_at < other.asked_at
            and other.answered_at <= one.answered_at
            and one.connection[1] < other.connection[1]
            for other in commits
        )
    ]


def _was_misled(commit: WrittenCommit, evidence: Evidence) -> bool:
    """Whether the committing member continued from outdated metadata, or from an overtaken commit."""
    wrong = {one.offset for one in _overtaken([one for one in evidence.commits if one.place == commit.place])}
    return any(
        (fetched.is_outdated or fetched.offset in wrong) and _leads_to(fetched, commit)
        for fetched in evidence.fetched
    )


def _leads_to(fetched: FetchedOffset, commit: WrittenCommit) -> bool:
    """Whether the committing member may have continued from this fetched offset."""
    return (
        (fetched.life, fetched.place) == (commit.life, commit.place)
        and fetched.answered_at <= commit.asked_at
        and fetched.offset <= commit.offset
    )


class CommitsAreKept(Promise):
    """Offsets that the coordinator accepted are those it returns later, whichever broker it is by then.

    A broker that does not know yet that another one has replaced it is no coordinator any more. It accepts no
    commit, as no follower copies it, but answers OffsetFetch from memory, as Apache Kafka does. And a commit
    that arrives late, over an abandoned connection, overwrites the next one.
    """

    def look(self, world: World, evidence: Evidence) -> None:
        sought = self.sought()
        late = {commit.place for commit in evidence.commits if commit.is_late}
        for fetched in evidence.fetched:
            if fetched.place in sought or fetched.place in late or fetched.is_outdated:
                continue
            of_place = [one for one in evidence.commits if one.place == fetched.place]
            taken = [one for one in of_place if one.answered_at < fetched.asked_at]
            latest = sorted(taken, key=lambda one: one.answered_at)[-1:]
            is_behind = latest and fetched.offset < latest[0].offset
            if is_behind and fetched.offset not in {one.offset for one in _overtaken(taken)}:
                self.fail(f"{fetched.place}: {fetched.life} fetched {fetched.offset} after {latest[0]}")


class CommitsAreTold(Promise):
    """Every offset of a commit that succeeded for the application was accepted by the coordinator."""

    def look(self, world: World, evidence: Evidence) -> None:
        for life in self.lives:
            written = [one for one in evidence.commits if one.life == life.name]
            for attempt in life.commits:
                if attempt.told_at is None or attempt.error:
                    continue
                for place, offset in attempt.offsets.items():
                    if not any(
                        one.place == place and one.offset == offset and one.asked_at >= attempt.at
                        for one in written
                    ):
                        self.fail(f"{life.name} at {attempt.at:.3f}: {place} at {offset} was not written")


# ---------------------------------------------------------------------- resources


class NobodyAsksWithoutRest(Promise):
    """Whatever brokers answer, a client asks with pauses between."""

    def look(self, world: World, evidence: Evidence) -> None:
        ways = {life.name: life.way for life in self.lives}
        attempts: Counter[tuple[str, str, int]] = Counter()
        for entry in world.cluster.history.entries():
            way = ways.get(entry.client_id or "")
            # How often they commit is up to these applications.
            is_requested = entry.api == "OffsetCommit" and way in (BLOCKING, ASYNCHRONOUS)
            if way is not None and not is_requested:
                attempts[entry.client_id or "", entry.api, int(entry.received_at)] += 1
        for (client, api, second), count in attempts.items():
            if count > MOST_QUESTIONS_PER_SECOND:
                self.fail(f"{client} sent {count} requests of {api} in the second from {second}")


PROMISES: Sequence[Any] = (
    OneOwnerPerGeneration,
    OwnersDoNotOverlap,
    RecordsFollowOneAnother,
    PositionsAreTheGroups,
    EverythingIsRead,
    CommitsAreOfWhatIsDone,
    CommitsNeverGoBack,
    CommitsAreKept,
    CommitsAreTold,
    NobodyAsksWithoutRest,
)


def promises_of(lives: Sequence[Life]) -> list[Promise]:
    """One of each; `lives` are the applications' consumers, and may grow."""
    evidence: list[Evidence] = []
    return [promise(lives, evidence) for promise in PROMISES]


def delivered_since(lives: Iterable[Life], when: float) -> Counter[tuple[TopicPartition, int]]:
    """How often each record was handed over from then on."""
    return Counter(
        (holding.place, handed.offset)
        for life in lives
        for holding in life.holdings()
        if holding.ended != CRASHED
        for handed in holding.handed
        if handed.at >= when
    )
