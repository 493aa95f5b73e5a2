"""Topics by their ids in what a coordinator is asked: OffsetCommit and OffsetFetch from version 10 on.

A request either names all its topics by id, or all by name: ids are used where the metadata has them all, as
in Java's client.  So an offset is not written for a topic that was made anew under the same name, as long as
the metadata does not know of it.  Pure but for the metadata, which any thread may read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs

from pykafka2.cluster.metadata import Metadata
from pykafka2.protocol.primitives import ZERO_UUID

LAST_VERSION_WITH_NAMES = 9


class NamedTopic(Protocol):
    """A topic of an answer."""

    name: str
    topic_id: bytes


@attrs.define(frozen=True)
class TopicIds:
    """The ids of the topics of one request; empty where not all of them are known."""

    by_name: dict[str, bytes]

    @classmethod
    def of(cls, topics: Iterable[str], metadata: Metadata) -> TopicIds:
        found = {topic: metadata.topic_id(topic) for topic in topics}
        return cls({} if ZERO_UUID in found.values() else found)

    @property
    def max_version(self) -> int | None:
        """The highest version that the request can use."""
        return None if self.by_name else LAST_VERSION_WITH_NAMES

    def of_topic(self, topic: str) -> bytes:
        return self.by_name.get(topic, ZERO_UUID)

    def made_anew(self, metadata: Metadata) -> list[str]:
        """Topics of these that have another id by now: others of the same name."""
        now = {topic: metadata.topic_id(topic) for topic in self.by_name}
        return sorted(topic for topic, one in self.by_name.items() if now[topic] not in (one, ZERO_UUID))

    def give_names(self, topics: Iterable[NamedTopic]) -> None:
        """Have the topics of an answer bear the names that were meant by their ids."""
        names = {topic_id: name for name, topic_id in self.by_name.items()}
        for topic in topics:
            topic.name = topic.name or names.get(topic.topic_id, "")


NO_IDS = TopicIds({})
