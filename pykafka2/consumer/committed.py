"""What a group has committed: asked of its coordinator (OffsetFetch), and where reading resumes by it.

Caller's thread; the requests live on the driver, which repeats them while their errors pass.  An error never
counts as "nothing was committed": only the coordinator's word does, or the reset policy would skip records.
Offsets of an open transaction are waited for, as in Java (KIP-447): whoever reads before it ends would begin
too early, or read twice.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.commit_errors import MembershipMoved
from pykafka2.consumer.group_identity import GroupStanding, Rejection
from pykafka2.consumer.naming import named
from pykafka2.consumer.subscription import Subscription
from pykafka2.consumer.topic_ids import TopicIds
from pykafka2.driver.completion import Completion
from pykafka2.driver.pollable import GROUP, ToCoordinator
from pykafka2.errors import (
    CorruptResponse,
    KafkaError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
    error_of,
)
from pykafka2.protocol.messages.committed_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from pykafka2.types import NO_OFFSET, OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)

Found = dict[TopicPartition, OffsetAndMetadata | None]
# What the coordinator refuses for good is not asked for again sooner, however fast the application polls.
REFUSED_GAP = 0.1
_OF_THE_MEMBER = (StaleMemberEpoch, UnknownMemberId)


class CommittedOffsets:
    """Asks what one group has committed."""

    def __init__(self, cluster: ClusterClient, standing: GroupStanding) -> None:
        self.clock = cluster.driver.clock
        self._cluster = cluster
        self._standing = standing
        self._group_id = standing.group_id
        self._brokers_know_batches = True

    def of(self, partitions: Collection[TopicPartition], timeout: float) -> Found:
        """The committed offsets, None where there is none; waits for them.

        Raises:
            KafkaTimeoutError, NoBrokersAvailable: no answer within `timeout` seconds.
            GroupAuthorizationFailed, TopicAuthorizationFailed: at once, as no waiting will help.
        """
        if not partitions:
            return {}
        question = _Question(self, self._cluster, partitions)
        try:
            answer = self._cluster.request(
                question.request(),
                self._to,
                timeout,
                question.refusal,
                question.ids.max_version,
                question.request,
            )
        except UnsupportedVersion as error:
            if not self.falls_back(error):
                raise
            return self.of(partitions, timeout)
        return self.read(answer, partitions)

    def start(self, partitions: Collection[TopicPartition]) -> Completion[OffsetFetchResponse]:
        """As `of`, without waiting, for default_api_timeout_ms; `read` reads the answer."""
        question = _Question(self, self._cluster, partitions)
        return self._cluster.start(
            question.request(), self._to, None, question.refusal, question.ids.max_version, question.request
        )

    def falls_back(self, error: BaseException) -> bool:
        """Whether this error means: ask again, in the words of before KIP-709 (one group a request)."""
        if not isinstance(error, UnsupportedVersion) or not self._brokers_know_batches:
            return False
        self._brokers_know_batches = False
        return True

    def read(self, answer: OffsetFetchResponse, partitions: Iterable[TopicPartition]) -> Found:
        told = self._told(answer)
        found: Found = {}
        for partition in partitions:
            one = told[partition]
            if one.committed_offset < 0:
                found[partition] = None
            else:
                found[partition] = OffsetAndMetadata(
                    one.committed_offset, one.metadata or "", one.committed_leader_epoch
                )
        return found

    # ------------------------------------------------------------------ for a question

    @property
    def _to(self) -> ToCoordinator:
        return ToCoordinator(GROUP, self._group_id)

    def request(self, partitions: Iterable[TopicPartition], ids: TopicIds) -> OffsetFetchRequest:
        numbers: dict[str, list[int]] = {}
        for topic, number in partitions:
            numbers.setdefault(topic, []).append(number)
        if self._brokers_know_batches:
            topics = [
                OffsetFetchRequestTopics(name=name, topic_id=ids.of_topic(name), partition_indexes=some)
                for name, some in numbers.items()
            ]
            group = OffsetFetchRequestGroup(group_id=self._group_id, topics=topics)
            identity = self._standing.identity
            if identity.membership:  # whose epoch is over may have lost the partitions that it asks of
                group.member_id, group.member_epoch = identity.member_id, identity.generation_id
            return OffsetFetchRequest(groups=[group], require_stable=True)
        return OffsetFetchRequest(
            group_id=self._group_id,
            topics=[
                OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in numbers.items()
            ],
        )

    def _told(
        self, answer: OffsetFetchResponse
    ) -> dict[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]:
        told: dict[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions] = {}
        for group in answer.groups:
            if group.group_id == self._group_id:
                for topic in group.topics:
                    for each in topic.partitions:
                        told[TopicPartition(topic.name, each.partition_index)] = each
        for old_topic in answer.topics:
            for old in old_topic.partitions:
                told[TopicPartition(old_topic.name, old.partition_index)] = old
        return told

    def refusal(
        self, answer: OffsetFetchResponse, partitions: Collection[TopicPartition], ids: TopicIds
    ) -> KafkaError | None:
        for group in answer.groups:
            ids.give_names(group.topics)
        codes = [answer.error_code, *(one.error_code for one in answer.groups)]
        for code in codes:
            if code:
                error = error_of(code, f"group {self._group_id!r}: {error_of(code)}")
                return self._moved(error) if isinstance(error, _OF_THE_MEMBER) else error
        told = self._told(answer)
        silent = [partition for partition in partitions if partition not in told]
        if silent:
            return CorruptResponse(f"the answer says nothing of {named(silent)}")
        failed = [partition for partition in partitions if told[partition].error_code]
        if not failed:
            # -1 says that nothing was committed; less says nothing, and is no reason to begin elsewhere.
            odd = [partition for partition in partitions if told[partition].committed_offset < NO_OFFSET]
            offsets = named([f"{partition} at {told[partition].committed_offset}" for partition in odd])
            return CorruptResponse(f"the answer has offsets that cannot be: {offsets}") if odd else None
        worst = min(failed, key=lambda one: error_of(told[one].error_code).retriable)
        code = told[worst].error_code
        return error_of(code, f"the committed offset of {worst}: {error_of(code)}")

    def _moved(self, error: KafkaError) -> KafkaError:
        """What is said of a member's epoch is no word on what was committed."""
        identity = self._standing.identity
        if isinstance(error, UnknownMemberId) and identity.membership:
            self._standing.rejection = Rejection(identity, error)
        moved = MembershipMoved(str(error))
        moved.__cause__ = error
        return moved


