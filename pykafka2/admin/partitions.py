"""Partitions of topics: add them, elect their leaders, move their replicas (through the controller)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pykafka2.admin.arguments import (
    partition_keys,
    partitions_of,
    request_timeout_ms,
    seconds_of,
    text,
    whole_number,
)
from pykafka2.admin.offsets import by_topic
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.places import at_one
from pykafka2.admin.rounds import Results, was_refused
from pykafka2.admin.values import NewPartitions, PartitionReassignment
from pykafka2.driver.pollable import ToController
from pykafka2.errors import ElectionNotNeeded, IllegalArgument, KafkaError, error_of, error_or_none
from pykafka2.text import type_of
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient

PREFERRED, UNCLEAN = 0, 1


class PartitionsAdmin:
    """The partition calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def create_partitions(
        self,
        totals: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, None]:
        """Increase the partitions of topics to these totals (KIP-195).

        Records with a key go to other partitions afterwards.

        Args:
            totals: by topic the new number of partitions, or `NewPartitions` with the brokers of each new
                one.
            validate_only: have the brokers check the request without adding partitions.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `InvalidPartitions` if the topic has as
                many already, `InvalidReplicaAssignment`, `UnknownTopicOrPartition`,
                `TopicAuthorizationFailed`, `ReassignmentInProgress`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.topics import (
            CreatePartitionsAssignment,
            CreatePartitionsRequest,
            CreatePartitionsTopic,
        )

        if not isinstance(totals, Mapping):
            raise IllegalArgument(
                f"totals must be a dict of {{topic: total}}, not {type_of(totals)}; use "
                "create_partitions({'orders': 6})"
            )
        timeout = seconds_of(timeout, timeout_ms)
        wanted = {text("totals", topic): _new_partitions(topic, total) for topic, total in totals.items()}
        if not wanted:
            return Outcomes({})
        milliseconds = request_timeout_ms(self._cluster, timeout)

        def request(topics: list[str]) -> CreatePartitionsRequest:
            return CreatePartitionsRequest(
                topics=[
                    CreatePartitionsTopic(
                        name=topic,
                        count=wanted[topic].total_count,
                        assignments=None
                        if wanted[topic].new_assignments is None
                        else [
                            CreatePartitionsAssignment(broker_ids=list(brokers))
                            for brokers in wanted[topic].new_assignments or ()
                        ],
                    )
                    for topic in topics
                ],
                timeout_ms=milliseconds,
                validate_only=validate_only,
            )

        def read(response: Any, topics: list[str]) -> Results[str, None]:
            done: dict[str, None] = {}
            errors: dict[str, KafkaError] = {}
            for result in response.results:
                if result.error_code:
                    errors[result.name] = error_of(result.error_code, result.error_message)
                else:
                    done[result.name] = None
            return done, errors

        outcomes = at_one(
            self._cluster, "create_partitions", wanted, request, read, timeout, retries=was_refused
        )
        return outcomes.checked("create_partitions", raise_errors)

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, bool]:
        """Elect the preferred replica as leader; with `unclean`, any live replica (KIP-460).

        Return True for each partition with a new leader and False if the election was not needed. An unclean
        election loses the records that the elected replica has not copied.

        Args:
            partitions: None for all; then the outcomes have only those with a new leader or an error.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `PreferredLeaderNotAvailable`,
                `EligibleLeadersNotAvailable`, `UnknownTopicOrPartition`.
            ClusterAuthorizationFailed: the principal lacks ALTER on the cluster.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.reassignments import ElectLeadersRequest, TopicPartitions

        wanted = None if partitions is None else partitions_of("partitions", partitions)
        timeout_ms = request_timeout_ms(self._cluster, timeout)

        def request(some: list[TopicPartition] | None) -> ElectLeadersRequest:
            return ElectLeadersRequest(
                election_type=UNCLEAN if unclean else PREFERRED,
                topic_partitions=None
                if some is None
                else [
                    TopicPartitions(topic=name, partitions=numbers)
                    for name, numbers in by_topic(some).items()
                ],
                timeout_ms=timeout_ms,
            )

        def read(response: Any, some: list[TopicPartition]) -> Results[TopicPartition, bool]:
            if response.error_code:
                return {}, {partition: error_of(response.error_code) for partition in some}
            return _elected(response)

        if wanted is None:
            response = self._cluster.request(request(None), ToController(), timeout, _error_of)
            outcomes = Outcomes(*_elected(response))
        else:
            outcomes = at_one(
                self._cluster, "elect_leaders", wanted, request, read, timeout, retries=was_refused
            )
        return outcomes.checked("elect_leaders", raise_errors)

    def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Move partitions to other brokers; None cancels a reassignment (KIP-455).

        Return when the controller has begun; `list_partition_reassignments` shows those that are not done.

        Args:
            targets: by partition the ids of the brokers, the preferred leader first.
            allow_replication_factor_change: False rejects targets with another number of brokers (KIP-860).

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `InvalidReplicaAssignment`,
                `InvalidReplicationFactor`, `NoReassignmentInProgress` if there is none to cancel,
                `UnknownTopicOrPartition`, `ClusterAuthorizationFailed`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.reassignments import (
            AlterPartitionReassignmentsRequest,
            ReassignablePartition,
            ReassignableTopic,
        )

        wanted = {
            partition: None if targets[partition] is None else _brokers(partition, targets[partition])
            for partition in partition_keys("targets", targets)
        }
        if not wanted:
            return Outcomes({})
        timeout_ms = request_timeout_ms(self._cluster, timeout)

        def request(some: list[TopicPartition]) -> AlterPartitionReassignmentsRequest:
            return AlterPartitionReassignmentsRequest(
                timeout_ms=timeout_ms,
                allow_replication_factor_change=allow_replication_factor_change,
                topics=[
                    ReassignableTopic(
                        name=name,
                        partitions=[
                            ReassignablePartition(
                                partition_index=number, replicas=wanted[TopicPartition(name, number)]
                            )
                            for number in numbers
                        ],
                    )
                    for name, numbers in by_topic(some).items()
                ],
            )

        def read(response: Any, some: list[TopicPartition]) -> Results[TopicPartition, None]:
            if response.error_code:
                error = (response.error_code, response.error_message)
                return {}, {partition: error_of(*error) for partition in some}
            done: dict[TopicPartition, None] = {}
            errors: dict[TopicPartition, KafkaError] = {}
            for topic in response.responses:
                for entry in topic.partitions:
                    partition = TopicPartition(topic.name, entry.partition_index)
                    if entry.error_code:
                        errors[partition] = error_of(entry.error_code, entry.error_message)
                    else:
                        done[partition] = None
            return done, errors

        outcomes = at_one(
            self._cluster,
            "alter_partition_reassignments",
            wanted,
            request,
            read,
            timeout,
            retries=was_refused,
        )
        return outcomes.checked("alter_partition_reassignments", raise_errors)

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments that are not done, of these partitions or (None) of all.

        Raises:
            ClusterAuthorizationFailed: the principal lacks DESCRIBE on the cluster.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.reassignments import (
            ListPartitionReassignmentsRequest,
            ListPartitionReassignmentsTopics,
        )

        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in by_topic(partitions_of("partitions", partitions)).items()
            ]
        request = ListPartitionReassignmentsRequest(
            timeout_ms=request_timeout_ms(self._cluster, timeout), topics=topics
        )
        response = self._cluster.request(request, ToController(), timeout, _error_of)
        found = {
            TopicPartition(topic.name, entry.partition_index): PartitionReassignment(
                tuple(entry.replicas), tuple(entry.adding_replicas), tuple(entry.removing_replicas)
            )
            for topic in response.topics
            for entry in topic.partitions
        }
        return {partition: found[partition] for partition in sorted(found)}


