"""DeleteTopics: by name, or by id since version 6 (KIP-516)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykafka2.broker.handlers.throttling import message_of, mutation_quota
from pykafka2.errors import BrokerError, InvalidRequest, UnknownTopicId, UnknownTopicOrPartition, error_of
from pykafka2.protocol.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from pykafka2.protocol.primitives import ZERO_UUID

if TYPE_CHECKING:
    from pykafka2.broker.base.image import ClusterImage
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.quotas.client_quotas import MutationQuota
    from pykafka2.broker.server.request_context import RequestContext

FIRST_STRICT_VERSION = 5
"""Since then deletions above the controller mutation quota are rejected."""


def handle(
    services: Services, context: RequestContext, request: DeleteTopicsRequest, now: float
) -> DeleteTopicsResponse:
    quota = mutation_quota(services, context, FIRST_STRICT_VERSION, now)
    responses = _deleted(services, _requested(request), quota)
    return DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=responses)


def _requested(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    named = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    return [*request.topics, *named]


def _deleted(
    services: Services, requested: list[DeleteTopicState], quota: MutationQuota
) -> list[DeletableTopicResult]:
    """Reject topics that are named twice, by name or id, and delete the others (KIP-516)."""
    image = services.controller.image
    results: list[DeletableTopicResult] = []
    names = Counter(
        state.name for state in requested if state.name is not None and state.topic_id == ZERO_UUID
    )
    ids = Counter(state.topic_id for state in requested if state.name is None)
    named_ids = {image.topics[name].id for name in names if name in image.topics}
    seen: set[tuple[str | None, bytes]] = set()
    for state in requested:
        key = (state.name, state.topic_id)
        if key in seen:
            continue
        seen.add(key)
        try:
            if state.name is not None and state.topic_id != ZERO_UUID:
                raise InvalidRequest("You may not specify both topic name and topic id.")
            if state.name is None and state.topic_id == ZERO_UUID:
                raise InvalidRequest("Neither topic name nor id were specified.")
            if state.name is not None and names[state.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            if state.name is None and ids[state.topic_id] > 1:
                raise InvalidRequest("Duplicate topic id.")
            if state.name is None and state.topic_id in named_ids:
                continue  # reported with its name
            results.append(_delete(services, image, state, quota, by_both=ids))
        except BrokerError as error:
            results.append(_failed(state, error))
    return results


def _delete(
    services: Services,
    image: ClusterImage,
    state: DeleteTopicState,
    quota: MutationQuota,
    *,
    by_both: Counter[bytes],
) -> DeletableTopicResult:
    topic = image.topic_by_id(state.topic_id) if state.name is None else image.topics.get(state.name)
    if topic is None:
        if state.name is None:
            raise UnknownTopicId("This server does not host this topic ID.")
        raise UnknownTopicOrPartition("This server does not host this topic-partition.")
    if state.name is not None and topic.id in by_both:
        return DeletableTopicResult(
            name=topic.name,
            topic_id=topic.id,
            error_code=InvalidRequest.code or 0,
            error_message="The provided topic name maps to an ID that was already supplied.",
        )
    services.controller.delete_topic(topic.name, charge=quota.record)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)


def _failed(state: DeleteTopicState, error: BrokerError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=state.name, topic_id=state.topic_id, error_code=error.code or 0, error_message=message_of(error)
    )


def refuse(request: DeleteTopicsRequest, code: int) -> DeleteTopicsResponse:
    message = str(error_of(code))
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=state.name, topic_id=state.topic_id, error_code=code, error_message=message
            )
            for state in _requested(request)
        ]
    )