class _Question:
    """What is asked of some partitions, attempt by attempt."""

    def __init__(
        self, committed: CommittedOffsets, cluster: ClusterClient, partitions: Collection[TopicPartition]
    ) -> None:
        self._committed = committed
        self._metadata = cluster.metadata
        self._partitions = partitions
        self._topics = {topic for topic, _ in partitions}
        self.ids = TopicIds.of(self._topics, cluster.metadata)

    def request(self) -> OffsetFetchRequest:
        """The next attempt's: by whom, and by which ids, may be another matter by then."""
        if self.ids.by_name:  # else names were promised to those who negotiate the version
            known = TopicIds.of(self._topics, self._metadata)
            self.ids = known if known.by_name else self.ids
        return self._committed.request(self._partitions, self.ids)

    def refusal(self, answer: OffsetFetchResponse) -> KafkaError | None:
        return self._committed.refusal(answer, self._partitions, self.ids)


class Resume:
    """Gives partitions without a position that which their group has committed."""

    def __init__(self, committed: CommittedOffsets, subscription: Subscription) -> None:
        self._committed = committed
        self._subscription = subscription
        self._clock = committed.clock
        self._not_before = -FOREVER
        self._asked: dict[TopicPartition, int] = {}
        """What is being asked, with the generations at that time."""
        self._answer: Completion[OffsetFetchResponse] | None = None
        self._without: dict[TopicPartition, int] = {}
        """Partitions of which nothing was committed, with the generations at that time."""
        self.last_error: KafkaError | None = None
        """Why the last question has no answer yet; None when there is one."""

    def has_news(self) -> bool:
        return self._answer is not None and self._answer.is_done

    def due_in(self) -> float:
        """Seconds until it may ask again, after a refusal; FOREVER if there was none, or it has."""
        left = self._not_before - self._clock.monotonic()
        return left if left > 0 else FOREVER

    @property
    def waits_for(self) -> list[TopicPartition]:
        """Partitions whose committed offset is being asked for."""
        return list(self._asked)

    def why_unknown(self, partition: TopicPartition) -> str:
        """In words, why its committed offset is not known; empty where it is not waited for."""
        if partition not in self._asked:
            return ""
        reason = f"; the last attempt failed: {self.last_error}" if self.last_error is not None else ""
        return f"the coordinator has not said yet what the group has committed{reason}"

    def without_commit(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of them of which nothing was committed; the others are asked for, or given their positions.

        Raises what the coordinator refuses for good; the next call asks again.
        """
        self._take_answer()
        left = [one for one in partitions if one not in self._subscription.positions]
        unknown = {one: self._generation(one) for one in left if not self._is_without(one)}
        if unknown and self._answer is None and self._clock.monotonic() >= self._not_before:
            self._asked = unknown
            self._answer = self._committed.start(list(unknown))
        return [one for one in left if self._is_without(one)]

    def _take_answer(self) -> None:
        answer, asked = self._answer, self._asked
        if answer is None or not answer.is_done:
            return
        self._answer, self._asked = None, {}
        error = answer.exception(0)
        if error is None:
            self.last_error = None
            for partition, one in self._committed.read(answer.result(0), asked).items():
                self._apply(partition, asked[partition], one)
        elif isinstance(error, KafkaError) and (self._committed.falls_back(error) or error.retriable):
            self.last_error = error  # asked again by the caller
            logger.warning("the committed offsets are not known yet, and are asked for again: %s", error)
        else:
            self._not_before = self._clock.monotonic() + REFUSED_GAP
            raise error

    def _apply(self, partition: TopicPartition, generation: int, one: OffsetAndMetadata | None) -> None:
        assigned = self._subscription.assigned.get(partition)
        if assigned is None or assigned.generation != generation or assigned.is_resetting:
            return  # given away, or sent elsewhere by the application meanwhile
        if one is None:
            self._without[partition] = generation
        elif partition not in self._subscription.positions:
            self._subscription.rewind(partition, one.offset, one.leader_epoch)

    def _generation(self, partition: TopicPartition) -> int:
        assigned = self._subscription.assigned.get(partition)
        return -1 if assigned is None else assigned.generation

    def _is_without(self, partition: TopicPartition) -> bool:
        generation = self._without.get(partition)
        if generation is not None and generation != self._generation(partition):
            del self._without[partition]
        return generation is not None and generation == self._generation(partition)
