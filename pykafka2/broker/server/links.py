"""Links between brokers: Kafka's messages as frames inside the process, which tests can cut and delay.

A link has one direction; a request needs the forward and the reverse link. Frames on a cut link are lost, and
the sender gets `LinkCut` at once, like a connection reset. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeVar

import attrs

from pykafka2.broker.security.principal import BROKER
from pykafka2.broker.server.request_channel import RequestChannel
from pykafka2.broker.server.request_context import Progress, ReceivedRequest, RequestContext
from pykafka2.broker.server.threads import Part
from pykafka2.clock import FOREVER
from pykafka2.errors import CorruptData, KafkaError, LinkCut, UnsupportedVersion
from pykafka2.protocol.framing import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    in_memory,
)
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.struct import Request, Response

R = TypeVar("R", bound=Response)

LENGTH_BYTES = 4

OnResponse = Callable[[Any, float], None]
OnFailure = Callable[[KafkaError, float], None]


@attrs.define(eq=False)
class Call:
    """One request in flight, until exactly one of its two callbacks is called."""

    request: type[Request[Any]]
    version: int
    source: int
    target: int
    on_response: OnResponse
    on_failure: OnFailure
    is_done: bool = False
    progress: Progress | None = None
    """The request's progress at the target; None before it has arrived there."""

    def end(self) -> None:
        """End the call without a callback.

        A component that still holds the call, such as a waiting request at the target, then does not keep the
        sender alive, which can have been recreated meanwhile.
        """
        self.is_done = True
        self.on_response = self.on_failure = _ignore


def _ignore(_response: object, _now: float) -> None:
    """Callback of an ended call."""


