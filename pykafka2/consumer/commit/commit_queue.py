"""A queue of offset commits, sent to the group coordinator in the order of the calls.

The driver's thread polls the queue; the caller's thread adds commits (committer.py). Asynchronous and
automatic commits follow each other on one connection without waiting for responses. A blocking commit is
retried, so it waits until all earlier ones have finished, and later ones wait for it: a retry must not
overwrite a later commit. Neighbors: state/group_identity.py, cluster/router.py, cluster/coordinators.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from functools import partial

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.snapshot import ClusterSnapshot
from pykafka2.consumer.commit.errors import (
    commit_timeout_error,
    membership_error,
    missing_topic_error,
    recreated_topic_error,
    refusal_in,
    retriable_commit_error,
)
from pykafka2.consumer.commit.topic_ids import NO_IDS, TopicIds
from pykafka2.consumer.state.group_identity import GroupIdentity, GroupStatus, Rejection
from pykafka2.driver.completion import Completion
from pykafka2.driver.pollable import GROUP, Destination, PollResult, Send, ToCoordinator, ToIdleConnection
from pykafka2.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgress,
    RequestTimeout,
    StaleMemberEpoch,
    UnknownMemberId,
)
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pykafka2.slotted import slotted
from pykafka2.types import OffsetAndMetadata, TopicPartition

MEMBERSHIP_ERRORS = (UnknownMemberId, IllegalGeneration, FencedInstanceId, RebalanceInProgress)


class CommitQueue:
    """Offset commits in the order of the calls (a `Pollable`)."""

    def __init__(self, cluster: ClusterClient, group_status: GroupStatus) -> None:
        self._cluster = cluster
        self._group_status = group_status
        self._to = ToCoordinator(GROUP, group_status.group_id)
        self._waiting: deque[Commit] = deque()
        """Commits to send or to retry."""
        self._soonest_deadline = FOREVER
        """The first deadline of the waiting commits, or an earlier one of a commit that was sent since."""
        self._in_flight: dict[Commit, None] = {}
        """Commits without a response, in the order in which they were sent."""
        self._unsent: deque[Commit] = deque()
        """Commits in flight that the router possibly still holds."""
        self._retried: Commit | None = None
        """The commit in flight that can be retried; no other commit is sent before it ends."""
        self.written = 0
        """The number of commits that the coordinator has acknowledged."""
        self.failed = 0
        self.last_written_at = -FOREVER
        self.last_error: KafkaError | None = None
        """The error of the last failed commit; None after a success."""

    def add(self, commit: Commit) -> None:
        """Queue a commit after those that were added before. Any thread can call it.

        Raises:
            ClientClosed, ClientFailed: the client can no longer send requests.
        """

        def enqueue(now: float) -> None:
            self._waiting.append(commit)
            self._soonest_deadline = min(self._soonest_deadline, commit.deadline)

        self._cluster.driver.call_soon(enqueue)

    @property
    def count(self) -> int:
        """The number of unfinished commits."""
        return len(self._waiting) + len(self._in_flight)

    # ------------------------------------------------------------------ on the driver's thread

    def poll(self, now: float) -> PollResult:
        """Send the commits that are due; it does not iterate over those in flight, which can be thousands."""
        result = PollResult.idle()
        if self._retried is not None:
            result.wake_at = self._end_wait(self._retried, now)
        if not self._waiting:
            return result
        if now >= self._soonest_deadline:
            self._end_overdue(now)
        is_behind_unsent = self._is_any_unsent()  # from earlier turns; commits of one turn are sent together
        while self._waiting and not self._is_blocked_by_retry():
            commit = self._waiting[0]
            if self._end_if_over(commit, now) or self._end_if_deleted(commit, now):
                continue
            is_kept_waiting = is_behind_unsent or (commit.is_retried and self._is_any_in_flight())
            if is_kept_waiting or now < commit.retry_at:
                result.wake_at = min(result.wake_at, FOREVER if is_kept_waiting else commit.retry_at)
                break
            if not commit.offsets:
                self._succeed(commit)
                continue
            if self._is_in_rebalance(commit) and self._coordinator is None:
                self._cluster.coordinators.want(self._to)  # its lookup ends in a turn that polls this again
                break
            result.sends.append(self._attempt(commit))
            self._waiting.popleft()
            self._in_flight[commit] = None
            self._unsent.append(commit)
            if commit.is_retried:
                self._retried = commit
        if self._waiting:
            result.wake_at = min(result.wake_at, self._soonest_deadline)
        return result

    def _end_wait(self, commit: Commit, now: float) -> float:
        """Return the deadline of the commit in flight that can be retried; fail it once that has passed.

        Its request stays in flight: over another connection a later commit could overtake it.
        """
        if commit not in self._in_flight or commit.completion.is_done:
            self._retried = None
            return FOREVER
        if now < commit.deadline:
            return commit.deadline
        self._retried = None
        commit.completion.cancel()
        self._fail(commit, self._timed_out(commit))
        return FOREVER

    def _end_overdue(self, now: float) -> None:
        """Fail commits that are past their deadline while they wait behind a commit that is being retried."""
        for commit in [commit for commit in self._waiting if now >= commit.deadline]:
            self._end_if_over(commit, now)
        self._soonest_deadline = min((commit.deadline for commit in self._waiting), default=FOREVER)

    def _is_blocked_by_retry(self) -> bool:
        """Return whether a commit is in flight that can be retried."""
        retried = self._retried
        return retried is not None and retried in self._in_flight and not retried.completion.is_cancelled

    def _is_any_unsent(self) -> bool:
        """Return whether the router still holds a commit until a connection is open."""
        unsent = self._unsent
        while unsent and (unsent[0] not in self._in_flight or unsent[0].has_left):
            unsent.popleft()
        return bool(unsent)

    def _is_any_in_flight(self) -> bool:
        """Return whether a commit is in flight whose caller still waits."""
        return not all(commit.completion.is_cancelled for commit in self._in_flight)

    def _end_if_over(self, commit: Commit, now: float) -> bool:
        """End a commit that must not be sent any more; return whether it was ended."""
        if commit.refusal is not None:
            self._end(commit, commit.refusal)
        elif commit.completion.is_cancelled:
            self._end(commit, KafkaTimeoutError("the caller no longer waits for the commit"))
        elif now >= commit.deadline:
            self._end(commit, self._timed_out(commit))
        elif commit.spans_rebalance and (error := self._join_generation(commit)) is not None:
            self._end(commit, error)
        else:
            return False
        return True

    def _end_if_deleted(self, commit: Commit, now: float) -> bool:
        """Leave positions in deleted topics out of the commit, which would be refused until the deadline.

        A commit of other offsets ends with an error; return whether it was ended.
        """
        metadata = self._cluster.metadata
        if commit.checked_as_of is metadata.snapshot:
            return False  # a commit that waits is checked in every turn of the driver
        commit.checked_as_of = metadata.snapshot
        recreated, gone = commit.ids.recreated(metadata), self._gone_topics(commit)
        if commit.are_positions:
            if recreated or gone:
                commit.leave_out({*recreated, *gone})
                commit.retry_at = now
        elif recreated:
            self._end(commit, recreated_topic_error(recreated))
            return True
        elif gone and commit.last_error is not None:  # the other topics are committed by the first attempt
            self._end(commit, missing_topic_error(gone))
            return True
        return False

    def _join_generation(self, commit: Commit) -> KafkaError | None:
        """Let the commit carry the member's generation; return an error if the membership has ended."""
        group_status, current = self._group_status, self._group_status.identity
        if current.member_id != commit.identity.member_id or current.generation_id < 0:
            return membership_error(UnknownMemberId(), group_status, commit.identity)
        commit.identity = current
        return None

    def _destination(self, commit: Commit) -> Destination:
        """Return the coordinator, over a connection without a JoinGroup that waits for other members."""
        node_id = self._coordinator
        if self._is_in_rebalance(commit) and node_id is not None:
            return ToIdleConnection(node_id)
        return self._to

    def _is_in_rebalance(self, commit: Commit) -> bool:
        """Return whether the rebalance that the commit spans is not over."""
        return commit.spans_rebalance and self._group_status.commit_error is not None

    @property
    def _coordinator(self) -> int | None:
        return self._cluster.coordinators.node_of(self._to)

    def _gone_topics(self, commit: Commit) -> list[str]:
        """Return the topics of a commit that the metadata reports as deleted."""
        topics = dict.fromkeys(partition.topic for partition in commit.offsets)
        metadata = self._cluster.metadata
        return [topic for topic in topics if (known := metadata.topic(topic)) is not None and known.is_gone]

    def _attempt(self, commit: Commit) -> Send[OffsetCommitResponse]:
        if not commit.ids.by_name:
            commit.ids = TopicIds.of({topic for topic, _ in commit.offsets}, self._cluster.metadata)
        ids = commit.ids
        send = Send(
            self._request(commit, ids),
            self._destination(commit),
            partial(self._on_response, commit, ids),
            partial(self._on_error, commit),
            on_sent=lambda now: self._cluster.driver.wake(),  # the next commits can be sent
            max_version=ids.max_version,
            deadline=commit.deadline if commit.is_last or not commit.is_retried else FOREVER,
        )
        commit.send = send
        return send

    def _request(self, commit: Commit, ids: TopicIds) -> OffsetCommitRequest:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, number), offset in commit.offsets.items():
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        return OffsetCommitRequest(
            group_id=self._group_status.group_id,
            generation_id_or_member_epoch=commit.identity.generation_id,
            member_id=commit.identity.member_id,
            group_instance_id=commit.identity.group_instance_id,
            topics=[
                OffsetCommitRequestTopic(name=name, topic_id=ids.of_topic(name), partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    # ------------------------------------------------------------------ responses

    def _on_response(self, commit: Commit, ids: TopicIds, response: OffsetCommitResponse, now: float) -> None:
        ids.give_names(response.topics)
        error = refusal_in(response, commit.offsets)
        if error is not None:
            self._on_error(commit, error, now)
            return
        self.written += 1
        self.last_written_at = now
        self.last_error = None
        self._succeed(commit)
        self._cluster.driver.wake()

    def _on_error(self, commit: Commit, error: KafkaError, now: float) -> None:
        send, commit.send = commit.send, None
        if send is not None and (error.refresh_coordinator or isinstance(error, RequestTimeout)):
            if isinstance(send.to, ToIdleConnection):
                self._cluster.coordinators.forget(self._to, send.to.id)
            else:
                self._cluster.coordinators.forget_answerer(send)
        if error.refresh_metadata:
            self._cluster.metadata.request_update(error)
        if isinstance(error, StaleMemberEpoch):
            self._on_stale_epoch(commit, error, now)
        elif isinstance(error, (RebalanceInProgress, IllegalGeneration)) and self._is_rejoining(commit, send):
            self._retry(commit, error, now + commit.backoff.next())
        elif isinstance(error, MEMBERSHIP_ERRORS) or (
            isinstance(error, GroupIdNotFound) and commit.identity.membership
        ):
            self._group_status.rejection = Rejection(commit.identity, error)
            self._end(commit, membership_error(error, self._group_status, commit.identity))
        elif not error.retriable or commit.completion.is_cancelled:
            self._end(commit, error)
        elif not commit.is_retried:
            self._end(commit, retriable_commit_error(error))
        else:
            self._retry(commit, error, now + commit.backoff.next())
        self._cluster.driver.wake()  # the queue is unblocked, or has another wake-up time

    def _is_rejoining(self, commit: Commit, send: Send[OffsetCommitResponse] | None) -> bool:
        """Return whether the rebalance that the commit spans is not over, or was not when it was sent."""
        if not commit.spans_rebalance or commit.completion.is_cancelled:
            return False
        was_in_rebalance = send is not None and isinstance(send.to, ToIdleConnection)
        return was_in_rebalance or self._is_in_rebalance(commit)

    def _on_stale_epoch(self, commit: Commit, error: KafkaError, now: float) -> None:
        """Retry with the current epoch if the membership is the same: it still owns the partitions."""
        current = self._group_status.identity
        if current.membership != commit.identity.membership:
            self._end(commit, membership_error(error, self._group_status, commit.identity))
        elif not commit.is_retried or commit.completion.is_cancelled:
            self._end(commit, retriable_commit_error(error))
        else:
            is_known = current != commit.identity
            commit.identity = current
            self._retry(commit, error, now if is_known else now + commit.backoff.next())

    def _retry(self, commit: Commit, error: KafkaError, at: float) -> None:
        commit.last_error, commit.retry_at = error, at
        if at >= commit.deadline:
            self._end(commit, self._timed_out(commit))
            return
        self._remove(commit)
        self._waiting.appendleft(commit)
        self._soonest_deadline = min(self._soonest_deadline, commit.deadline)

    def _succeed(self, commit: Commit) -> None:
        self._remove(commit)
        commit.completion.succeed(None)

    def _remove(self, commit: Commit) -> None:
        if commit in self._in_flight:
            del self._in_flight[commit]
        else:
            self._waiting.remove(commit)  # it is at the front

    def _end(self, commit: Commit, error: KafkaError) -> None:
        self._remove(commit)
        if not commit.completion.is_done:  # otherwise its caller has an error already
            self._fail(commit, error)

    def _fail(self, commit: Commit, error: KafkaError) -> None:
        self.failed += 1
        self.last_error = error
        commit.completion.fail(error)

    def _timed_out(self, commit: Commit) -> KafkaError:
        return commit_timeout_error(
            commit.offsets, self._group_status.group_id, commit.timeout, commit.last_error
        )


Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@slotted(eq=False)
class Commit:
    """Offsets to commit, with the member's identity and a deadline.

    `completion` ends with None after a success, or with an error. With `is_retried`, retriable errors are
    retried until `deadline`. `refusal` is an error known before the request; it ends the commit in its turn.
    """

    offsets: Offsets
    identity: GroupIdentity
    completion: Completion[None]
    deadline: float
    timeout: float
    """Seconds from the call to the deadline, for error messages."""
    backoff: Backoff
    is_retried: bool = False
    refusal: KafkaError | None = None
    is_last: bool = False
    """The last commit before a revocation or close, which wait for it: its request ends at the deadline."""
    are_positions: bool = False
    """Whether the offsets are the consumer's positions, so those in deleted topics are left out."""
    spans_rebalance: bool = False
    """The last commit of a member that rejoins: it is sent with the old generation, which the coordinator
    accepts until all members have joined, or else with the new one after the assignment."""
    ids: TopicIds = NO_IDS
    """The first known ids of its topics; if one changes, the topic was recreated and the commit fails."""
    checked_as_of: ClusterSnapshot | None = None
    """The metadata at the last check for deleted topics."""
    send: Send[OffsetCommitResponse] | None = None
    retry_at: float = -FOREVER
    last_error: KafkaError | None = None
    ended_at: float | None = None
    """When `completion` was done; only set for interceptors that get the duration."""

    @property
    def began_at(self) -> float:
        """When it was created."""
        return self.deadline - self.timeout

    @property
    def has_left(self) -> bool:
        """Whether the router has passed its request on to an open connection."""
        return self.send is not None and self.send.sent_at is not None

    def leave_out(self, topics: Collection[str]) -> None:
        """Leave out the offsets of these topics."""
        self.offsets = {
            partition: offset for partition, offset in self.offsets.items() if partition.topic not in topics
        }
        self.ids = self.ids.without(topics)
