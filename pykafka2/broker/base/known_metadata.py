"""Metadata answers about all topics, made once for each image of the cluster.

With a thousand topics the answer takes tens of milliseconds to build and to encode, and clients and tools ask
for it again and again.  Every asker gets a message of its own, for throttles and fault rules to write to; the
bytes are those of the first such answer, made of values that nobody else holds.  One for all brokers of a
cluster, which mostly have the same image; asked by handlers/metadata.py under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.broker.base.image import ClusterImage
from pykafka2.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

# Versions, what was asked for, and which broker is named as the controller, at a time.
MAX_BODIES = 16

Key = tuple[int, bool, bool, int, str]
"""Version, whether topics' and the cluster's operations are told, who is named as the controller, and the
listener by which the asker came.
"""


class KnownMetadata:
    """The answers of the last image that was asked about; those of others are forgotten."""

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._topics: dict[bool, list[MetadataResponseTopic]] = {}
        self._bodies: dict[Key, bytes] = {}

    def fill(
        self,
        response: MetadataResponse,
        image: ClusterImage,
        key: Key,
        build: Callable[[], list[MetadataResponseTopic]],
    ) -> bytes:
        """Give `response`, which is whole but for them, all topics; its bytes without header and length."""
        if image is not self._image:
            self._image = image
            self._topics.clear()
            self._bodies.clear()
        with_operations = key[1]
        shown = self._topics.get(with_operations)
        body = self._bodies.get(key)
        if body is None or shown is None:
            # Encoded before anybody sees it: who looks at the history may change what is there.
            shown = response.topics = self._topics[with_operations] = build()
            body = response.encode(key[0])
            if len(self._bodies) >= MAX_BODIES:
                self._bodies.clear()
            self._bodies[key] = body
        response.topics = list(shown)
        return body
