"""The admin port: the controls, rules and views of a cluster over HTTP and JSON, on loopback, with a token.

    POST /controls/cut_link  {"source": 0, "target": 1}   ->   {"result": null}

For clusters in another process (remote/cluster.py) and tests in other languages (`pykafka2 broker
--admin-port`).  One loop of its own, over the runtime's network, so that a call may wait for the brokers;
requests are served one after another.  What may be called is remote/api.py's.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs

from pykafka2.clock import FOREVER
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import CorruptData, KafkaError
from pykafka2.network.transport import READABLE, WRITABLE, Ready, Transport
from pykafka2.testing.api import ClusterApi
from pykafka2.testing.remote.api import AdminApi, UnknownCall
from pykafka2.testing.remote.waits import Wait

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
HEAD_END = b"\r\n\r\n"
MAX_HEAD_BYTES = 16 << 10
MAX_BODY_BYTES = 64 << 20
# So much is read of who does not show the token, to answer behind it.
MAX_STRANGERS_BODY_BYTES = 64 << 10
READ_BYTES = 64 << 10
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 500: "Internal Server Error"}

# Nobody tells of every change, so what is waited for is looked at so often, in seconds.
LOOK_EVERY = 0.01

Answer = tuple[int, dict[str, Any]]
R = TypeVar("R")


class AdminPort:
    """Serves one cluster until `close`.  `address` is where, `token` what a caller must show as
    `Authorization: Bearer TOKEN`.
    """

    def __init__(
        self, cluster: ClusterApi, runtime: Runtime, port: int = 0, token: str | None = None
    ) -> None:
        self.token = token or runtime.entropy.token_bytes(16).hex()
        self.problems = cluster.problems
        self._api = AdminApi(cluster)
        self._listener = runtime.network.listen(LOOPBACK, port)
        self.address = f"{LOOPBACK}:{self._listener.port}"
        self._selector = runtime.network.selector()
        self._callers: dict[Caller, None] = {}
        self._selector.register(self._listener, READABLE, self)
        self._task = runtime.spawn("kafka-admin-port", self, self._selector)

    def close(self) -> None:
        """Stop serving.  Safe to repeat."""
        self._task.stop()  # and with it the selector
        for caller in self._callers:
            caller.transport.close()
        self._callers.clear()
        self._listener.close()

    # ------------------------------------------------------------------ the loop's thread

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        """One turn (see `runtime.Step`)."""
        for target, bits in events:
            if target is self:
                self._accept()
            elif isinstance(target, Caller):
                target.on_ready(bits, now)
        is_waited_for = False
        for caller in list(self._callers):
            is_waited_for |= caller.look(now)
        return now + LOOK_EVERY if is_waited_for else FOREVER

    def _accept(self) -> None:
        while True:
            try:
                transport = self._listener.accept()
            except KafkaError as error:
                logger.warning("admin port: %s", error)
                return
            if transport is None:
                return
            caller = Caller(self, transport)
            self._callers[caller] = None
            self._selector.register(transport, READABLE, caller)

    def wait_for(self, caller: Caller, interest: int) -> None:
        """What a caller's connection is watched for from now on: reading, writing, or both."""
        self._selector.modify(caller.transport, interest, caller)

    def forget(self, caller: Caller) -> None:
        """A caller's connection is gone."""
        if caller in self._callers:
            del self._callers[caller]
            self._selector.unregister(caller.transport)

    def knows(self, token: str | None) -> bool:
        """Whether this is the token."""
        from hmac import compare_digest

        return token is not None and compare_digest(token.encode(), self.token.encode())

    def answer(self, method: str, path: str, token: str | None, body: bytes) -> Answer | Wait:
        """One call.  Whatever goes wrong is said in the answer; a `Wait` is answered later."""
        if not self.knows(token):
            return UNAUTHORIZED
        name = path.partition("?")[0].strip("/")
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

    def look(self, wait: Wait, now: float) -> Answer | None:
        """The answer of a call that waits, once there is one."""
        return self._safely(wait.call, lambda: (200, {"result": wait.result}) if wait.is_over(now) else None)

    def _safely(self, name: str, call: Callable[[], R]) -> R | Answer:
        """What the call answers, or what went wrong."""
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
    """What stands before the body of a request."""

    method: str
    path: str
    token: str | None
    body_bytes: int
    is_last: bool
    """Whether the caller wants the connection to end with the answer."""

    @classmethod
    def read(cls, head: bytes) -> Head:
        """Raises `CorruptData` for what is no HTTP, and for a body that is too large."""
        try:
            method, path, _ = head.split(b"\r\n")[0].decode("ascii").split(" ")
            fields = _fields(head)
            length = int(fields.get("content-length", "0"))
        except ValueError as error:
            raise CorruptData(f"no HTTP: {error}") from error
        if not 0 <= length <= MAX_BODY_BYTES:
            raise CorruptData(f"a body of {length} bytes")
        scheme, _, token = fields.get("authorization", "").partition(" ")
        shown = token.strip() if scheme.lower() == "bearer" else None
        return cls(method, path, shown, length, fields.get("connection", "").lower() == "close")


