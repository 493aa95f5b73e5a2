"""Topics and records: create, delete, list, describe (CreateTopics, DeleteTopics, Metadata)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pykafka2.admin.arguments import (
    config_value,
    request_timeout_ms,
    seconds_of,
    texts,
    uuid_bytes,
    whole_number,
)
from pykafka2.admin.group_descriptions import operations
from pykafka2.admin.outcomes import Outcomes, error_to_retry
from pykafka2.admin.throttled import until_accepted
from pykafka2.admin.values import NewTopic, TopicDescription
from pykafka2.driver.pollable import ToController
from pykafka2.errors import IllegalArgument, KafkaError, KafkaTimeoutError, error_of
from pykafka2.types import PartitionInfo

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.metadata import MetadataResponseTopic
    from pykafka2.protocol.messages.topics import CreateTopicsRequest

TOPIC_OPTIONS = ("num_partitions", "replication_factor", "assignments", "configs")
"""The keys of a topic's options in a dict, with kafka-python's names."""


class TopicsAdmin:
    """The topic calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def create_topics(
        self,
        topics: Iterable[NewTopic | str] | Mapping[str, Mapping[str, Any]] | None = None,
        *,
        new_topics: Iterable[NewTopic | str] | Mapping[str, Mapping[str, Any]] | None = None,
        validate_only: bool = False,
        wait_for_metadata: bool = False,
        timeout: float | None = None,
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, TopicDescription]:
        """Create topics; a plain name uses the broker's defaults.

        Return each topic with its new id; its partitions appear in the metadata a moment later
        (`wait_for_topics`).

        Args:
            topics: `NewTopic` values and names, or a dict of options by name with kafka-python's keys
                "num_partitions", "replication_factor", "assignments" and "configs".
            new_topics: kafka-python's and aiokafka's name for `topics`.
            validate_only: have the controller check the request without creating anything.
            wait_for_metadata: wait until every partition has a leader.
            timeout_ms: the timeout in milliseconds, for programs written for kafka-python.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `TopicAlreadyExists`,
                `InvalidReplicationFactor`, `InvalidConfig`, `TopicAuthorizationFailed`. Topics above the
                controller mutation quota are requested again until the timeout; then their error is
                `ThrottlingQuotaExceeded`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        timeout = seconds_of(timeout, timeout_ms)
        chosen = new_topics if topics is None else topics
        if chosen is None or (topics is not None and new_topics is not None):
            raise TypeError("create_topics() takes the topics once: as topics, or as new_topics")
        wanted = _new_topics(chosen)
        if not wanted:
            return Outcomes({})
        created: dict[str, TopicDescription] = {}

        def create(remaining: Sequence[NewTopic], left: float) -> tuple[dict[str, KafkaError], int]:
            response = self._cluster.request(
                _create_request(remaining, validate_only, request_timeout_ms(self._cluster, timeout)),
                ToController(),
                left,
                lambda response: error_to_retry(response.topics),
            )
            errors: dict[str, KafkaError] = {}
            for topic in response.topics:
                if topic.error_code:
                    errors[topic.name] = error_of(topic.error_code, topic.error_message)
                else:
                    created[topic.name] = TopicDescription(topic.name, topic.topic_id, ())
            return errors, response.throttle_time_ms

        errors = until_accepted(self._cluster, wanted, create, lambda topic: topic.name, timeout)
        names = [topic.name for topic in wanted]
        outcomes = Outcomes.of_all(names, created, errors).checked("create_topics", raise_errors)
        if wait_for_metadata and not validate_only:
            self.wait_for_topics(created, timeout=timeout)
        return outcomes

    def delete_topics(
        self,
        topics: Iterable[str],
        *,
        timeout: float | None = None,
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, None]:
        """Delete topics by name with all their records.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `UnknownTopicOrPartition`,
                `TopicAuthorizationFailed`.
            IllegalArgument: `topics` is not a list of names; no request was sent.
        """
        from pykafka2.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
        from pykafka2.protocol.primitives import ZERO_UUID

        timeout = seconds_of(timeout, timeout_ms)
        names = texts("topics", topics)
        if not names:
            return Outcomes({})
        deleted: dict[str, None] = {}

        def delete(remaining: Sequence[str], left: float) -> tuple[dict[str, KafkaError], int]:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in remaining],
                topic_names=list(remaining),
                timeout_ms=request_timeout_ms(self._cluster, timeout),
            )
            response = self._cluster.request(
                request, ToController(), left, lambda response: error_to_retry(response.responses)
            )
            errors: dict[str, KafkaError] = {}
            for topic in response.responses:
                name = topic.name or ""
                if topic.error_code:
                    errors[name] = error_of(topic.error_code, topic.error_message)
                else:
                    deleted[name] = None
            return errors, response.throttle_time_ms

        errors = until_accepted(self._cluster, names, delete, lambda name: name, timeout)
        return Outcomes.of_all(names, deleted, errors).checked("delete_topics", raise_errors)

    def list_topics(self, *, include_internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of all topics that the principal may describe, sorted."""
        described = self._describe(None, timeout)
        return sorted(name for name, topic in described.items() if include_internal or not topic.is_internal)

    def describe_topics(
        self,
        topics: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, TopicDescription]:
        """Return the partitions, leaders and replicas of topics.

        `include_authorized_operations` also returns what the principal may do with each topic (KIP-430).
        """
        outcomes = self._describe(texts("topics", topics), timeout, include_authorized_operations)
        return outcomes.checked("describe_topics", raise_errors)

    def describe_topics_by_id(
        self,
        topic_ids: Iterable[bytes | UUID],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[bytes, TopicDescription]:
        """Return the topics with these ids, as `describe_topics` does (KIP-516).

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False), with `UnknownTopicId`.
            UnsupportedVersion: brokers before Kafka 3.1.
            IllegalArgument: an id is not one of 16 bytes; no request was sent.
        """
        from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        ids = _ids(topic_ids)
        if not ids:
            return Outcomes({})
        request = MetadataRequest(
            topics=[MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=include_authorized_operations,
        )
        found: dict[bytes, TopicDescription] = {}
        errors: dict[bytes, KafkaError] = {}
        for topic in self._cluster.request(request, timeout=timeout).topics:
            topic_id = bytes(topic.topic_id)
            if topic.error_code:
                errors[topic_id] = error_of(topic.error_code)
            else:
                found[topic_id] = _described(topic)
        outcomes = Outcomes.of_all(ids, found, errors)
        return outcomes.checked("describe_topics_by_id", raise_errors)

    def delete_topics_by_id(
        self, topic_ids: Iterable[bytes | UUID], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[bytes, None]:
        """Delete topics by id: a topic of the same name that was created later stays (KIP-516).

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `UnknownTopicId`,
                `TopicAuthorizationFailed`.
            UnsupportedVersion: brokers before Kafka 2.8.
            IllegalArgument: an id is not one of 16 bytes; no request was sent.
        """
        from pykafka2.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState

        ids = _ids(topic_ids)
        if not ids:
            return Outcomes({})
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=topic_id) for topic_id in ids],
            timeout_ms=request_timeout_ms(self._cluster, timeout),
        )
        deleted: dict[bytes, None] = {}
        errors: dict[bytes, KafkaError] = {}
        response = self._cluster.request(
            request, ToController(), timeout, lambda response: error_to_retry(response.responses)
        )
        for topic in response.responses:
            topic_id = bytes(topic.topic_id)
            if topic.error_code:
                errors[topic_id] = error_of(topic.error_code, topic.error_message)
            else:
                deleted[topic_id] = None
        outcomes = Outcomes.of_all(ids, deleted, errors)
        return outcomes.checked("delete_topics_by_id", raise_errors)

    def wait_for_topics(
        self, topics: Iterable[str], *, timeout: float | None = None, timeout_ms: float | None = None
    ) -> None:
        """Block until every partition of the topics has a leader; creates no topic.

        `timeout` applies to all topics together.

        Raises:
            KafkaTimeoutError: some partitions had no leader in time; names them.
            UnknownTopicOrPartition: a topic did not exist in time.
            NoBrokersAvailable: no broker was reached in time.
        """
        timeout = seconds_of(timeout, timeout_ms)
        cluster, clock = self._cluster, self._cluster.driver.clock
        seconds = cluster.seconds_of(timeout)
        deadline = clock.monotonic() + seconds
        for topic in topics:
            while True:
                version = cluster.metadata.version
                known = cluster.wait_for_topic(topic, max(deadline - clock.monotonic(), 0.0))
                without = [
                    f"{topic}-{number}"
                    for number in sorted(known.partitions)
                    if cluster.metadata.leader_of(topic, number) is None
                ]
                if not without:
                    break
                if not cluster.wait_for_metadata(version, max(deadline - clock.monotonic(), 0.0)):
                    raise KafkaTimeoutError(
                        f"no leader of {', '.join(without)} within {seconds:g} s; are their brokers up?"
                    )

    def _describe(
        self, names: list[str] | None, timeout: float | None, with_operations: bool = False
    ) -> Outcomes[str, TopicDescription]:
        from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=with_operations,
        )
        found: dict[str, TopicDescription] = {}
        errors: dict[str, KafkaError] = {}
        for topic in self._cluster.request(request, timeout=timeout).topics:
            name = topic.name or ""
            if topic.error_code:
                errors[name] = error_of(topic.error_code)
            else:
                found[name] = _described(topic)
        return Outcomes(found, errors)


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    name = topic.name or ""
    partitions = tuple(
        PartitionInfo(
            name,
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
        )
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    )
    authorized = operations(topic.topic_authorized_operations)
    return TopicDescription(name, bytes(topic.topic_id), partitions, topic.is_internal, authorized)


