"""The admin port: controls, rules and views of a cluster over HTTP and JSON, with a token.

    POST /controls/cut_link  {"source": 0, "target": 1}   ->   {"result": null}

For clusters in another process (remote/cluster.py) and tests in other languages (`pykafka2 broker
--admin-port`).  It has its own loop on the runtime's network, so that a call can wait for the brokers;
requests are served one after another.  remote/api.py lists the calls.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs

from pykafka2.broker.base.image import address_text, loopback_of
from pykafka2.clock import FOREVER
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import CorruptData, KafkaError
from pykafka2.network.transport import READABLE, WRITABLE, Ready, Transport
from pykafka2.testing.api import LOOPBACK, ClusterApi
from pykafka2.testing.remote.api import AdminApi, UnknownCall
from pykafka2.testing.remote.waits import Wait

logger = logging.getLogger(__name__)

HEAD_END = b"\r\n\r\n"
LENGTH = "content-length"
MAX_HEAD_BYTES = 16 << 10
MAX_BODY_BYTES = 64 << 20
# Bytes that are read of a request without token, before the response.
MAX_STRANGERS_BODY_BYTES = 64 << 10
READ_BYTES = 64 << 10
MAX_CONNECTIONS = 100
"""Maximum number of connections; the oldest one that has not shown the token makes way for another."""
REQUEST_TIMEOUT = 30.0
"""Seconds within which a request must be complete, and its response must be taken."""
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

# Seconds between checks of a wait: there is no notification of every change.
LOOK_EVERY = 0.01

Answer = tuple[int, dict[str, Any]]
R = TypeVar("R")


class AdminPort:
    """Serves one cluster at `address` until `close`.  Callers must send `token` as
    `Authorization: Bearer TOKEN`.
    """

    def __init__(
        self,
        cluster: ClusterApi,
        runtime: Runtime,
        port: int = 0,
        token: str | None = None,
        host: str = LOOPBACK,
    ) -> None:
        self.token = token or runtime.entropy.token_bytes(16).hex()
        self.problems = cluster.problems
        self._api = AdminApi(cluster)
        self._listener = runtime.network.listen(host, port)
        self.address = address_text(loopback_of(host), self._listener.port)
        self._selector = runtime.network.selector()
        self._callers: dict[Caller, None] = {}
        self._selector.register(self._listener, READABLE, self)
        self._task = runtime.spawn("kafka-admin-port", self, self._selector)

    def close(self) -> None:
        """Stop serving.  Can be repeated."""
        self._task.stop()  # and with it the selector
        for caller in self._callers:
            caller.transport.close()
        self._callers.clear()
        self._listener.close()

    # ------------------------------------------------------------------ the loop's thread

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        """Take one turn (see `runtime.Step`)."""
        for target, bits in events:
            if target is self:
                self._accept(now)
            elif isinstance(target, Caller) and target in self._callers:
                target.on_ready(bits, now)
        due = FOREVER
        for caller in list(self._callers):
            if caller.look(now):
                due = min(due, now + LOOK_EVERY)
            elif now >= caller.deadline:
                logger.debug("admin port: %s takes too long", caller.transport.peer)
                caller.close()
            else:
                due = min(due, caller.deadline)
        return due

    def _accept(self, now: float) -> None:
        while True:
            try:
                transport = self._listener.accept()
            except KafkaError as error:
                logger.warning("admin port: %s", error)
                return
            if transport is None:
                return
            if len(self._callers) >= MAX_CONNECTIONS and not self._make_way():
                logger.warning("admin port: %s is refused: %d connections", transport.peer, MAX_CONNECTIONS)
                transport.close()
                continue
            caller = Caller(self, transport, now)
            self._callers[caller] = None
            self._selector.register(transport, READABLE, caller)

    def _make_way(self) -> bool:
        """Close the oldest connection without the token. Return False if all have shown it."""
        oldest = next((caller for caller in self._callers if not caller.is_known), None)
        if oldest is not None:
            oldest.close()
        return oldest is not None

    def wait_for(self, caller: Caller, interest: int) -> None:
        """Set the events of a connection that the selector watches: reading, writing, or both."""
        self._selector.modify(caller.transport, interest, caller)

    def forget(self, caller: Caller) -> None:
        """Remove a closed connection."""
        if caller in self._callers:
            del self._callers[caller]
            self._selector.unregister(caller.transport)

    def knows(self, token: str | None) -> bool:
        """Return whether the token is correct."""
        from hmac import compare_digest

        return token is not None and compare_digest(token.encode(), self.token.encode())

    def answer(self, method: str, path: str, token: str | None, body: bytes) -> Answer | Wait:
        """Serve one call.  The response contains any error; a `Wait` is answered later."""
        name = path.partition("?")[0].strip("/")
        if name == "health":
            return self._health()
        if name == "openapi.json":
            return self._safely(name, lambda: (200, self._api.openapi()))
        if not self.knows(token):
            return UNAUTHORIZED
        if not name:
            return 200, {"result": self._api.names()}
        if name == "help":
            return 200, {"result": self._api.help()}

        def call() -> Answer | Wait:
            arguments = json.loads(body) if body.strip() else {}
            if not isinstance(arguments, dict) or method not in ("GET", "POST"):
                return 400, _error("BadRequest", "POST a JSON object of arguments, or GET without any")
            result = self._api.call(name, arguments)
            return result if isinstance(result, Wait) else (200, {"result": result})

        return self._safely(name, call)

    def _health(self) -> Answer:
        """Return whether the cluster runs; container health checks have no token."""
        try:
            return 200, {"result": self._api.health()}
        except Exception as error:
            return 503, _error(type(error).__name__, "the cluster does not run")

    def look(self, wait: Wait, now: float) -> Answer | None:
        """Return the response of a waiting call, None while it waits."""
        return self._safely(wait.call, lambda: (200, {"result": wait.result}) if wait.is_over(now) else None)

    def _safely(self, name: str, call: Callable[[], R]) -> R | Answer:
        """Return the response of a call: its result or its error."""
        try:
            return call()
        except UnknownCall as error:
            return 404, _error("UnknownCall", str(error))
        except (KafkaError, ValueError, TypeError, AttributeError, RecursionError) as error:
            return 400, _error(type(error).__name__, str(error))
        except Exception as error:
            self.problems.note(f"the admin port's {name}", error)
            return 500, _error(type(error).__name__, str(error))


@attrs.define(frozen=True)
class Head:
    """The head of a request."""

    method: str
    path: str
    token: str | None
    body_bytes: int
    is_last: bool
    """Whether the connection closes after the response."""

    @classmethod
    def read(cls, head: bytes) -> Head:
        """Parse a head.  Raise `CorruptData` if it is not HTTP/1, or if the body is too large."""
        try:
            method, path, version = head.split(b"\r\n")[0].decode("ascii").split(" ")
        except ValueError:
            version = ""
        if version not in ("HTTP/1.0", "HTTP/1.1"):
            raise CorruptData("the request does not begin with a line such as POST /topics HTTP/1.1")
        fields = _fields(head)
        if "transfer-encoding" in fields:
            raise CorruptData("Transfer-Encoding is not supported; send the body with Content-Length")
        digits = fields.get(LENGTH, "0")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            raise CorruptData("Content-Length is not a number")
        length = int(digits)
        if length > MAX_BODY_BYTES:
            raise CorruptData(f"the body has {length} bytes, more than {MAX_BODY_BYTES}")
        scheme, _, token = fields.get("authorization", "").partition(" ")
        shown = token.strip() if scheme.lower() == "bearer" else None
        connection = fields.get("connection", "keep-alive" if version == "HTTP/1.1" else "close")
        return cls(method, path, shown, length, connection.lower() == "close")


class Caller:
    """One connection of the port: parses bytes into calls, and responds in order."""

    def __init__(self, port: AdminPort, transport: Transport, now: float) -> None:
        self.transport = transport
        self.is_known = False
        """Whether it has shown the token."""
        self._since = now  # the last progress: a request that began or ended, bytes that were taken
        self._port = port
        self._received = bytearray()
        self._searched = 0  # no end of a head up to here
        self._head: Head | None = None  # head of the request whose body is being read
        self._unsent: deque[memoryview] = deque()
        self._is_ending = False
        self._wait: Wait | None = None
        """The waiting call; later calls on this connection are not read before it ends."""

    @property
    def deadline(self) -> float:
        """When it takes too long; an idle connection that has shown the token can stay."""
        is_idle = not (self._received or self._head or self._unsent)
        return FOREVER if is_idle and self.is_known else self._since + REQUEST_TIMEOUT

    def on_ready(self, bits: int, now: float) -> None:
        def go_on() -> None:
            if bits & READABLE and not self._is_ending:
                self._read(now)
            self._go_on(now)

        self._safely(go_on)

    def look(self, now: float) -> bool:
        """Check the waiting call.  Return whether it still waits."""

        def go_on() -> None:
            if self._wait is None:
                return
            answer = self._port.look(self._wait, now)
            if answer is None:
                return
            self._wait = None
            self._since = now
            self._answer(*answer)
            self._go_on(now)

        self._safely(go_on)
        return self._wait is not None

    def _safely(self, go_on: Callable[[], None]) -> None:
        """Close the connection on any error."""
        try:
            go_on()
        except KafkaError as error:
            logger.debug("admin port: %s: %s", self.transport.peer, error)
            self.close()
        except Exception as error:
            self._port.problems.note(f"the admin port, serving {self.transport.peer}", error)
            self.close()

    def close(self) -> None:
        self._wait = None
        self._port.forget(self)
        self.transport.close()

    def _read(self, now: float) -> None:
        scratch = memoryview(bytearray(READ_BYTES))
        count = self.transport.read_into(scratch)
        if count is None:
            return
        if count == 0:
            raise CorruptData("the caller has disconnected")
        if not self._received and self._head is None:
            self._since = now
        self._received += scratch[:count]
        if len(self._received) > MAX_HEAD_BYTES + MAX_BODY_BYTES:
            raise CorruptData("too much was sent behind a call that waits")

    def _go_on(self, now: float) -> None:
        """Send responses and serve further requests.

        A request is served once the response before it has been sent, and nothing is read meanwhile: callers
        without the token that take no responses would use up the memory.
        """
        self._write(now)
        while not (self._unsent or self._is_ending or self._wait is not None) and self._take_request(now):
            self._write(now)
        if self._is_ending and not self._unsent and self._wait is None:
            self.close()
            return
        self._port.wait_for(self, WRITABLE if self._unsent else READABLE)

    def _take_request(self, now: float) -> bool:
        """Serve the next request.  Return False if it is not complete."""
        try:
            return self._take_complete_request(now)
        except CorruptData as error:  # where the next request begins is unknown
            self._is_ending = True
            self._received.clear()
            self._answer(400, _error("BadRequest", str(error)))
            return True

    def _take_complete_request(self, now: float) -> bool:
        """Skip bytes that were searched before."""
        received = self._received
        if self._head is None:
            end = received.find(HEAD_END, self._searched)
            if max(end, len(received) if end < 0 else 0) > MAX_HEAD_BYTES:
                raise CorruptData("the head of the request is too long")
            if end < 0:
                self._searched = max(len(received) - len(HEAD_END) + 1, 0)
                return False
            self._head = Head.read(bytes(received[:end]))
            del received[: end + len(HEAD_END)]
            self._searched = 0
            if self._head.body_bytes > MAX_STRANGERS_BODY_BYTES and not self._port.knows(self._head.token):
                self._is_ending = True
                self._answer(*UNAUTHORIZED)
                return True
        head = self._head
        if len(received) < head.body_bytes:
            return False
        body = bytes(received[: head.body_bytes])
        del received[: head.body_bytes]
        self._head = None
        self._since = now
        self.is_known = self.is_known or self._port.knows(head.token)
        self._is_ending = head.is_last
        answer = self._port.answer(head.method, head.path, head.token, body)
        if isinstance(answer, Wait):
            self._wait = answer  # the same turn makes the first check
        else:
            self._answer(*answer, has_body=head.method != "HEAD")
        return True

    def _answer(self, status: int, result: dict[str, Any], has_body: bool = True) -> None:
        body = json.dumps(result).encode()
        head = (
            f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._unsent.append(memoryview(head.encode()))
        if has_body:
            self._unsent.append(memoryview(body))

    def _write(self, now: float) -> None:
        while self._unsent:
            taken = self.transport.write(list(self._unsent))
            if not taken:
                break
            self._since = now
            while taken:
                first = self._unsent[0]
                if taken >= len(first):
                    taken -= len(first)
                    self._unsent.popleft()
                else:
                    self._unsent[0], taken = first[taken:], 0


def _fields(head: bytes) -> dict[str, str]:
    """Return the header fields, with names in lower case.  Raise `CorruptData`."""
    fields: dict[str, str] = {}
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise CorruptData("a line of the head is no header field such as Content-Length: 2")
        if fields.setdefault(name.lower(), value.strip()) != value.strip() and name.lower() == LENGTH:
            raise CorruptData("there are two values of Content-Length")
    return fields


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}


UNAUTHORIZED: Answer = (401, _error("Unauthorized", "send the header Authorization: Bearer TOKEN"))
