"""Offsets by time and the first and last offsets of partitions (ListOffsets).

`OffsetLookups` runs on the driver's thread and retries each question until it succeeds, fails or times out;
resets use it, too. `OffsetQueries` blocks the caller's thread for `beginning_offsets`, `end_offsets` and
`offsets_for_times`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

import attrs

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.driver.pollable import PollResult, Send, ToNode
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import (
    KafkaError,
    KafkaTimeoutError,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicOrPartition,
    UnknownUntilTimeout,
    error_of,
)
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pykafka2.types import OffsetAndTimestamp, TopicPartition

UNKNOWN_OFFSET = -1


@attrs.define(eq=False)
class Question:
    """A request for one partition's offset at a timestamp (in milliseconds, or -2 and -1 for the log's ends).

    `on_found` receives None if no record has that or a later timestamp. Either `on_found` or `on_failed` is
    called once, on the driver's thread.
    """

    partition: TopicPartition
    timestamp: int
    on_found: Callable[[OffsetAndTimestamp | None, float], None]
    on_failed: Callable[[KafkaError, float], None]
    deadline: float = FOREVER
    is_of_read_topic: bool = False
    """Whether the consumer reads this topic, so that its metadata is requested anyway."""
    backoff: Backoff | None = None
    not_before: float = -FOREVER
    is_in_flight: bool = False
    is_over: bool = False
    last_error: KafkaError | None = None


class OffsetLookups:
    """The open questions of one consumer (a `Pollable`)."""

    def __init__(self, cluster: ClusterClient, isolation: int) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._questions: dict[Question, None] = {}  # in order; removal from a list would take linear time

    def ask(self, question: Question) -> None:
        options = self._cluster.options
        random = self._cluster.driver.entropy.random
        question.backoff = Backoff(options.retry_backoff, options.retry_backoff_max, random)
        self._questions[question] = None

    def give_up(self, question: Question) -> None:
        """Cancel a question: it is not retried, and neither callback is called."""
        if not question.is_over:
            question.is_over = True
            self._questions.pop(question, None)  # a Ctrl-C can come before `ask`

    def trouble_of(self, partition: TopicPartition) -> str | None:
        """Return the error of the last attempt for this partition, if a question is open.  Any thread."""
        for question in tuple(self._questions):
            if question.partition == partition and question.last_error is not None:
                return str(question.last_error)
        return None

    def poll(self, now: float) -> PollResult:
        """Send the questions that are due, and fail those that have timed out, also in flight."""
        result = PollResult.idle()
        if not self._questions:
            return result
        by_node: dict[int, list[Question]] = {}
        for question in list(self._questions):
            if now >= question.deadline:
                self._end(question, self._timed_out(question), now)
                continue
            result.wake_at = min(result.wake_at, question.deadline)
            if question.is_in_flight:
                continue
            leader = self._leader(question, now) if now >= question.not_before else None
            if leader is not None:
                by_node.setdefault(leader, []).append(question)
            elif question.not_before > now:
                result.wake_at = min(result.wake_at, question.not_before)
        for node_id in sorted(by_node):
            result.sends.append(self._send(node_id, by_node[node_id]))
        return result

    def _leader(self, question: Question, now: float) -> int | None:
        """Return the leader's id; None if it is unknown, or the question has just failed."""
        topic, number = question.partition
        metadata = self._cluster.metadata
        if not question.is_of_read_topic:
            metadata.want_topic(topic, now)
        error = metadata.topic_error(topic)
        if error is not None and not error.retriable:
            self._end(question, error, now)
            return None
        info = metadata.leader_of(topic, number)
        if info is not None:
            return info.leader
        known = metadata.topic(topic)
        if known is not None:  # otherwise its metadata is being fetched, and its arrival wakes the driver
            is_missing = known.is_usable and number not in known.partitions
            question.last_error = _no_partition(question, len(known.partitions)) if is_missing else error
            metadata.request_update()
            self._delay(question, now)
        return None

    def _send(self, node_id: int, questions: list[Question]) -> Send[ListOffsetsResponse]:
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        in_flight: dict[TopicPartition, list[Question]] = {}
        for question in questions:
            question.is_in_flight = True
            same = in_flight.setdefault(question.partition, [])
            if same and same[0].timestamp != question.timestamp:
                question.is_in_flight = (
                    False  # another timestamp of the same partition goes into the next request
                )
                continue
            same.append(question)
            if len(same) == 1:
                topic, number = question.partition
                info = self._cluster.metadata.partition(topic, number)
                by_topic.setdefault(topic, []).append(
                    ListOffsetsPartition(
                        partition_index=number,
                        current_leader_epoch=info.leader_epoch if info is not None else -1,
                        timestamp=question.timestamp,
                    )
                )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation,
            topics=[
                ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()
            ],
            timeout_ms=int(self._cluster.options.request_timeout * 1000),
        )
        return Send(
            request,
            ToNode(node_id),
            partial(self._on_response, in_flight),
            partial(self._on_failure, in_flight),
            min_version=1,  # before KIP-79 the response was a list of segments
        )

    def _on_response(
        self, in_flight: dict[TopicPartition, list[Question]], response: ListOffsetsResponse, now: float
    ) -> None:
        answers = {
            TopicPartition(topic.name, answer.partition_index): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        for partition, questions in in_flight.items():
            for question in questions:
                question.is_in_flight = False
                answer = answers.get(partition)
                if question.is_over:
                    continue
                if answer is None:
                    self._delay(question, now)
                elif answer.error_code:
                    words = f"{partition}: {error_of(answer.error_code)}"
                    self._on_error(question, error_of(answer.error_code, words), now)
                else:
                    self._answer(question, answer, now)

    def _on_failure(
        self, in_flight: dict[TopicPartition, list[Question]], error: KafkaError, now: float
    ) -> None:
        for questions in in_flight.values():
            for question in questions:
                question.is_in_flight = False
                if not question.is_over:
                    self._on_error(question, error, now)

    def _answer(self, question: Question, answer: ListOffsetsPartitionResponse, now: float) -> None:
        question.is_over = True
        del self._questions[question]
        found = None
        if answer.offset > UNKNOWN_OFFSET:
            found = OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)
        question.on_found(found, now)

    def _on_error(self, question: Question, error: KafkaError, now: float) -> None:
        # An unknown server error can be transient; the Java client retries it, too.
        if not error.retriable and not isinstance(error, UnknownServerError):
            self._end(question, error, now)
            return
        question.last_error = error
        if error.refresh_metadata or isinstance(error, UnknownLeaderEpoch):
            self._cluster.metadata.request_update(error)
        self._delay(question, now)

    def _delay(self, question: Question, now: float) -> None:
        if question.backoff is not None:
            question.not_before = now + question.backoff.next()

    def _end(self, question: Question, error: KafkaError, now: float) -> None:
        if question.is_over:
            return
        question.is_over = True
        del self._questions[question]
        question.on_failed(error, now)

    def _timed_out(self, question: Question) -> KafkaError:
        error = question.last_error
        if isinstance(error, UnknownTopicOrPartition):
            return UnknownUntilTimeout(str(error))
        if not self._cluster.nodes.has_connection:
            return self._cluster.nodes.unreachable()
        reason = f"; the last attempt failed: {error}" if error is not None else ""
        if question.is_in_flight:
            reason = f"; its leader has not responded{reason}"
        return KafkaTimeoutError(f"looking up an offset of {question.partition} timed out{reason}")