def _ids(topic_ids: Iterable[bytes | UUID]) -> list[bytes]:
    return list(dict.fromkeys(uuid_bytes("each of topic_ids", item) for item in topic_ids))


def _new_topics(topics: Iterable[NewTopic | str] | Mapping[str, Mapping[str, Any]]) -> list[NewTopic]:
    if isinstance(topics, str | NewTopic):
        raise IllegalArgument(f"topics={topics!r} must be a list; pass [{topics!r}] for a single topic")
    if isinstance(topics, Mapping):
        new_topics = [_from_options(name, options) for name, options in topics.items()]
    else:
        new_topics = [NewTopic(topic) if isinstance(topic, str) else topic for topic in topics]
    for topic in new_topics:
        if not isinstance(topic, NewTopic):
            raise IllegalArgument(f"topics must contain NewTopic values or names, not {topic!r}")
        _check_numbers(topic)
    return new_topics


def _check_numbers(topic: NewTopic) -> None:
    """Raise IllegalArgument for a number that no request can have; the controller checks all others."""
    whole_number(f"partitions of {topic.name!r}", topic.partitions, -(2**31))
    whole_number(f"replication_factor of {topic.name!r}", topic.replication_factor, -(2**15), 2**15 - 1)
    for partition, brokers in (topic.assignment or {}).items():
        for number in (partition, *brokers):
            whole_number(f"assignment of {topic.name!r}", number, -(2**31))


def _from_options(name: str, options: object) -> NewTopic:
    if not isinstance(options, Mapping):
        raise IllegalArgument(
            f"topics[{name!r}]={options!r} must be a dict; write {{name: {{'num_partitions': 3}}}}"
        )
    unknown = [option for option in options if option not in TOPIC_OPTIONS]
    if unknown:
        raise IllegalArgument(
            f"topics[{name!r}] has the unknown option {unknown[0]!r}; use one of {', '.join(TOPIC_OPTIONS)}"
        )
    return NewTopic(
        name,
        options.get("num_partitions", -1),
        options.get("replication_factor", -1),
        options.get("configs"),
        options.get("assignments"),
    )


def _create_request(topics: Sequence[NewTopic], validate_only: bool, timeout_ms: int) -> CreateTopicsRequest:
    from pykafka2.protocol.messages.topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=-1 if topic.assignment else topic.partitions,
                replication_factor=-1 if topic.assignment else topic.replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                    for index, brokers in (topic.assignment or {}).items()
                ],
                configs=[
                    CreatableTopicConfig(
                        name=name, value=config_value(f"topic {topic.name!r}: {name}", value)
                    )
                    for name, value in topic.configs.items()
                ],
            )
            for topic in topics
        ],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