def _new_partitions(topic: str, total: object) -> NewPartitions:
    if isinstance(total, Mapping):  # kafka-python's {"count": 3, "assignments": [[0, 1]]}
        total = NewPartitions(total.get("count", 0), total.get("assignments"))
    wanted = total if isinstance(total, NewPartitions) else NewPartitions(total)  # type: ignore[arg-type]
    whole_number(f"the total of topic {topic!r}", wanted.total_count, 1)
    return wanted


def _brokers(partition: TopicPartition, brokers: object) -> list[int]:
    if isinstance(brokers, str) or not isinstance(brokers, Iterable):
        raise IllegalArgument(f"{partition}: the target must be a list of broker ids, not {brokers!r}")
    return [whole_number(f"{partition}: broker id", broker, 0) for broker in brokers]


def _elected(response: Any) -> Results[TopicPartition, bool]:
    done: dict[TopicPartition, bool] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for topic in response.replica_election_results:
        for entry in topic.partition_result:
            partition = TopicPartition(topic.topic, entry.partition_id)
            error = error_or_none(entry.error_code, entry.error_message)
            if error is None or isinstance(error, ElectionNotNeeded):
                done[partition] = error is None
            else:
                errors[partition] = error
    return done, errors


def _error_of(response: Any) -> KafkaError | None:
    if not response.error_code:
        return None
    return error_of(response.error_code, getattr(response, "error_message", None))
