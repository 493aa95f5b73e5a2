"""DeleteTopics: by name, or by id from version 6 on (KIP-516)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.errors import BrokerError, InvalidRequest, UnknownTopicId, error_of
from pykafka2.protocol.messages.topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.testing.handlers.registry import handles, refuses

if TYPE_CHECKING:
    from pykafka2.testing.broker import Broker
    from pykafka2.testing.server.request_channel import RequestContext

FIRST_VERSION_WITH_IDS = 6


@handles(DeleteTopicsRequest, 1, 6, by_controller=True)
def handle(
    broker: Broker, context: RequestContext, request: DeleteTopicsRequest, now: float
) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(responses=[_delete(broker, state) for state in _asked(request)])


def _asked(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    named = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    return [*request.topics, *named]


def _delete(broker: Broker, state: DeleteTopicState) -> DeletableTopicResult:
    name, topic_id = state.name, state.topic_id
    try:
        if name is not None and topic_id != ZERO_UUID:
            raise InvalidRequest("You may not specify both topic name and topic id.")
        if name is None:
            if topic_id == ZERO_UUID:
                raise InvalidRequest("Neither topic name nor id were specified.")
            topic = broker.controller.image.topic_by_id(topic_id)
            if topic is None:
                raise UnknownTopicId
            name = topic.name
        else:
            known = broker.controller.image.topics.get(name)
            topic_id = known.id if known is not None else ZERO_UUID
        broker.controller.delete_topic(name)
    except BrokerError as error:
        return DeletableTopicResult(
            name=name, topic_id=topic_id, error_code=error.code or 0, error_message=str(error)
        )
    return DeletableTopicResult(name=name, topic_id=topic_id)


@refuses(DeleteTopicsRequest)
def refuse(request: DeleteTopicsRequest, code: int) -> DeleteTopicsResponse:
    words = str(error_of(code))
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=state.name, topic_id=state.topic_id, error_code=code, error_message=words
            )
            for state in _asked(request)
        ]
    )
