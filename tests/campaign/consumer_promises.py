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
from tests.campaign.consumer_evidence import Evidence, ToldOffset, WrittenCommit
from tests.campaign.consumer_lives import ASYNCHRONOUS, BLOCKING, CRASHED, Holding, Life

if TYPE_CHECKING:
    from pykafka2.testing.simulation.world import World

MOST_QUESTIONS_PER_SECOND = 60
"""Of one API by one client: with back-off and three brokers it is ten or twenty."""


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


# ---------------------------------------------------------------------- who owns what


class OneOwnerPerGeneration(Promise):
    """In a generation a partition is given to one member."""

    def look(self, world: World, evidence: Evidence) -> None:
        owners: dict[tuple[int, TopicPartition], str] = {}
        for given in evidence.given:
            for place in given.places:
                known = owners.setdefault((given.generation, place), given.member)
                if known != given.member:
                    self.fail(f"{place} was given to {known} and {given.member} in {given.generation}")


class OwnersDoNotOverlap(Promise):
    """Who is given a partition is its only owner, but for those that are no members any more and do not
    know it yet.
    """

    def look(self, world: World, evidence: Evidence) -> None:
        by_place: dict[TopicPartition, list[Holding]] = {}
        for holding in self.holdings():
            by_place.setdefault(holding.place, []).append(holding)
        joins = {(one.member_id, one.generation): one for one in evidence.joins}
        for holdings in by_place.values():
            for new in holdings:
                given = joins.get((new.member_id, new.generation))
                for old in holdings:
                    joined = joins.get((old.member_id, new.generation))
                    is_held = old.since <= new.since and (old.until or FOREVER) > new.since
                    is_other = old.life != new.life
                    if is_held and is_other and given and joined and joined.is_of(given):
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
            told = {
                max(one.offset, 0)
                for one in evidence.told
                if one.life == holding.life
                and one.place == holding.place
                and holding.since <= one.answered_at <= first.at
            }
            if first.offset not in told:
                self.fail(f"{holding} begins at {first.offset}, and was told {sorted(told)}")


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
                self.fail(f"{place}: nobody was handed {missing}")


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
                    self.fail(f"{commit} at {commit.asked_at:.3f}, before anybody was done with {value!r}")


class CommitsNeverGoBack(Promise):
    """What is committed is not taken back by an older commit: not by the same member, not by a former owner.

    Requests that arrive over a connection that was given up are the exception: nobody can tell them apart.
    So is who goes on where a coordinator that was replaced, and has not heard of it, told it to (see
    `CommitsAreKept`): in Apache Kafka, too, it answers from memory; or where such a late commit had put it.
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
    """Whether who committed this went on where it was sent by old news, or by an overtaken commit."""
    wrong = {one.offset for one in _overtaken([one for one in evidence.commits if one.place == commit.place])}
    return any(
        (told.is_outdated or told.offset in wrong) and _leads_to(told, commit) for told in evidence.told
    )


def _leads_to(told: ToldOffset, commit: WrittenCommit) -> bool:
    """Whether who committed this may have gone on where it was told so."""
    return (
        (told.life, told.place) == (commit.life, commit.place)
        and told.answered_at <= commit.asked_at
        and told.offset <= commit.offset
    )


class CommitsAreKept(Promise):
    """What the coordinator took is what it tells afterwards, whichever broker that is by then.

    A broker that has not heard yet that another took its place is no coordinator any more.  It takes no
    commit, as no follower copies it, but answers OffsetFetch from memory: Apache Kafka asks nobody first.
    And a commit that is carried out late, over a connection that was given up, overwrites the next one.
    """

    def look(self, world: World, evidence: Evidence) -> None:
        sought = self.sought()
        late = {commit.place for commit in evidence.commits if commit.is_late}
        for told in evidence.told:
            if told.place in sought or told.place in late or told.is_outdated:
                continue
            of_place = [one for one in evidence.commits if one.place == told.place]
            taken = [one for one in of_place if one.answered_at < told.asked_at]
            latest = sorted(taken, key=lambda one: one.answered_at)[-1:]
            is_behind = latest and told.offset < latest[0].offset
            if is_behind and told.offset not in {one.offset for one in _overtaken(taken)}:
                self.fail(f"{told.place}: {told.life} was told {told.offset} after {latest[0]}")


class CommitsAreTold(Promise):
    """A commit that the application was told to be written is: the coordinator took every offset of it."""

    def look(self, world: World, evidence: Evidence) -> None:
        for life in self.lives:
            written = [one for one in evidence.commits if one.life == life.name]
            for asked in life.commits:
                if asked.told_at is None or asked.error:
                    continue
                for place, offset in asked.offsets.items():
                    if not any(
                        one.place == place and one.offset == offset and one.asked_at >= asked.at
                        for one in written
                    ):
                        self.fail(f"{life.name} at {asked.at:.3f}: {place} at {offset} was not written")


# ---------------------------------------------------------------------- resources


class NobodyAsksWithoutRest(Promise):
    """Whatever brokers answer, a client asks with pauses between."""

    def look(self, world: World, evidence: Evidence) -> None:
        ways = {life.name: life.way for life in self.lives}
        asked: Counter[tuple[str, str, int]] = Counter()
        for entry in world.cluster.history.entries():
            way = ways.get(entry.client_id or "")
            # How often they commit is up to these applications.
            is_asked_for = entry.api == "OffsetCommit" and way in (BLOCKING, ASYNCHRONOUS)
            if way is not None and not is_asked_for:
                asked[entry.client_id or "", entry.api, int(entry.received_at)] += 1
        for (client, api, second), count in asked.items():
            if count > MOST_QUESTIONS_PER_SECOND:
                self.fail(f"{client} asked {count} times for {api} in the second from {second}")


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
