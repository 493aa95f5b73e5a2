"""Brokers that keep fetch sessions, for `LogCluster`: requests and responses of a session, as in KIP-227."""

from __future__ import annotations

import attrs

from pykafka2.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from tests.cluster.scripted import Answer, Later, ScriptedBroker
from tests.consumer.logs import LogCluster

Key = tuple[str, bytes, int]


@attrs.define
class Session:
    id: int
    epoch: int
    partitions: dict[Key, FetchPartition]


class SessionCluster(LogCluster):
    """Answers incremental fetches from what their session remembers; a wrong epoch or id is an error."""

    def __init__(self, topics: dict[str, list[int]], brokers: int = 1) -> None:
        self.sessions: dict[int, Session] = {}
        self.errors: list[int] = []
        self.made = 0
        super().__init__(topics, brokers)

    def fetch(self, request: FetchRequest, broker: ScriptedBroker) -> Answer:
        if request.session_epoch == -1:
            return super().fetch(request, broker)
        session = self._session(request)
        if isinstance(session, int):
            self.errors.append(session)
            return FetchResponse(error_code=session, responses=[])
        whole = FetchRequest(
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            isolation_level=request.isolation_level,
            topics=[
                FetchTopic(topic=name, topic_id=topic_id, partitions=[one])
                for (name, topic_id, _), one in session.partitions.items()
            ],
        )
        later = super().fetch(whole, broker)
        assert isinstance(later, Later)
        make = later.make

        def make_news() -> FetchResponse:
            response = make()
            assert isinstance(response, FetchResponse)
            response.session_id = session.id
            if request.session_epoch:
                response.responses = [topic for topic in response.responses if _is_news(topic)]
            return response

        later.make = make_news
        return later

    def _session(self, request: FetchRequest) -> Session | int:
        """The partitions that the request covers, or an error code."""
        named = {
            (topic.topic, topic.topic_id, one.partition): one
            for topic in request.topics
            for one in topic.partitions
        }
        if request.session_epoch == 0:
            self.sessions.pop(request.session_id, None)
            self.made += 1
            session = self.sessions[self.made] = Session(self.made, 1, named)
            return session
        found = self.sessions.get(request.session_id)
        if found is None:
            return 70
        if found.epoch != request.session_epoch:
            return 71
        found.epoch += 1
        found.partitions.update(named)
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                del found.partitions[topic.topic, topic.topic_id, number]
        return found


def _is_news(topic: FetchableTopicResponse) -> bool:
    return any(one.records or one.error_code for one in topic.partitions)
