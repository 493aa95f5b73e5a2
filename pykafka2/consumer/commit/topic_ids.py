"""Topic ids in OffsetCommit and OffsetFetch requests, from version 10 on.

A request has either ids or names for all its topics: ids if the metadata has all of them, as in Java's
client. The coordinator then rejects offsets of a topic that was deleted and created again with the same
name, even if the metadata still has the old id. Pure, except for the metadata, which any thread can read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from pykafka2.cluster.metadata import Metadata
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.slotted import slotted

LAST_VERSION_WITH_NAMES = 9


class NamedTopic(Protocol):
    """A topic of a response."""

    name: str
    topic_id: bytes


@slotted(frozen=True)
class TopicIds:
    """The ids of the topics of one request; empty unless all of them are known."""

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

    def recreated(self, metadata: Metadata) -> list[str]:
        """Return the topics that were deleted and created again: their ids in the metadata differ."""
        now = {topic: metadata.topic_id(topic) for topic in self.by_name}
        return sorted(
            topic for topic, topic_id in self.by_name.items() if now[topic] not in (topic_id, ZERO_UUID)
        )

    def without(self, topics: Collection[str]) -> TopicIds:
        """Return the ids of the other topics."""
        return TopicIds({topic: found for topic, found in self.by_name.items() if topic not in topics})

    def give_names(self, topics: Iterable[NamedTopic]) -> None:
        """Set the names of response topics that have only an id."""
        names = {topic_id: name for name, topic_id in self.by_name.items()}
        for topic in topics:
            topic.name = topic.name or names.get(topic.topic_id, "")


NO_IDS = TopicIds({})
