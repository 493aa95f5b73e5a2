"""A group of consumers in the classic protocol, request by request, and what must be true of its coordinator.

The members are written by hand on `ClusterClient`, so that the coordinator is tested by something other than
our own consumer.  Each counts up the committed offsets of the partitions that it owns: a commit that gets
lost, or one of a member that owns a partition no more, breaks the count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, TypeVar

from pykafka2.driver.pollable import GROUP, Send, ToCoordinator
from pykafka2.errors import KafkaError, MemberIdRequired, RebalanceInProgress, UnsupportedVersion, error_of
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from pykafka2.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from pykafka2.protocol.struct import Request, Response
from pykafka2.testing.simulation.checkers import Checker
from pykafka2.testing.simulation.history import Commit, Fetched, Owned
from pykafka2.testing.simulation.world import GROUP_ID, World

if TYPE_CHECKING:
    from pykafka2.testing.simulation.sync import SimEvent

SESSION_TIMEOUT = 6.0  # the shortest that a broker accepts by default
REBALANCE_TIMEOUT = 8.0
PATIENCE = 20.0
"""Virtual seconds for one request with all its attempts; joins take a rebalance."""
RECOVERY_TIME = 60.0

R = TypeVar("R", bound=Response)

COORDINATOR = ToCoordinator(GROUP, GROUP_ID)


class Member:
    """One member's life: join, sync, heartbeat, commit, now and then leave or fall silent; an actor."""

    def __init__(self, world: World, stop: SimEvent, seed: str, topic: str) -> None:
        self._client = world.simulation.client(world.cluster, "member", request_timeout_ms=10_000)
        self.name = world.simulation.last_client
        world.clients.append(self.name)
        self.problems: list[str] = []
        self._world = world
        self._stop = stop
        self._random = Random(seed)
        self._topic = topic
        self._history = world.groups
        self._member_id = ""
        self._generation = -1
        self._counts: dict[int, int] = {}

    # ------------------------------------------------------------------ the actor's body

    def run(self) -> None:
        """Be a member until stopped; then, without faults, once more to the end."""
        while not self._stop.is_set():
            try:
                self._be_a_member(lambda: self._stop.is_set())
            except KafkaError as error:
                self._recover(error)
        self._finish()

    def _finish(self) -> None:
        """In peace the group becomes stable, and every member can commit."""
        deadline = self._world.now + RECOVERY_TIME
        while self._world.now < deadline:
            try:
                if self._generation < 0:
                    self._join()
                for partition in self._counts:
                    self._commit(partition)
                self._heartbeat()
            except KafkaError as error:
                self._recover(error)
            else:
                return
        self.problems.append(f"{self.name} found no stable group in {RECOVERY_TIME:g} s of peace")

    def _be_a_member(self, is_over: Callable[[], bool]) -> None:
        if self._generation < 0:
            self._join()
        while not is_over():
            self._world.simulation.sleep(self._random.uniform(0.1, 0.7))
            chance = self._random.random()
            if chance < 0.02:
                self._leave()
                return
            if chance < 0.03:
                # The coordinator considers it dead, and it does not know that when it commits.
                self._world.simulation.sleep(SESSION_TIMEOUT + 2.0)
                self._commit_one()
            self._heartbeat()
            if chance < 0.7:
                self._commit_one()

    def _commit_one(self) -> None:
        if self._counts:
            self._commit(self._random.choice(list(self._counts)))

    def _recover(self, error: KafkaError) -> None:
        """Join again, with a new id if the coordinator does not know the old one."""
        if isinstance(error, UnsupportedVersion):
            raise error  # no fault does that: this file asks for what does not exist
        self._world.simulation.note(f"{self.name}: {error!r}")
        self._generation = -1
        self._counts = {}
        if isinstance(error, MemberIdRequired):
            return
        if not isinstance(error, RebalanceInProgress):
            # Whatever this member sent and got no answer to must not count any more when it arrives late.
            self._member_id = ""
        self._world.simulation.sleep(self._random.uniform(0.05, 0.5))

    # ------------------------------------------------------------------ requests

    def _ask(self, request: Request[R], check: Callable[[R], KafkaError | None]) -> R:
        return self._client.request(request, COORDINATOR, PATIENCE, check)

    def _ask_once(self, request: Request[R], check: Callable[[R], KafkaError | None]) -> None:
        """Without retries: a first attempt that arrives after its retry would undo what came after that."""
        outcome: list[R | KafkaError] = []
        send = Send(
            request,
            COORDINATOR,
            lambda response, now: outcome.append(response),
            lambda error, now: outcome.append(error),
            timeout=PATIENCE,
        )
        driver = self._client.driver
        driver.call_soon(lambda now: self._client.router.route(send, now))
        driver.wait_until(lambda: bool(outcome), PATIENCE * 2)
        answer = outcome[0]
        error = answer if isinstance(answer, KafkaError) else check(answer)
        if error is not None:
            if error.refresh_coordinator:
                driver.call_soon(lambda now: self._client.coordinators.forget_answerer(send))
            raise error

    def _join(self) -> None:
        asked_at = self._world.now
        response = self._ask(
            JoinGroupRequest(
                group_id=GROUP_ID,
                session_timeout_ms=int(SESSION_TIMEOUT * 1000),
                rebalance_timeout_ms=int(REBALANCE_TIMEOUT * 1000),
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="by turns", metadata=b"")],
            ),
            self._note_member_id,
        )
        self._member_id = response.member_id
        assignments = self._assign([one.member_id for one in response.members])
        synced = self._ask(
            SyncGroupRequest(
                group_id=GROUP_ID,
                generation_id=response.generation_id,
                member_id=self._member_id,
                protocol_type="consumer",
                protocol_name=response.protocol_name,
                assignments=assignments,
            ),
            _error_at_the_top,
        )
        mine = tuple(synced.assignment)
        self._history.owned.append(
            Owned(self._member_id, response.generation_id, mine, asked_at, self._world.now)
        )
        self._counts = self._committed(mine)
        self._generation = response.generation_id

    def _note_member_id(self, response: JoinGroupResponse) -> KafkaError | None:
        error = _error_at_the_top(response)
        if isinstance(error, MemberIdRequired):
            self._member_id = response.member_id
        return error

    def _assign(self, members: Iterable[str]) -> list[SyncGroupRequestAssignment]:
        """Assign as the group's leader: partitions in turn (a byte each). Only it gets the members."""
        ordered = sorted(members)
        partitions = self._world.topics[self._topic]  # it may have grown
        return [
            SyncGroupRequestAssignment(
                member_id=member, assignment=bytes(range(turn, partitions, len(ordered)))
            )
            for turn, member in enumerate(ordered)
        ]

    def _committed(self, partitions: tuple[int, ...]) -> dict[int, int]:
        """The offset to continue from; -1 if nothing was committed yet."""
        if not partitions:
            return {}
        asked_at = self._world.now
        topic = OffsetFetchRequestTopics(
            name=self._topic, topic_id=self._topic_id(), partition_indexes=list(partitions)
        )
        response = self._ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP_ID, topics=[topic])]),
            _error_in_fetch,
        )
        counts = {}
        for fetched in response.groups[0].topics[0].partitions:
            counts[fetched.partition_index] = fetched.committed_offset
            self._history.fetched.append(Fetched(fetched.partition_index, fetched.committed_offset, asked_at))
        return counts

    def _commit(self, partition: int) -> None:
        offset = self._counts[partition] + 1
        commit = Commit(self._member_id, self._generation, self._topic, partition, offset, self._world.now)
        self._history.commits.append(commit)
        self._ask_once(
            OffsetCommitRequest(
                group_id=GROUP_ID,
                generation_id_or_member_epoch=self._generation,
                member_id=self._member_id,
                topics=[
                    OffsetCommitRequestTopic(
                        name=self._topic,
                        topic_id=self._topic_id(),
                        partitions=[
                            OffsetCommitRequestPartition(
                                partition_index=partition, committed_offset=offset, committed_metadata=""
                            )
                        ],
                    )
                ],
            ),
            _error_in_commit,
        )
        commit.told_at = self._world.now
        self._counts[partition] = offset

    def _heartbeat(self) -> None:
        self._ask(
            HeartbeatRequest(group_id=GROUP_ID, generation_id=self._generation, member_id=self._member_id),
            _error_at_the_top,
        )

    def _leave(self) -> None:
        self._ask(
            # From v3 on a member is named in the list alone.
            LeaveGroupRequest(group_id=GROUP_ID, members=[MemberIdentity(member_id=self._member_id)]),
            _error_at_the_top,
        )
        self._member_id, self._generation, self._counts = "", -1, {}

    def _topic_id(self) -> bytes:
        return self._client.wait_for_topic(self._topic, PATIENCE).topic_id


