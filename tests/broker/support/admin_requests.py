"""Requests of administration in one line each, for tests of the broker's responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pykafka2.errors import name_of
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from pykafka2.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from pykafka2.protocol.primitives import ZERO_UUID
from tests.broker.support.raw_client import RawClient

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3

Outcome = tuple[str, str | None]
"""An error by Kafka's name, and its message."""

# Kafka's messages about assignments, which creating topics, adding partitions and moving them share.
NOT_REGISTERED = "The manual partition assignment includes broker {}, but no such broker is registered."
TWICE = "The manual partition assignment includes the broker 0 more than once."
EMPTY = "The manual partition assignment includes an empty replica list."
NOT_CONSISTENT = (
    "The manual partition assignment includes a partition with {} replica(s), but this is not consistent "
    "with previous partitions, which have {} replica(s)."
)


def topic_of(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    configs: Mapping[str, str | None] | None = None,
    assignment: Mapping[int, Sequence[int]] | None = None,
) -> CreatableTopic:
    """Return a topic to create; with an assignment the two numbers are -1."""
    return CreatableTopic(
        name=name,
        num_partitions=-1 if assignment else partitions,
        replication_factor=-1 if assignment else factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(brokers))
            for number, brokers in (assignment or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


def create(
    wire: RawClient, *topics: CreatableTopic, validate_only: bool = False
) -> list[CreatableTopicResult]:
    return wire.call(CreateTopicsRequest(topics=list(topics), validate_only=validate_only), 7).topics


def metadata_of(wire: RawClient, *names: str, create: bool = True) -> list[MetadataResponseTopic]:
    """Return the metadata of topics, which creates missing ones with `create`."""
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
    return wire.call(request, 12).topics


def outcome(result: CreatableTopicResult | DeletableTopicResult) -> Outcome:
    return name_of(result.error_code), result.error_message


def delete(wire: RawClient, *topics: str | bytes) -> list[DeletableTopicResult]:
    """Delete by names and ids."""
    states = [
        DeleteTopicState(name=one, topic_id=ZERO_UUID)
        if isinstance(one, str)
        else DeleteTopicState(name=None, topic_id=one)
        for one in topics
    ]
    return wire.call(DeleteTopicsRequest(topics=states, timeout_ms=5000), 6).responses


def alter(
    wire: RawClient,
    resource_type: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
) -> Outcome:
    """Alter options of one resource with IncrementalAlterConfigs: (option, operation, value)."""
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequestAlterableConfig(name=option, config_operation=how, value=value)
            for option, how, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (response,) = wire.call(request, 1).responses
    return name_of(response.error_code), response.error_message


def describe(wire: RawClient, resource_type: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
    """Return the described options of one resource by name."""
    resource = DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = wire.call(request, 4).results
    assert result.error_code == 0, (name_of(result.error_code), result.error_message)
    return {config.name: config for config in result.configs}


def value_of(wire: RawClient, resource_type: int, name: str, option: str) -> tuple[str | None, int]:
    """Return the value and the source of an option."""
    config = describe(wire, resource_type, name)[option]
    return config.value, config.config_source


def api_versions(wire: RawClient, version: int = 4) -> ApiVersionsResponse:
    return wire.call(ApiVersionsRequest(client_software_name="x", client_software_version="1"), version)


def finalized_levels(wire: RawClient) -> dict[str, int]:
    """Return the finalized features with their levels."""
    return {one.name: one.max_version_level for one in api_versions(wire).finalized_features}


def add_partitions(
    wire: RawClient,
    topic: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None = None,
    *,
    validate_only: bool = False,
) -> Outcome:
    added = CreatePartitionsTopic(
        name=topic,
        count=count,
        assignments=None
        if assignments is None
        else [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignments],
    )
    request = CreatePartitionsRequest(topics=[added], timeout_ms=5000, validate_only=validate_only)
    (result,) = wire.call(request, 3).results
    return name_of(result.error_code), result.error_message
