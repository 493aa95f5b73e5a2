"""Requests to the brokers and their responses: decoded, bounded, with assertions.

`cluster.history.requests("Produce")` returns the requests; `in_flight_max("Produce")` the largest number of
requests in flight on one connection; `exactly`, `never` and `order` raise AssertionError with what was seen
instead. Bounded by a number of entries and of bytes: the oldest entries are dropped first, and large
responses before them. Requests between brokers are not included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, overload

import attrs

from pykafka2.broker.base.arguments import ApiName, api_name
from pykafka2.broker.config.keys import nearest
from pykafka2.broker.server.request_context import HistoryEntry, RequestContext
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.registry import API_KEYS
from pykafka2.protocol.struct import Request, Response
from pykafka2.text import shown

if TYPE_CHECKING:
    from typing import Unpack

MAX_ENTRIES = 10_000
MAX_BYTES = 32 << 20
# A decoded response takes about ten times its bytes, and thousands of objects for the garbage collector:
# Metadata of a thousand topics, which clients request repeatedly, takes 2 MB.
LARGE_RESPONSE_BYTES = 4096
MAX_LARGE_RESPONSES_BYTES = 4 << 20
# `in_flight_max` covers this many clients and APIs: those with the latest requests.
MAX_CLIENTS = 1000
# Entries shown by a failed assertion.
SHOWN_ENTRIES = 20

Where = Callable[[Any], bool]

R = TypeVar("R", bound=Request[Any])


@attrs.define(eq=False)
class Entry:
    """One request, and its response once there is one; times are of the brokers' monotonic clock.

    `request` and `response` are the decoded messages (`ProduceRequest` ...): their fields are Kafka's names
    with underscores. Responses of fetches are not kept; of responses of 4 KiB and more only the newest 4 MiB
    are.
    """

    broker: int
    peer: str
    client_id: str | None
    api: str
    version: int
    correlation_id: int
    request: Any
    size_bytes: int
    received_at: float
    answered_at: float | None = None
    response: Any = None
    path: tuple[str, ...] = ()
    """The components that processed it: acceptor, processor, handler and, once the response is sent, the
    part that passes it to the socket.
    """

    def sent_by(self, part: str) -> None:
        """Record the part that passes the response to the socket."""
        self.path = (*self.path, part)

    def drop_response(self) -> None:
        """Drop the response to make room for newer large ones."""
        self.response = None

    @property
    def latency(self) -> float | None:
        """Seconds from receipt to the end of the request; None while it is open."""
        return None if self.answered_at is None else self.answered_at - self.received_at

    def __str__(self) -> str:
        client = f"{shown(self.client_id or 'no client_id')} ({self.peer})"
        return f"{self.received_at:.6f} broker {self.broker} <- {client}: {self.api} v{self.version}"


class Criteria(TypedDict, total=False):
    """Filters of entries.

    `peer` is a connection; `where` is a predicate on the decoded request; `since` is the entry after which
    to start, or a time of the brokers' monotonic clock, such as `simulation.now`.
    """

    client_id: str | None
    broker: int | None
    peer: str | None
    where: Where | None
    since: float | Entry | None


class History:
    """Entries in the order of receipt. Written under the cluster's lock; can be read from any thread."""

    def __init__(self, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self.is_on = max_entries > 0
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: deque[Entry] = deque()
        self._open: dict[int, Entry] = {}
        self._bytes = 0
        self._large: deque[tuple[HistoryEntry, int]] = deque()  # with the size of the response
        self._large_bytes = 0
        self._max_large_bytes = MAX_LARGE_RESPONSES_BYTES
        self._in_flight: dict[tuple[str, str], int] = {}
        self._in_flight_max: dict[str, int] = {}
        # the client with the latest request is last
        self._in_flight_max_of: dict[tuple[str, str | None], int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries))

    # ------------------------------------------------------------------ queries

    def entries(self, api: ApiName | None = None, **criteria: Unpack[Criteria]) -> list[Entry]:
        """Return requests with their responses, oldest first.

        `api` is a name, key or request class, or None for all; an unknown one raises.
        """
        name = None if api is None else api_name(api)
        check_criteria(criteria)
        entries = list(self)
        since = criteria.get("since")
        if isinstance(since, Entry) and since in entries:
            entries = entries[entries.index(since) + 1 :]
        return [entry for entry in entries if matches(entry, name, criteria)]

    @overload
    def requests(self, api: type[R], **criteria: Unpack[Criteria]) -> list[R]: ...

    @overload
    def requests(self, api: str | int | None = None, **criteria: Unpack[Criteria]) -> list[Any]: ...

    def requests(self, api: ApiName | None = None, **criteria: Unpack[Criteria]) -> list[Any]:
        """Return the decoded requests, oldest first; typed if `api` is a request class."""
        return [entry.request for entry in self.entries(api, **criteria)]

    def count(self, api: ApiName | None = None, **criteria: Unpack[Criteria]) -> int:
        """Return the number of requests."""
        return len(self.entries(api, **criteria))

    def in_flight_max(self, api: ApiName, *, client_id: str | None = None) -> int:
        """Return the maximum number of requests in flight of this API on one connection (of this client).

        Available for the thousand clients with the latest requests; 0 for others.
        """
        name = api_name(api)
        if client_id is None:
            return self._in_flight_max.get(name, 0)
        return self._in_flight_max_of.get((name, client_id), 0)

    # ------------------------------------------------------------------ assertions

    def exactly(self, number: int, api: ApiName | None = None, **criteria: Unpack[Criteria]) -> None:
        """Raise AssertionError, with the requests found, unless there were exactly this many."""
        found = self.entries(api, **criteria)
        if len(found) != number:
            what = "requests" if api is None else api_name(api)
            raise AssertionError(f"{len(found)} {what} instead of {number}{_shown(found)}")

    def never(self, api: ApiName | None = None, **criteria: Unpack[Criteria]) -> None:
        """Raise AssertionError if there was such a request."""
        found = self.entries(api, **criteria)
        if found:
            raise AssertionError(f"{len(found)} times, first: {found[0]}; {found[0].request!r}")

    def order(self, *steps: ApiName | tuple[ApiName, Where], **criteria: Unpack[Criteria]) -> None:
        """Raise AssertionError unless these requests were received in this order.

        Others may be between them.

        A step is an API, or an API and a predicate on the decoded request.
        """
        wanted = [
            (api_name(step[0]), step[1]) if isinstance(step, tuple) else (api_name(step), None)
            for step in steps
        ]
        entries = self.entries(**criteria)
        position = 0
        for number, (name, where) in enumerate(wanted):
            while position < len(entries) and not matches(entries[position], name, {"where": where}):
                position += 1
            if position == len(entries):
                before = ", ".join(name for name, _ in wanted[:number])
                raise AssertionError(
                    f"no {name} {f'after {before}' if before else 'at all'}{_shown(entries)}"
                )
            position += 1

    def clear(self) -> None:
        """Drop all entries; requests in progress still count as in flight."""
        self._entries.clear()
        self._bytes = 0
        self._large.clear()
        self._large_bytes = 0
        self._in_flight_max.clear()
        self._in_flight_max_of.clear()

    # ------------------------------------------------------------------ written by the brokers

    def received(self, broker: int, context: RequestContext) -> None:
        """Record a request that a broker received."""
        if not self.is_on:
            return
        api = API_KEYS[context.api_key].name
        received = context.received
        entry = Entry(
            broker,
            context.peer,
            context.client_id,
            api,
            context.version,
            received.correlation_id,
            received.request,
            received.size_bytes,
            received.received_at,
        )
        self._entries.append(entry)
        self._open[id(context)] = context.history_entry = entry
        self._bytes += entry.size_bytes
        # The newest entry stays, however large it is.
        while len(self._entries) > 1 and (
            len(self._entries) > self._max_entries or self._bytes > self._max_bytes
        ):
            self._bytes -= self._entries.popleft().size_bytes
        key = (context.peer, api)
        count = self._in_flight[key] = self._in_flight.get(key, 0) + 1
        if count > self._in_flight_max.get(api, 0):
            self._in_flight_max[api] = count
        known = self._in_flight_max_of
        client_key = (api, context.client_id)
        known[client_key] = max(known.pop(client_key, 0), count)
        if len(known) > MAX_CLIENTS:
            del known[next(iter(known))]

    def ended(self, context: RequestContext, response: Response | None, now: float) -> None:
        """Record the response to a request (None: without bytes), or that its connection closed."""
        entry = self._open.pop(id(context), None)
        if entry is None:
            return
        key = (entry.peer, entry.api)
        left = self._in_flight.pop(key) - 1
        if left:
            self._in_flight[key] = left
        entry.answered_at = now
        entry.path = (*context.origin.parts, context.progress.handled_by)
        # A fetch's records would keep much of the log alive.
        if entry.api != "Fetch":
            entry.response = response

    def left(self, context: RequestContext) -> None:
        """Record the size of a sent response; the oldest large responses are dropped for it."""
        size = context.delivery.response_bytes
        if size < LARGE_RESPONSE_BYTES or context.history_entry is None:
            return
        self._large.append((context.history_entry, size))
        self._large_bytes += size
        while len(self._large) > 1 and self._large_bytes > self._max_large_bytes:
            oldest, size = self._large.popleft()
            oldest.drop_response()
            self._large_bytes -= size