def _no_partition(question: Question, count: int) -> UnknownTopicOrPartition:
    topic, number = question.partition
    return UnknownTopicOrPartition(f"topic {topic!r} has {count} partitions and no partition {number}")


# The driver fails questions at their deadline itself, with a better message than a waiter has.
GRACE = 1.0


class _Answers:
    """Answers that the driver's thread collects and the caller's thread waits for."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        self.error: KafkaError | None = None
        self.waiters = WaitQueue()

    def on_found(self, partition: TopicPartition, found: OffsetAndTimestamp | None, now: float) -> None:
        self.found[partition] = found
        if self.is_over():
            self.waiters.wake()

    def on_failed(self, error: KafkaError, now: float) -> None:
        self.error = self.error or error
        self.waiters.wake()

    def is_over(self) -> bool:
        return self.error is not None or len(self.found) == self.wanted


class OffsetQueries:
    """The blocking lookups of a consumer for offsets and partitions."""

    def __init__(self, cluster: ClusterClient, lookups: OffsetLookups) -> None:
        self._cluster = cluster
        self._lookups = lookups

    def ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout: float
    ) -> dict[TopicPartition, int]:
        """Return the offset at one end of each partition; see `KafkaConsumer.beginning_offsets`."""
        found = self.at_times({TopicPartition(*one): timestamp for one in partitions}, timeout)
        return {partition: one.offset if one is not None else 0 for partition, one in found.items()}

    def at_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """See `KafkaConsumer.offsets_for_times`."""
        if not timestamps:
            return {}
        driver = self._cluster.driver
        answers = _Answers(len(timestamps))
        deadline = driver.clock.monotonic() + timeout
        questions = [
            Question(
                partition,
                timestamp,
                on_found=partial(answers.on_found, partition),
                on_failed=answers.on_failed,
                deadline=deadline,
            )
            for partition, timestamp in timestamps.items()
        ]

        def ask(now: float) -> None:
            for question in questions:
                self._lookups.ask(question)

        def give_up(now: float) -> None:
            for question in questions:
                self._lookups.give_up(question)

        try:
            driver.call_soon(ask)
            driver.wait_until(answers.is_over, timeout + GRACE, answers.waiters)
        finally:
            # After an error or a Ctrl-C the others would be retried until the deadline.
            if len(answers.found) < answers.wanted:
                with suppress(KafkaError):  # a signal handler can have closed the client and then raised
                    driver.call_soon(give_up)
        if answers.error is not None:
            raise answers.error
        if not answers.is_over():
            raise KafkaTimeoutError(f"looking up offsets took longer than {timeout:g} s")
        return {partition: answers.found[partition] for partition in timestamps}

    def partition_numbers(self, topic: str, timeout: float) -> set[int] | None:
        """See `KafkaConsumer.partitions_for_topic`."""
        cluster, metadata = self._cluster, self._cluster.metadata
        metadata.want_topic(topic, cluster.driver.clock.monotonic())
        version = metadata.version

        def is_known() -> bool:
            known = metadata.topic(topic)
            if known is not None and (known.is_usable or metadata.version > version):
                return True
            return metadata.last_error is not None and not metadata.last_error.retriable

        if metadata.topic(topic) is not None:
            metadata.request_update()
        cluster.driver.wait_until(is_known, timeout, metadata.waiters)
        known = metadata.topic(topic)
        if known is not None and known.is_usable:
            return set(known.partitions)
        error = cluster.topic_failure(topic, timeout)
        if isinstance(error, UnknownTopicOrPartition):
            return None
        raise error