class Caller:
    """One connection to the port: bytes in, calls out of them, answers in order."""

    def __init__(self, port: AdminPort, transport: Transport) -> None:
        self.transport = transport
        self._port = port
        self._received = bytearray()
        self._searched = 0  # so far there is no end of a head
        self._head: Head | None = None  # of the request whose body comes in
        self._unsent: deque[memoryview] = deque()
        self._is_ending = False
        self._wait: Wait | None = None
        """The call that is waited for; those behind it on this connection are not taken before."""

    def on_ready(self, bits: int, now: float) -> None:
        def go_on() -> None:
            if bits & READABLE and not self._is_ending:
                self._read(now)
            self._write()

        self._safely(go_on)

    def look(self, now: float) -> bool:
        """Look at what is waited for; whether anything still is."""

        def go_on() -> None:
            if self._wait is None:
                return
            answer = self._port.look(self._wait, now)
            if answer is None:
                return
            self._wait = None
            self._answer(*answer)
            self._take_requests(now)
            self._write()

        self._safely(go_on)
        return self._wait is not None

    def _safely(self, go_on: Callable[[], None]) -> None:
        """What goes wrong ends the connection."""
        try:
            go_on()
        except KafkaError as error:
            logger.debug("admin port: %s: %s", self.transport.peer, error)
            self.close()
        except Exception as error:
            self._port.problems.note(f"the admin port, asked by {self.transport.peer}", error)
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
            raise CorruptData("the caller has gone")
        self._received += scratch[:count]
        if len(self._received) > MAX_HEAD_BYTES + MAX_BODY_BYTES:
            raise CorruptData("too much was sent behind a call that waits")
        self._take_requests(now)

    def _take_requests(self, now: float) -> None:
        while not self._is_ending and self._wait is None and self._take_request(now):
            pass

    def _take_request(self, now: float) -> bool:
        """Answer the next request, if it is whole.  What has come before is not looked at again."""
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
                return False
        head = self._head
        if len(received) < head.body_bytes:
            return False
        body = bytes(received[: head.body_bytes])
        del received[: head.body_bytes]
        self._head = None
        self._is_ending = head.is_last
        answer = self._port.answer(head.method, head.path, head.token, body)
        if isinstance(answer, Wait):
            self._wait = answer  # the same turn takes the first look
        else:
            self._answer(*answer)
        return True

    def _answer(self, status: int, result: dict[str, Any]) -> None:
        body = json.dumps(result).encode()
        head = (
            f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._unsent += (memoryview(head.encode()), memoryview(body))

    def _write(self) -> None:
        while self._unsent:
            taken = self.transport.write(list(self._unsent))
            if not taken:
                break
            while taken:
                first = self._unsent[0]
                if taken >= len(first):
                    taken -= len(first)
                    self._unsent.popleft()
                else:
                    self._unsent[0], taken = first[taken:], 0
        if self._is_ending and not self._unsent and self._wait is None:
            self.close()
            return
        self._port.wait_for(self, READABLE | (WRITABLE if self._unsent else 0))


def _fields(head: bytes) -> dict[str, str]:
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    return {
        name.decode("latin-1").strip().lower(): value.decode("latin-1").strip() for name, _, value in lines
    }


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message}}


UNAUTHORIZED: Answer = (401, _error("Unauthorized", "send the header Authorization: Bearer TOKEN"))