def _error_at_the_top(response: Response) -> KafkaError | None:
    code: int = response.error_code  # type: ignore[attr-defined]
    return error_of(code) if code else None


def _error_in_fetch(response: OffsetFetchResponse) -> KafkaError | None:
    group = response.groups[0]
    codes = [group.error_code, *(one.error_code for topic in group.topics for one in topic.partitions)]
    return next((error_of(code) for code in codes if code), None)


def _error_in_commit(response: OffsetCommitResponse) -> KafkaError | None:
    codes = [one.error_code for topic in response.topics for one in topic.partitions]
    return next((error_of(code) for code in codes if code), None)


# ---------------------------------------------------------------------- promises


class OneOwnerPerGeneration(Checker):
    """In one generation a partition is given to one member, and a later one has a higher number."""

    def finish(self, world: World) -> None:
        owners: dict[tuple[int, int], str] = {}
        for owned in world.groups.owned:
            for partition in owned.partitions:
                known = owners.setdefault((owned.generation, partition), owned.member)
                if known != owned.member:
                    self.fail(
                        f"partition {partition} belongs to {known} and {owned.member} "
                        f"in generation {owned.generation}"
                    )
        for owned in world.groups.owned:
            before = [one for one in world.groups.owned if one.told_at < owned.asked_at]
            latest = max((one.generation for one in before), default=-1)
            if owned.generation < latest:
                self.fail(f"generation {owned.generation} was given out after {latest}: {owned}")


class CommitsAreKept(Checker):
    """An offset that the coordinator took is never forgotten, and never overwritten by an older owner."""

    def finish(self, world: World) -> None:
        history = world.groups
        taken = [commit for commit in history.commits if commit.told_at is not None]
        for fetched in history.fetched:
            highest = _highest(taken, fetched.partition, fetched.asked_at)
            if fetched.offset < highest:
                self.fail(
                    f"partition {fetched.partition}: fetched {fetched.offset} after {highest} was committed"
                )
        for commit in taken:
            highest = _highest(taken, commit.partition, commit.asked_at)
            if commit.offset <= highest:
                self.fail(f"partition {commit.partition}: {commit} was taken after {highest}")
            final = world.committed(GROUP_ID, commit.topic, commit.partition)
            if final is None or final < commit.offset:
                self.fail(f"partition {commit.partition}: {commit} was taken, and {final} is left")


def _highest(taken: Iterable[Commit], partition: int, before: float) -> int:
    """The highest offset that the coordinator had taken by then; -1 if none."""
    return max(
        (
            commit.offset
            for commit in taken
            if commit.partition == partition and commit.told_at is not None and commit.told_at < before
        ),
        default=-1,
    )
