"""A broker that lies: its answers are changed on their way to the clients, in virtual time.

The broker is the bundled one and honest; a `Liar` stands in each connection of a client to it, knows which
request an answer belongs to, and says something else, or nothing, or bytes that are no answer at all.  The
client is real down to the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from pykafka2.protocol.framing import decode_request, decode_response, encode_response
from pykafka2.protocol.struct import Response
from pykafka2.testing import Simulation
from pykafka2.testing.simulation.transports import RESET, SimConnection


@attrs.define
class Bytes:
    """Instead of an answer: these bytes, whatever they are, or one at a time, so many seconds apart."""

    data: bytes
    seconds_apart: float = 0.0


@attrs.define
class Several:
    """In place of one answer: these, one after the other."""

    answers: list[Answer]


class Silence:
    """No answer, ever; the connection stays open."""


class End:
    """The connection ends in place of an answer."""


class Reset:
    """The connection is reset in place of an answer."""


Answer = Response | Bytes | Several | Silence | End | Reset


@attrs.define(eq=False)
class Question:
    """A request that a client sent to the liar."""

    at: float
    version: int
    correlation_id: int
    request: Any

    @property
    def api(self) -> str:
        return str(self.request.NAME).removesuffix("Request")

    def frame(self, body: bytes) -> bytes:
        """An answer to it with this body, behind a header that is right."""
        flexible = type(self.request).RESPONSE.is_flexible(self.version) and self.api != "ApiVersions"
        head = struct.pack(">i", self.correlation_id) + (b"\0" if flexible else b"")
        return struct.pack(">i", len(head) + len(body)) + head + body

    def encoded(self, response: Response, version: int | None = None) -> bytes:
        version = self.version if version is None else version
        return b"".join(encode_response(response, version, self.correlation_id))


Tell = Callable[[Question, Any], Answer]
"""Replaces an honest response, which it may change in place and return."""


class Liar:
    """In all connections of clients to the brokers of `places`, made from now on.

    `lie(api, tell)` begins to answer that API by `tell`; `be_honest()` ends all lies.
    """

    def __init__(self, simulation: Simulation, *places: str) -> None:
        self.simulation = simulation
        self.questions: list[Question] = []
        self.lie_count = 0
        self.greets_with: bytes | None = None
        """Bytes that each new connection begins with, before any request."""
        self._places = places
        self._tells: dict[str, Tell] = {}
        simulation.network.on_connection = self._stand_between

    def lie(self, api: str, tell: Tell) -> None:
        self._tells[api] = tell

    def be_honest(self) -> None:
        self._tells.clear()
        self.greets_with = None

    def busiest_second(self, since: float) -> int:
        """The most requests that came within one second, from this virtual time on."""
        moments = [one.at for one in self.questions if one.at >= since]
        most = first = 0
        for number, moment in enumerate(moments):
            while moments[first] <= moment - 1.0:
                first += 1
            most = max(most, number - first + 1)
        return most

    def answer(self, question: Question, frame: bytes) -> Answer:
        """Return the answer to this question; the honest response's bytes if there is no lie for it."""
        tell = self._tells.get(question.api)
        if tell is None:
            return Bytes(struct.pack(">i", len(frame)) + frame)
        self.lie_count += 1
        version = question.version
        if question.api == "ApiVersions" and frame[4:6] == b"\0\x23":
            version = 0  # refused, in the oldest version
        return tell(question, decode_response(frame, type(question.request), version)[1])

    def _stand_between(self, connection: SimConnection) -> None:
        if connection.server_place in self._places:
            _Between(self, connection)


class _Frames:
    """Whole frames of a stream."""

    def __init__(self) -> None:
        self._held = b""

    def cut(self, data: bytes) -> list[bytes]:
        self._held += data
        found = []
        while len(self._held) >= 4:
            (size,) = struct.unpack_from(">i", self._held)
            if len(self._held) < 4 + size:
                break
            found.append(self._held[4 : 4 + size])
            self._held = self._held[4 + size :]
        return found


class _Between:
    """Stands in one connection: reads the requests and sends the responses."""

    def __init__(self, liar: Liar, connection: SimConnection) -> None:
        self._liar = liar
        self._connection = connection
        self._pending: dict[int, Question] = {}
        self._questions = _Frames()
        self._answers = _Frames()
        self._carry_question = connection.to_server.put
        self._carry_answer = connection.to_client.put
        connection.to_server.put = self._ask  # type: ignore[method-assign]
        connection.to_client.put = self._answer  # type: ignore[method-assign]
        if liar.greets_with is not None:
            liar.lie_count += 1
            self._carry_answer(liar.greets_with)

    def _ask(self, data: bytes) -> None:
        for frame in self._questions.cut(data):
            header, request = decode_request(frame)
            question = Question(
                self._liar.simulation.now, header.request_api_version, header.correlation_id, request
            )
            self._pending[header.correlation_id] = question
            self._liar.questions.append(question)
        self._carry_question(data)

    def _answer(self, data: bytes) -> None:
        for frame in self._answers.cut(data):
            question = self._pending.pop(struct.unpack_from(">i", frame)[0])
            self._say(question, self._liar.answer(question, frame))

    def _say(self, question: Question, answer: Answer) -> None:
        if isinstance(answer, Several):
            for one in answer.answers:
                self._say(question, one)
        elif isinstance(answer, Bytes):
            self._say_bytes(answer)
        elif isinstance(answer, End | Reset):
            self._connection.to_client.end(RESET if isinstance(answer, Reset) else None)
        elif isinstance(answer, Response):
            self._carry(question.encoded(answer))

    def _say_bytes(self, answer: Bytes) -> None:
        if not answer.seconds_apart:
            self._carry(answer.data)
            return
        scheduler = self._liar.simulation.scheduler
        for number in range(len(answer.data)):
            one = answer.data[number : number + 1]
            scheduler.call_at(scheduler.now + number * answer.seconds_apart, partial(self._carry, one))

    def _carry(self, data: bytes) -> None:
        if not self._connection.to_client.has_ended:
            self._carry_answer(data)
