"""What a consumer shows of itself: metrics, health as data, and in words what it waits for.

Any thread; reads what the two threads write, without locks, so the numbers are not taken at one instant.
"""

from __future__ import annotations

from typing import Any

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.bad_records import BadRecords
from pykafka2.consumer.fetch_buffer import FetchBuffer
from pykafka2.consumer.fetcher import Fetcher
from pykafka2.consumer.group_inspection import group_health, group_words
from pykafka2.consumer.group_parts import GroupParts
from pykafka2.consumer.progress import Progress
from pykafka2.consumer.subscription import Subscription


class Inspection:
    """Looks at the parts of one consumer."""

    def __init__(
        self,
        cluster: ClusterClient,
        subscription: Subscription,
        buffer: FetchBuffer,
        fetcher: Fetcher,
        bad_records: BadRecords,
        progress: Progress,
        group: GroupParts | None = None,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._buffer = buffer
        self._fetcher = fetcher
        self._bad_records = bad_records
        self._progress = progress
        self._group = group

    def metrics(self) -> dict[str, float]:
        return {
            "assigned-partitions": len(self._subscription.assigned),
            "fetch-total": self._fetcher.fetches,
            "bytes-consumed-total": self._buffer.taken_bytes,
            "buffered-bytes": self._buffer.size_bytes,
            "bad-records-total": self._bad_records.passed_over,
            "records-lag-max": self._greatest_lag(),
            "metadata-version": self._cluster.metadata.version,
        }

    def _greatest_lag(self) -> int:
        """Of all partitions, by what was handed to poll(); iteration may be up to one poll behind."""
        ends, positions = self._fetcher.table.readable_ends, self._subscription.positions
        lags = [ends[one] - position for one, position in list(positions.items()) if one in ends]
        return max(lags, default=0)

    def health(self) -> dict[str, Any]:
        cluster, metadata = self._cluster, self._cluster.metadata
        now = cluster.driver.clock.monotonic()
        state = "closed" if cluster.is_closed else "open"
        still = self._progress.standing_still()
        return {
            "state": "failed" if cluster.driver.failure is not None else state,
            "failure": None if cluster.driver.failure is None else repr(cluster.driver.failure),
            "connected": cluster.nodes.has_connection,
            "unreachable": cluster.nodes.failing(now),
            "throttled": cluster.nodes.throttled(now),
            "group": None if self._group is None else group_health(self._group, metadata, now),
            "partitions": {
                str(partition): {
                    "position": self._subscription.positions.get(partition),
                    "high_watermark": self._fetcher.table.high_watermarks.get(partition),
                    "buffered_bytes": self._buffer.bytes_of(partition),
                    "paused": assigned.is_paused,
                    "resetting": assigned.is_resetting,
                    "last_trouble": self._fetcher.table.troubles.get(partition),
                    "stands_still_for": still.get(partition, 0.0),
                }
                for partition, assigned in list(self._subscription.assigned.items())
            },
            "buffered_bytes": self._buffer.size_bytes,
            "metadata_version": metadata.version,
            "metadata_age": now - metadata.last_successful_refresh if metadata.version else None,
            "metadata_asked_age": now - metadata.last_refresh if metadata.last_refresh > 0 else None,
            "metadata_error": None if metadata.last_error is None else str(metadata.last_error),
        }

    def explain(self) -> str:
        health = self.health()
        if health["state"] != "open":
            because = f": {health['failure']}; close it, and make a new one" if health["failure"] else ""
            return f"The consumer is {health['state']}{because}."
        lines = []
        if not health["connected"]:
            lines.append(f"No broker is connected: {self._cluster.nodes.why_unreachable()}")
        else:
            lines += [f"{address} cannot be reached: {why}" for address, why in health["unreachable"].items()]
        lines += self._cluster.nodes.why_throttled(self._cluster.driver.clock.monotonic())
        if health["metadata_error"]:
            lines.append(f"The last request for metadata failed: {health['metadata_error']}")
        for topic in sorted(self._subscription.wanted_topics):
            error = self._cluster.metadata.topic_error(topic)
            if error is not None:
                lines.append(f"{error}.")
        for partition in sorted(self._subscription.assigned):
            known = self._cluster.metadata.topic(partition.topic)
            if known is not None and known.is_usable and partition.partition not in known.partitions:
                has = f"topic {partition.topic!r} has {len(known.partitions)} partitions"
                lines.append(f"{has} and no partition {partition.partition}.")
        if health["group"] is not None:
            lines += group_words(health["group"], self._subscription)
        elif not health["partitions"]:
            lines.append("No partition is assigned; subscribe() or assign(), then poll().")
        for made_anew in sorted(set(self._fetcher.table.made_anew)):
            lines.append(
                f"{made_anew}: its topic was deleted and made anew while it was read; the offset went to "
                "where auto_offset_reset says."
            )
        for name, one in health["partitions"].items():
            trouble = f"; the last trouble: {one['last_trouble'].rstrip('.')}" if one["last_trouble"] else ""
            still = f"; it has not advanced for {one['stands_still_for']:.0f} s"
            lines.append(f"{name} {_words(one)}{still if one['stands_still_for'] else ''}{trouble}.")
        return "\n".join(lines)


def _words(partition: dict[str, Any]) -> str:
    if partition["paused"]:
        return "is paused"
    position, end = partition["position"], partition["high_watermark"]
    if position is None:
        return "waits for its first position"
    if partition["buffered_bytes"]:
        return f"has {partition['buffered_bytes']} bytes waiting for poll() from offset {position} on"
    if end is None:
        return f"waits for its first fetch at offset {position}"
    if position >= end:
        return f"is read to its end, offset {end}"
    return f"is being fetched at offset {position}; it ends at {end}"
