"""A cluster's timeline as text or JSON: requests, responses and events, ordered by time.

`print(cluster.timeline())`; the pytest plugin attaches it to failed tests.  Built on demand from the history
and the event log; times are seconds since the cluster's start or its last `forget`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pykafka2.broker.base.arguments import error_name
from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.faults.partial_errors import partitions_of
from pykafka2.broker.observed.event_log import ClusterEvent
from pykafka2.broker.observed.history import Entry
from pykafka2.errors import for_code
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.struct import Struct
from pykafka2.testing.running import Running
from pykafka2.testing.views.metrics import ClusterMetrics, metrics_of
from pykafka2.text import shown

MAX_NAMED = 4
# Partitions that change at the same time and get a line each: a stopping broker changes hundreds.
MAX_AT_ONCE = 6


class Timeline:
    """All entries, oldest first; `str()` returns `text()`."""

    def __init__(
        self,
        entries: list[Entry],
        events: list[ClusterEvent],
        image: ClusterImage,
        started_at: float,
        metrics: ClusterMetrics,
        last: int | None = None,
    ) -> None:
        self._started_at = started_at
        self._image = image
        self._metrics = metrics
        both: list[tuple[float, Entry | ClusterEvent]] = [(entry.received_at, entry) for entry in entries]
        both += [(event.at, event) for event in folded(events)]
        both.sort(key=lambda one: one[0])
        self._left_out = 0 if last is None else max(len(both) - last, 0)
        self._items = [item for _, item in both[self._left_out :]]

    def __str__(self) -> str:
        return self.text()

    def __len__(self) -> int:
        return len(self._items)

    def text(self) -> str:
        """Return a line for each request and event, and a table of request times by API."""
        lines = [self._line(item) for item in self._items]
        if self._left_out:
            lines.insert(0, f"({self._left_out} earlier ones left out)")
        return "\n".join([*lines, *self._metrics.lines()])

    def json(self) -> str:
        """Return requests, events and request times as one JSON object: `timeline` and `metrics`."""
        return json.dumps({"timeline": self.as_list(), "metrics": self._metrics.as_dict()})

    def as_list(self) -> list[dict[str, Any]]:
        """Return requests and events as plain data."""
        return [self._data(item) for item in self._items]

    # ------------------------------------------------------------------ one item

    def _line(self, item: Entry | ClusterEvent) -> str:
        if isinstance(item, ClusterEvent):
            return f"{item.at - self._started_at:12.6f}  -- {item.kind}: {item.text}"
        data = self._data(item)
        took = "unanswered" if data["latency"] is None else f"{data['latency'] * 1000:.3f} ms"
        parts = list(map(shown, data["partitions"]))
        client = shown(str(item.client_id))
        named = " ".join(parts[:MAX_NAMED]) + (
            f" +{len(parts) - MAX_NAMED}" if len(parts) > MAX_NAMED else ""
        )
        errors = f"  {' '.join(data['errors'])}" if data["errors"] else ""
        return (
            f"{data['at']:12.6f}  {item.broker} <- {client} {item.peer}  {item.api} v{item.version} "
            f"#{item.correlation_id}  {named}{'  ' if named else ''}{took}{errors}"
        )

    def _data(self, item: Entry | ClusterEvent) -> dict[str, Any]:
        at = round(item.at if isinstance(item, ClusterEvent) else item.received_at, 9)
        if isinstance(item, ClusterEvent):
            return {"at": at - self._started_at, "kind": item.kind, "text": item.text, **item.facts}
        return {
            "at": at - self._started_at,
            "kind": "request",
            "broker": item.broker,
            "client_id": item.client_id,
            "peer": item.peer,
            "api": item.api,
            "version": item.version,
            "correlation_id": item.correlation_id,
            "size_bytes": item.size_bytes,
            "latency": item.latency,
            "path": list(item.path),
            "partitions": [
                topic if number is None else f"{topic}-{number}"
                for topic, number in partitions_of(item.request, self._image)
            ],
            "errors": list(dict.fromkeys(errors_in(item.response))) if item.response is not None else [],
        }


def folded(events: list[ClusterEvent]) -> list[ClusterEvent]:
    """Yield the events, with a single one if many partitions change leader or ISR at the same time; the
    test's own topics come before internal ones.
    """
    together: dict[tuple[float, str], list[ClusterEvent]] = {}
    for event in events:
        if event.kind in ("leader", "isr"):
            together.setdefault((event.at, event.kind), []).append(event)
    many = {key: group for key, group in together.items() if len(group) > MAX_AT_ONCE}
    found: list[ClusterEvent] = []
    for event in events:
        group = many.get((event.at, event.kind))
        if group is None:
            found.append(event)
        elif event is group[0]:
            group.sort(key=lambda one: one.text.startswith("__"))  # stable
            found += group[: MAX_AT_ONCE - 1]
            rest = [one.facts["partition"] for one in group[MAX_AT_ONCE - 1 :]]
            text = f"and {len(rest)} more partitions, from {rest[0]} to {rest[-1]}"
            found.append(ClusterEvent(event.at, event.kind, text, {"partitions": rest}))
    return found


def timeline_of(running: Running, last: int | None) -> Timeline:
    """Implement `ClusterApi.timeline`; also works after the end of the cluster."""
    with running.lock:
        return Timeline(
            running.history.entries(),
            running.events.events(),
            running.controllers.image,
            running.shared.history_started_at,
            metrics_of(running),
            last,
        )


def errors_in(struct: Struct) -> Iterator[str]:
    """Return Kafka's names of the errors in a response, in any of its fields."""
    for one in resolved_fields(type(struct)):
        value = getattr(struct, one.name)
        if one.name.endswith("error_code") and value:
            yield error_name(for_code(value))
        elif one.struct is not None and value is not None:
            for inner in value if one.array else (value,):
                yield from errors_in(inner)
