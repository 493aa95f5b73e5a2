"""CreatePartitions: adds partitions to existing topics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykafka2.broker.controller.topics import added_partitions, check_size
from pykafka2.broker.handlers.throttling import message_of, mutation_quota
from pykafka2.errors import BrokerError, InvalidRequest, UnknownTopicOrPartition, error_of
from pykafka2.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.quotas.client_quotas import MutationQuota
    from pykafka2.broker.server.request_context import RequestContext

FIRST_STRICT_VERSION = 3
"""Since then partitions above the controller mutation quota are rejected."""


def handle(
    services: Services, context: RequestContext, request: CreatePartitionsRequest, now: float
) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    duplicates = [name for name, count in times.items() if count > 1]
    results = [_failed(name, InvalidRequest("Duplicate topic name.")) for name in duplicates]
    quota = mutation_quota(services, context, FIRST_STRICT_VERSION, now)
    results += [
        _add(services, topic, quota, validate_only=request.validate_only)
        for topic in request.topics
        if times[topic.name] == 1
    ]
    return CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=results)


def _add(
    services: Services, topic: CreatePartitionsTopic, quota: MutationQuota, *, validate_only: bool
) -> CreatePartitionsTopicResult:
    assignments = topic.assignments
    try:
        check_size(topic.count)
        records = added_partitions(
            services.controller.state,
            topic.name,
            topic.count,
            None if assignments is None else [assigned.broker_ids for assigned in assignments],
            charge=quota.record,
        )
        if not validate_only:
            services.controller.write(records)
    except BrokerError as error:
        return _failed(topic.name, error)
    return CreatePartitionsTopicResult(name=topic.name)


def _failed(name: str, error: BrokerError) -> CreatePartitionsTopicResult:
    message = None if isinstance(error, UnknownTopicOrPartition) else message_of(error)
    return CreatePartitionsTopicResult(name=name, error_code=error.code or 0, error_message=message)


def refuse(request: CreatePartitionsRequest, code: int) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=[_failed(topic.name, error_of(code)) for topic in request.topics])
