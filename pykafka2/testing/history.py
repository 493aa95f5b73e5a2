"""What the brokers were asked and what they answered: decoded, bounded, and countable.

`cluster.history.requests("Produce")` gives the requests themselves; `in_flight_max("Produce")` the largest
number that one connection had unanswered at a time.  Kept in memory up to a number of entries and of bytes;
the oldest go first. Requests between brokers are not part of it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import attrs

from pykafka2.errors import ConfigurationError
from pykafka2.protocol.registry import API_KEYS
from pykafka2.protocol.struct import Request, Response
from pykafka2.testing.configs import nearest
from pykafka2.testing.server.request_channel import RequestContext

MAX_ENTRIES = 10_000
MAX_BYTES = 32 << 20


@attrs.define(eq=False)
class Entry:
    """One request, and its answer once there is one; times are those of the brokers' monotonic clock."""

    broker: int
    peer: str
    client_id: str | None
    api: str
    version: int
    correlation_id: int
    request: Request[Any]
    size_bytes: int
    received_at: float
    answered_at: float | None = None
    response: Response | None = None

    @property
    def latency(self) -> float | None:
        return None if self.answered_at is None else self.answered_at - self.received_at


class History:
    """Entries in the order of receipt.  Fed under the cluster's lock; may be read from any thread."""

    def __init__(self, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self.is_on = True
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: deque[Entry] = deque()
        self._open: dict[int, Entry] = {}
        self._bytes = 0
        self._in_flight: Counter[tuple[str, str]] = Counter()
        self._in_flight_max: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries))

    def entries(
        self, api: str | None = None, *, client_id: str | None = None, broker: int | None = None
    ) -> list[Entry]:
        """Those that match; `api` by Kafka's name, such as "Produce" (a misspelt one raises)."""
        if api is not None:
            _check_api(api)
        return [
            entry
            for entry in self
            if (api is None or entry.api == api)
            and (client_id is None or entry.client_id == client_id)
            and (broker is None or entry.broker == broker)
        ]

    def requests(
        self, api: str, *, client_id: str | None = None, broker: int | None = None
    ) -> list[Request[Any]]:
        """The decoded requests of one API, oldest first."""
        return [entry.request for entry in self.entries(api, client_id=client_id, broker=broker)]

    def in_flight_max(self, api: str) -> int:
        """The most requests of this API that one connection had unanswered at the same time."""
        _check_api(api)
        return self._in_flight_max[api]

    def clear(self) -> None:
        """Forget all that was seen; requests under way still count as in flight."""
        self._entries.clear()
        self._open.clear()
        self._bytes = 0
        self._in_flight_max.clear()

    # ------------------------------------------------------------------ fed by the brokers

    def received(self, broker: int, context: RequestContext) -> None:
        """A broker took a request in."""
        if not self.is_on:
            return
        api = API_KEYS[context.api_key].name
        entry = Entry(
            broker,
            context.peer,
            context.client_id,
            api,
            context.version,
            context.correlation_id,
            context.request,
            context.size_bytes,
            context.received_at,
        )
        self._entries.append(entry)
        self._open[id(context)] = entry
        self._bytes += entry.size_bytes
        # The newest stays, however large it is.
        while len(self._entries) > 1 and (
            len(self._entries) > self._max_entries or self._bytes > self._max_bytes
        ):
            self._bytes -= self._entries.popleft().size_bytes
        key = (context.peer, api)
        self._in_flight[key] += 1
        self._in_flight_max[api] = max(self._in_flight_max[api], self._in_flight[key])

    def ended(self, context: RequestContext, response: Response | None, now: float) -> None:
        """A request was answered (None: without bytes), or its connection is gone."""
        entry = self._open.pop(id(context), None)
        if entry is None:
            return
        key = (entry.peer, entry.api)
        self._in_flight[key] -= 1
        if not self._in_flight[key]:
            del self._in_flight[key]
        entry.answered_at = now
        # A fetch's records would keep much of the log alive.
        if entry.api != "Fetch":
            entry.response = response


def _check_api(api: str) -> None:
    names = [info.name for info in API_KEYS.values()]
    if api not in names:
        raise ConfigurationError(f"no request is called {api!r}{nearest(api, names)}")