class Links(Part):
    """All links of a cluster. Delivers at once, or after a link's delay, in order."""

    def __init__(self, lock: Any) -> None:
        super().__init__("links")
        self._lock = lock
        self._queues: dict[int, RequestChannel] = {}
        self._cut: set[tuple[int, int]] = set()
        self._delays: dict[tuple[int, int], float] = {}
        self._rates: dict[tuple[int, int], float] = {}
        self.throttled_frames = 0
        """The number of frames that a link's rate delayed."""
        self.cut_fetches = 0
        """The number of fetches of followers that failed because a link was cut."""
        self._free_at: dict[tuple[int, int], float] = {}
        self._ready: deque[Callable[[float], None]] = deque()
        self._later: list[tuple[float, int, tuple[int, int], Callable[[float], None]]] = []
        self._freed: dict[tuple[int, int], None] = {}  # links whose rate limit was removed
        self._calls: dict[Call, None] = {}
        self._count = 0
        self._correlation_id = 0
        self._last_due: dict[tuple[int, int], float] = {}
        self._held: dict[int, list[Callable[[float], None]]] = {}  # pending deliveries to paused brokers
        self.on_frame: Callable[[int, int, memoryview], None] | None = None
        """Called with source, target and every frame when it is sent; used by the simulation's trace."""

    # ------------------------------------------------------------------ connected brokers

    def connect(self, broker_id: int, queue: RequestChannel) -> None:
        """Make a broker reachable."""
        self._queues[broker_id] = queue

    def disconnect(self, broker_id: int, now: float) -> None:
        """Disconnect a stopped broker: its own calls are dropped, and calls to it fail."""
        self._queues.pop(broker_id, None)
        self._held.pop(broker_id, None)
        for call in list(self._calls):
            if call.source == broker_id:
                call.end()
                del self._calls[call]
            elif call.target == broker_id:
                self._fail(call, f"broker {broker_id} has stopped")

    # ------------------------------------------------------------------ faults

    def cut(self, source: int, target: int) -> None:
        """Drop all frames from `source` to `target`, including those in flight."""
        self._cut.add((source, target))
        for call in list(self._calls):
            if (call.source, call.target) in ((source, target), (target, source)):
                self._fail_cut(call, source, target)

    def delay(self, source: int, target: int, seconds: float) -> None:
        """Delay frames from `source` to `target`; 0 removes the delay."""
        self._delays[source, target] = seconds

    def throttle(self, source: int, target: int, bytes_per_second: float | None) -> None:
        """Limit the rate from `source` to `target`.

        None removes the limit, and delayed frames arrive at once.
        """
        if bytes_per_second is None:
            self._free((source, target))
        else:
            self._rates[source, target] = bytes_per_second

    def pause(self, broker_id: int) -> None:
        """Hold all deliveries to a broker until `resume`."""
        self._held.setdefault(broker_id, [])

    def resume(self, broker_id: int) -> None:
        """Deliver what was held, in the order of arrival."""
        self._ready.extend(self._held.pop(broker_id, ()))
        self.signal()

    def join(self, source: int, target: int) -> None:
        self._cut.discard((source, target))
        self._delays.pop((source, target), None)
        self._free((source, target))

    def heal(self) -> None:
        """Restore every link."""
        self._cut.clear()
        self._delays.clear()
        for way in list(self._rates):
            self._free(way)

    def _free(self, way: tuple[int, int]) -> None:
        """Remove a rate limit: delayed frames are delivered early, but still in order."""
        if self._rates.pop(way, None) is not None:
            self._freed[way] = None
            self.signal()

    def is_cut(self, source: int, target: int) -> bool:
        return (source, target) in self._cut

    def is_under_way(self, request: type[Request[Any]], source: int, target: int) -> bool:
        """Return whether a request of this type was sent that no handler has taken yet."""
        return any(
            call.request is request
            and (call.source, call.target) == (source, target)
            and (call.progress is None or not call.progress.taken_at)
            for call in self._calls
        )

    # ------------------------------------------------------------------ calls

    def call(
        self,
        source: int,
        target: int,
        request: Request[R],
        version: int,
        on_response: Callable[[R, float], None],
        on_failure: OnFailure,
        now: float,
    ) -> None:
        """Send a request to another broker.

        One callback is called later, once, unless the sender has stopped.
        """
        call = Call(type(request), version, source, target, on_response, on_failure)
        self._calls[call] = None
        if self.is_cut(source, target):
            self._fail_cut(call, source, target)
            return
        if target not in self._queues:
            self._fail(call, f"broker {target} is not running")
            return
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        parts = encode_request(request, version, self._correlation_id, f"broker-{source}")
        frame = memoryview(b"".join(parts))[LENGTH_BYTES:]
        if self.on_frame is not None:
            self.on_frame(source, target, frame)
        self._carry((source, target), len(frame), lambda at: self._arrive(call, frame, at), now)

    def _arrive(self, call: Call, frame: memoryview, now: float) -> None:
        queue = self._queues.get(call.target)
        if call.is_done or self._is_held(call.target, lambda at: self._arrive(call, frame, at)):
            return
        if self.is_cut(call.source, call.target):
            self._fail_cut(call, call.source, call.target)
            return
        if queue is None:
            self._fail(call, f"broker {call.target} is not running")
            return
        try:
            header, request = decode_request(frame)
        except (CorruptData, UnsupportedVersion) as error:
            self._fail(call, f"broker {call.target} could not decode the request: {error}")
            return
        received = ReceivedRequest(
            request, call.version, header.correlation_id, header.client_id, len(frame), now
        )
        context = RequestContext(LinkOrigin(self, call), received)
        call.progress = context.progress
        queue.put(context)

    def respond(self, call: Call, response: Response, version: int, correlation_id: int, now: float) -> int:
        """Send a response back. Return the number of bytes sent."""
        if self.is_cut(call.target, call.source):
            self._fail_cut(call, call.target, call.source)
            return 0
        try:
            parts = in_memory(encode_response(response, version, correlation_id))
            frame = memoryview(b"".join(parts))[LENGTH_BYTES:]
        except KafkaError as error:
            self._fail(call, f"broker {call.target} could not encode its response: {error}")
            return 0
        if self.on_frame is not None:
            self.on_frame(call.target, call.source, frame)
        way = (call.target, call.source)
        self._carry(way, len(frame), lambda at: self._return(call, frame, at), now)
        return LENGTH_BYTES + len(frame)

    def _return(self, call: Call, frame: memoryview, now: float) -> None:
        if call.is_done:
            return
        if self.is_cut(call.target, call.source):
            self._fail_cut(call, call.target, call.source)
            return
        if self._is_held(call.source, lambda at: self._return(call, frame, at)):
            return
        _, response = decode_response(frame, call.request, call.version)
        on_response = call.on_response
        call.end()
        self._calls.pop(call, None)
        on_response(response, now)

    def fail(self, call: Call, why: str) -> None:
        """End a call without a response. From any thread; the caller must not need to hold the lock."""
        with self._lock:
            self._fail(call, why)

    def _fail_cut(self, call: Call, source: int, target: int) -> None:
        """Fail a call whose request or response was on a cut link."""
        if call.request is FetchRequest:
            self.cut_fetches += 1
        self._fail(call, f"the link from broker {source} to broker {target} is cut")

    def _fail(self, call: Call, why: str) -> None:
        if call.is_done:
            return
        source, on_failure = call.source, call.on_failure
        call.end()
        self._calls.pop(call, None)
        self._ready.append(lambda now: self._report_failure(source, on_failure, why, now))
        self.signal()

    def _report_failure(self, source: int, on_failure: OnFailure, why: str, now: float) -> None:
        if not self._is_held(source, lambda at: self._report_failure(source, on_failure, why, at)):
            on_failure(LinkCut(why), now)

    def _is_held(self, broker_id: int, deliver: Callable[[float], None]) -> bool:
        """Return whether a broker is paused; `deliver` is then called after its `resume`."""
        held = self._held.get(broker_id)
        if held is not None:
            held.append(deliver)
        return held is not None

    # ------------------------------------------------------------------ one-way messages

    def post(
        self,
        source: int,
        target: int,
        deliver: Callable[[float], None],
        lost: Callable[[float], None],
        now: float,
        extra_delay: float = 0.0,
    ) -> None:
        """Send a one-way message.

        Call `deliver`, at once unless the link is delayed. Call `lost` if the link is cut or the target is
        paused.
        """
        way = (source, target)

        def arrive(at: float) -> None:
            if target not in self._queues or target in self._held or way in self._cut:
                lost(at)
            else:
                deliver(at)

        delay = self._delays.get(way, 0.0) + extra_delay
        if delay <= 0 and self._last_due.get(way, 0.0) <= now:
            arrive(now)
            return
        self._count += 1
        heappush(self._later, (now + delay, self._count, way, arrive))
        self.signal()

    # ------------------------------------------------------------------ carrying

    def _carry(
        self, way: tuple[int, int], size_bytes: int, deliver: Callable[[float], None], now: float
    ) -> None:
        sent_at = now
        rate = self._rates.get(way)
        if rate is not None:
            self.throttled_frames += 1
            sent_at = self._free_at[way] = max(now, self._free_at.get(way, 0.0)) + size_bytes / rate
        due = max(sent_at + self._delays.get(way, 0.0), self._last_due.get(way, 0.0))
        if due <= now:
            self._ready.append(deliver)
        else:
            # A later, shorter delay must not reorder frames.
            self._last_due[way] = due
            self._count += 1
            heappush(self._later, (due, self._count, way, deliver))
        self.signal()

    def run(self, now: float) -> float:
        with self._lock:
            if self._freed:
                self._release()
            while self._later and self._later[0][0] <= now:
                self._ready.append(heappop(self._later)[3])
            for _ in range(len(self._ready)):
                deliver = self._ready.popleft()
                try:
                    deliver(now)
                except Exception as error:
                    self.loop.problems.note("a delivery on a link between brokers", error)
            if self._ready:
                self.signal()
            return self._later[0][0] if self._later else FOREVER

    def _release(self) -> None:
        """Deliver the frames that wait on links whose rate limit was removed, in order."""
        later, self._later = sorted(self._later), []
        for entry in later:
            if entry[2] in self._freed:
                self._ready.append(entry[3])
            else:
                self._later.append(entry)
        for way in self._freed:
            self._last_due.pop(way, None)
            self._free_at.pop(way, None)
        self._freed.clear()


class LinkOrigin:
    """The `Origin` of requests from another broker."""

    __slots__ = ("_call", "_links", "peer")

    is_broker = True
    software = ""
    is_closed = False
    caller = BROKER
    authentication = None
    parts: tuple[str, ...] = ("links",)

    def __init__(self, links: Links, call: Call) -> None:
        self._links = links
        self._call = call
        self.peer = f"broker-{call.source}"

    def when_closed(self, then: Callable[[float], object]) -> None:
        """Do nothing: a link does not close."""

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        if response is None:
            self._links.fail(self._call, "there was no response")
            return
        progress = context.progress
        now = progress.responded_at = self._links.loop.runtime.clock.monotonic()
        context.delivery.response_bytes = self._links.respond(
            self._call, response, context.version, context.received.correlation_id, now
        )
        if progress.metrics is not None:
            progress.metrics.record(context, now)

    def local_processed(self, context: RequestContext) -> None:
        """Do nothing: brokers have one request in flight on each link, so none is waiting."""

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        self._links.fail(self._call, f"broker {self._call.target} closed the connection")
