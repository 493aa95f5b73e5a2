"""A queue of offset commits, sent to the group coordinator in the order of the calls.

The driver's thread polls the queue; the caller's thread adds commits (committer.py). Asynchronous and
automatic commits follow each other on one connection without waiting for responses. A blocking commit is
retried, so it waits until all earlier ones have finished, and later ones wait for it: a retry must not
overwrite a later commit. Neighbors: state/group_identity.py, cluster/router.py, cluster/coordinators.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial

import attrs

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.commit.errors import (
    refusal_in,
    words_for_gone,
    words_for_late,
    words_for_member,
    words_for_passing,
)
from pykafka2.consumer.commit.topic_ids import NO_IDS, TopicIds
from pykafka2.consumer.state.group_identity import GroupIdentity, GroupStanding, Rejection
from pykafka2.driver.completion import Completion
from pykafka2.driver.pollable import GROUP, PollResult, Send, ToCoordinator
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
from pykafka2.types import OffsetAndMetadata, TopicPartition

OF_THE_MEMBER = (UnknownMemberId, IllegalGeneration, FencedInstanceId, RebalanceInProgress)


class CommitQueue:
    """The queue (a `Pollable`)."""

    def __init__(self, cluster: ClusterClient, standing: GroupStanding) -> None:
        self._cluster = cluster
        self._standing = standing
        self._to = ToCoordinator(GROUP, standing.group_id)
        self._waiting: deque[Commit] = deque()
        """Those that are still to be sent, or sent again."""
        self._soonest_deadline = FOREVER
        """Of these; it may be that of one that has left them since."""
        self._on_wire: dict[Commit, None] = {}
        """Those that are to be answered, in the order in which they were sent."""
        self._unsent: deque[Commit] = deque()
        """Of these, the ones that the router may still hold."""
        self._retried: Commit | None = None
        """The last one of these that is sent again if need be: nothing leaves before it is over."""
        self.written = 0
        """The number of commits that the coordinator has acknowledged."""
        self.failed = 0
        self.last_written_at = -FOREVER
        self.last_error: KafkaError | None = None
        """Of the commit that failed last; None again after one was written."""

    def add(self, commit: Commit) -> None:
        """Have it sent after those added before.  Any thread.

        Raises:
            ClientClosed, ClientFailed: nothing is sent any more.
        """

        def enqueue(now: float) -> None:
            self._waiting.append(commit)
            self._soonest_deadline = min(self._soonest_deadline, commit.deadline)

        self._cluster.driver.call_soon(enqueue)

    @property
    def count(self) -> int:
        """How many are not over."""
        return len(self._waiting) + len(self._on_wire)

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        """Looks at those that are to be sent, and not at the thousands that may be on the wire."""
        result = PollResult.idle()
        if self._retried is not None:
            result.wake_at = self._end_wait(self._retried, now)
        if not self._waiting:
            return result
        if now >= self._soonest_deadline:
            self._end_overdue(now)
        is_behind_unsent = self._is_any_unsent()  # of earlier turns; those of one leave together
        while self._waiting and not self._is_held_up():
            commit = self._waiting[0]
            if self._is_over(commit, now):
                continue
            is_kept_waiting = is_behind_unsent or (commit.is_retried and self._is_any_on_wire())
            if is_kept_waiting or now < commit.retry_at:
                result.wake_at = min(result.wake_at, FOREVER if is_kept_waiting else commit.retry_at)
                break
            if not commit.offsets:
                self._succeed(commit)
                continue
            result.sends.append(self._attempt(commit, now))
            self._waiting.popleft()
            self._on_wire[commit] = None
            self._unsent.append(commit)
            if commit.is_retried:
                self._retried = commit
        if self._waiting:
            result.wake_at = min(result.wake_at, self._soonest_deadline)
        return result

    def _end_wait(self, commit: Commit, now: float) -> float:
        """When the caller of this one is to be told that its time is over.

        Its request stays on the wire: over another connection a later commit could overtake it.
        """
        if commit not in self._on_wire or commit.completion.is_done:
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
        for commit in [one for one in self._waiting if now >= one.deadline]:
            self._is_over(commit, now)
        self._soonest_deadline = min((one.deadline for one in self._waiting), default=FOREVER)

    def _is_held_up(self) -> bool:
        """Whether one is on the wire that may be sent again."""
        retried = self._retried
        return retried is not None and retried in self._on_wire and not retried.completion.is_cancelled

    def _is_any_unsent(self) -> bool:
        """Whether the router still holds one, for want of a connection."""
        unsent = self._unsent
        while unsent and (unsent[0] not in self._on_wire or unsent[0].has_left):
            unsent.popleft()
        return bool(unsent)

    def _is_any_on_wire(self) -> bool:
        """Whether any is to be answered whose caller still waits."""
        return not all(commit.completion.is_cancelled for commit in self._on_wire)

    def _is_over(self, commit: Commit, now: float) -> bool:
        """End a commit that is not to be sent any more."""
        if commit.refusal is not None:
            self._end(commit, commit.refusal)
        elif commit.completion.is_cancelled:
            self._end(commit, KafkaTimeoutError("the commit was given up by its caller"))
        elif now >= commit.deadline:
            self._end(commit, self._timed_out(commit))
        elif commit.ids.by_name and (gone := commit.ids.made_anew(self._cluster.metadata)):
            self._end(commit, words_for_gone(gone))
        else:
            return False
        return True

    def _attempt(self, commit: Commit, now: float) -> Send[OffsetCommitResponse]:
        if not commit.ids.by_name:
            commit.ids = TopicIds.of({topic for topic, _ in commit.offsets}, self._cluster.metadata)
        ids, timeout = commit.ids, self._cluster.options.request_timeout
        if commit.is_last or not commit.is_retried:
            timeout = max(0.0, min(commit.deadline - now, timeout))
        send = Send(
            self._request(commit, ids),
            self._to,
            partial(self._on_response, commit, ids),
            partial(self._on_error, commit),
            timeout=timeout,
            on_sent=lambda now: self._cluster.driver.wake(),  # what follows may leave now
            max_version=ids.max_version,
        )
        commit.send = send
        return send

    def _request(self, commit: Commit, ids: TopicIds) -> OffsetCommitRequest:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, number), told in commit.offsets.items():
            topics.setdefault(topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=told.offset,
                    committed_leader_epoch=told.leader_epoch,
                    committed_metadata=told.metadata,
                )
            )
        return OffsetCommitRequest(
            group_id=self._standing.group_id,
            generation_id_or_member_epoch=commit.identity.generation_id,
            member_id=commit.identity.member_id,
            group_instance_id=commit.identity.group_instance_id,
            topics=[
                OffsetCommitRequestTopic(name=name, topic_id=ids.of_topic(name), partitions=told)
                for name, told in topics.items()
            ],
        )

    # ------------------------------------------------------------------ answers

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
            self._cluster.coordinators.forget_answerer(send)
        if error.refresh_metadata:
            self._cluster.metadata.request_update(error)
        if isinstance(error, StaleMemberEpoch):
            self._on_stale_epoch(commit, error, now)
        elif isinstance(error, OF_THE_MEMBER) or (
            isinstance(error, GroupIdNotFound) and commit.identity.membership
        ):
            self._standing.rejection = Rejection(commit.identity, error)
            self._end(commit, words_for_member(error, self._standing, commit.identity))
        elif not error.retriable or commit.completion.is_cancelled:
            self._end(commit, error)
        elif not commit.is_retried:
            self._end(commit, words_for_passing(error))
        else:
            self._try_again(commit, error, now + commit.backoff.next())
        self._cluster.driver.wake()  # the queue goes on, or waits for another moment

    def _on_stale_epoch(self, commit: Commit, error: KafkaError, now: float) -> None:
        """The member's epoch has moved on since the commit was asked for; that it still owns the partitions
        is certain only for as long as it is the same membership."""
        current = self._standing.identity
        if current.membership != commit.identity.membership:
            self._end(commit, words_for_member(error, self._standing, commit.identity))
        elif not commit.is_retried or commit.completion.is_cancelled:
            self._end(commit, words_for_passing(error))
        else:
            is_known = current != commit.identity
            commit.identity = current
            self._try_again(commit, error, now if is_known else now + commit.backoff.next())

    def _try_again(self, commit: Commit, error: KafkaError, at: float) -> None:
        commit.last_error, commit.retry_at = error, at
        if at >= commit.deadline:
            self._end(commit, self._timed_out(commit))
            return
        self._take_out(commit)
        self._waiting.appendleft(commit)
        self._soonest_deadline = min(self._soonest_deadline, commit.deadline)

    def _succeed(self, commit: Commit) -> None:
        self._take_out(commit)
        commit.completion.succeed(None)

    def _take_out(self, commit: Commit) -> None:
        if commit in self._on_wire:
            del self._on_wire[commit]
        else:
            self._waiting.remove(commit)  # it is the first

    def _end(self, commit: Commit, error: KafkaError) -> None:
        self._take_out(commit)
        if not commit.completion.is_done:  # else its caller was told before
            self._fail(commit, error)

    def _fail(self, commit: Commit, error: KafkaError) -> None:
        self.failed += 1
        self.last_error = error
        commit.completion.fail(error)

    def _timed_out(self, commit: Commit) -> KafkaError:
        return words_for_late(commit.offsets, self._standing.group_id, commit.timeout, commit.last_error)


Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@attrs.define(eq=False)
class Commit:
    """Offsets that are to be written, by whom, and until when.

    `completion` ends with None once they are written, or with the error; whether it is to be tried again
    (until `deadline`) says `is_retried`.  `refusal` is known before it is sent, and told when its turn comes.
    """

    offsets: Offsets
    identity: GroupIdentity
    completion: Completion[None]
    deadline: float
    timeout: float
    """Seconds from the beginning to the deadline, for the words of an error."""
    backoff: Backoff
    is_retried: bool = False
    refusal: KafkaError | None = None
    is_last: bool = False
    """Others wait until its partitions are given away: its connection ends with its time."""
    ids: TopicIds = NO_IDS
    """Of the topics, as of when they were first known to it: it is for no others of the same names."""
    send: Send[OffsetCommitResponse] | None = None
    retry_at: float = -FOREVER
    last_error: KafkaError | None = None

    @property
    def has_left(self) -> bool:
        """Whether its request is with the transport, or on the way there over a connection that stands."""
        return self.send is not None and self.send.sent_at is not None
