"""Fetches a group's committed offsets from its coordinator (OffsetFetch).

Caller's thread; the requests live on the driver, which repeats them while their errors pass.  An error never
counts as "nothing was committed": only the coordinator's word does, or the reset policy would skip records.
Offsets of an open transaction are waited for, as in Java (KIP-447): whoever reads before it ends would begin
too early, or read twice; brokers before 2.5 cannot say so.  Neighbour: start_positions.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.commit.errors import MembershipMoved
from pykafka2.consumer.commit.topic_ids import TopicIds
from pykafka2.consumer.state.group_identity import GroupStanding, Rejection
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
from pykafka2.text import named
from pykafka2.types import NO_OFFSET, OffsetAndMetadata, TopicPartition

Found = dict[TopicPartition, OffsetAndMetadata | None]
_OF_THE_MEMBER = (StaleMemberEpoch, UnknownMemberId)


class Words(Enum):
    """How a coordinator is asked, the newest first: its brokers' age is known by what they refuse."""

    OF_GROUPS = None
    """Of several groups a request (KIP-709)."""
    OF_STABLE_OFFSETS = 7
    """Of one group, and offsets of open transactions are waited for (KIP-447)."""
    OF_ONE_GROUP = 6

    @property
    def max_version(self) -> int | None:
        """Also for brokers that are newer: they may be older again, and all of them speak these."""
        version: int | None = self.value
        return version

    @property
    def older(self) -> Words | None:
        return {Words.OF_GROUPS: Words.OF_STABLE_OFFSETS, Words.OF_STABLE_OFFSETS: Words.OF_ONE_GROUP}.get(
            self
        )


class CommittedOffsets:
    """Asks what one group has committed."""

    def __init__(self, cluster: ClusterClient, standing: GroupStanding) -> None:
        self.clock = cluster.driver.clock
        self._cluster = cluster
        self._standing = standing
        self._group_id = standing.group_id
        self.words = Words.OF_GROUPS

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
                question.max_version,
                question.request,
            )
        except UnsupportedVersion as error:
            if not self.falls_back(error, question.words):
                raise
            return self.of(partitions, timeout)
        return self.read(answer, partitions)

    def start(self, partitions: Collection[TopicPartition]) -> Completion[OffsetFetchResponse]:
        """Start a question without waiting, for default_api_timeout_ms; `read` decodes the response."""
        question = _Question(self, self._cluster, partitions)
        return self._cluster.start(
            question.request(), self._to, None, question.refusal, question.max_version, question.request
        )

    def falls_back(self, error: BaseException, asked_in: Words) -> bool:
        """Whether this error, met in these words, means: ask again, in older ones."""
        if not isinstance(error, UnsupportedVersion) or asked_in.older is None:
            return False
        if asked_in is self.words:  # else another question has met it first
            self.words = asked_in.older
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

    def request(
        self, partitions: Iterable[TopicPartition], ids: TopicIds, words: Words
    ) -> OffsetFetchRequest:
        numbers: dict[str, list[int]] = {}
        for topic, number in partitions:
            numbers.setdefault(topic, []).append(number)
        if words is Words.OF_GROUPS:
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
            require_stable=words is Words.OF_STABLE_OFFSETS,
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
        """Return `MembershipMoved` for an error about the member, which says nothing about the offsets."""
        identity = self._standing.identity
        if isinstance(error, UnknownMemberId) and identity.membership:
            self._standing.rejection = Rejection(identity, error)
        moved = MembershipMoved(str(error))
        moved.__cause__ = error
        return moved


class _Question:
    """A question for the committed offsets of some partitions, sent in several attempts."""

    def __init__(
        self, committed: CommittedOffsets, cluster: ClusterClient, partitions: Collection[TopicPartition]
    ) -> None:
        self._committed = committed
        self._metadata = cluster.metadata
        self._partitions = partitions
        self._topics = {topic for topic, _ in partitions}
        self.words = committed.words
        self.ids = TopicIds.of(self._topics, cluster.metadata)

    @property
    def max_version(self) -> int | None:
        """The highest version that all attempts can use."""
        of_words = self.words.max_version
        return self.ids.max_version if of_words is None else of_words

    def request(self) -> OffsetFetchRequest:
        """The next attempt's: by whom, and by which ids, may be another matter by then."""
        if self.ids.by_name:  # else names were promised to those who negotiate the version
            known = TopicIds.of(self._topics, self._metadata)
            self.ids = known if known.by_name else self.ids
        return self._committed.request(self._partitions, self.ids, self.words)

    def refusal(self, answer: OffsetFetchResponse) -> KafkaError | None:
        return self._committed.refusal(answer, self._partitions, self.ids)