def check_criteria(criteria: Criteria) -> None:
    """Raise for an unknown filter, naming the nearest one, and for an illegal `since`: either would match
    everything.
    """
    for name in criteria:
        if name not in Criteria.__annotations__:
            close = nearest(name, Criteria.__annotations__)
            raise ConfigurationError(f"the history has no filter {name!r}{close}")
    since = criteria.get("since")
    if isinstance(since, bool) or not isinstance(since, int | float | Entry | None):
        raise ConfigurationError(
            f"since={since!r} is illegal. Set a time of the brokers' monotonic clock, or an entry."
        )


def matches(entry: Entry, api: str | None, criteria: Criteria) -> bool:
    """Return whether an entry matches the filters; the caller handles a `since` that is an entry."""
    since, where = criteria.get("since"), criteria.get("where")
    return (
        (api is None or entry.api == api)
        and criteria.get("client_id") in (None, entry.client_id)
        and criteria.get("broker") in (None, entry.broker)
        and criteria.get("peer") in (None, entry.peer)
        and (not isinstance(since, int | float) or entry.received_at >= since)
        and (where is None or where(entry.request))
    )


def _shown(entries: list[Entry]) -> str:
    """Return the last entries, for a message."""
    if not entries:
        return "; there were none"
    seen = "\n  ".join(map(str, entries[-SHOWN_ENTRIES:]))
    return f"; the last ones were\n  {seen}"
