"""Cached Metadata responses about all topics, built once for each cluster image.

With a thousand topics the response takes tens of milliseconds to build and encode, and clients request it
repeatedly. Every request gets its own message, which throttling and fault rules can modify. The bytes are
those of the first such response, encoded from values that nothing else references. One cache serves all
brokers of a cluster, which usually have the same image. handlers/metadata.py uses it under the cluster's
lock.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.broker.base.image import ClusterImage
from pykafka2.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

# Responses cached at a time: one for each combination of version, options and controller id.
MAX_BODIES = 16

Key = tuple[int, bool, bool, int, str]
"""Version, whether authorized operations of topics and the cluster are included, controller id, and the
client's listener.
"""


class MetadataCache:
    """Responses for the image of the last request; those for other images are dropped."""

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
        """Add all topics to a `response` that is otherwise complete.

        Return its bytes without header and length.
        """
        if image is not self._image:
            self._image = image
            self._topics.clear()
            self._bodies.clear()
        with_operations = key[1]
        shown = self._topics.get(with_operations)
        body = self._bodies.get(key)
        if body is None or shown is None:
            # Encode before the message is shared: code that reads the history may modify it.
            shown = response.topics = self._topics[with_operations] = build()
            body = response.encode(key[0])
            if len(self._bodies) >= MAX_BODIES:
                self._bodies.clear()
            self._bodies[key] = body
        response.topics = list(shown)
        return body
