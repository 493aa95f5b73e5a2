"""Who is at the other end of a connection: where requests' replies go, and which of them wait.

A `ClientOrigin` may be told, and a `Client` read, from any thread; all else is the processor's.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from pykafka2.broker.security.caller import Caller
from pykafka2.broker.server.channel import Slot
from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.connection_quotas import address_of
from pykafka2.broker.server.entrance import Entrance
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.network.transport import Transport
from pykafka2.protocol.struct import Response


class ConnectionsProcessor(Protocol):
    """What the origin of a request asks of the processor that took it in.  From any thread."""

    name: str

    def finish(self, connection: Connection, context: RequestContext, response: Response | None) -> None:
        """Have the reply leave when its turn comes."""
        ...

    def let_next_in(self, connection: Connection, context: RequestContext) -> None: ...

    def drop_soon(self, connection: Connection, *, reset: bool) -> None: ...


@attrs.define(eq=False)
class Client:
    """The client of one connection; `pending` are its requests whose replies have not left."""

    origin: ClientOrigin
    pending: dict[Slot, RequestContext] = attrs.field(factory=dict)

    def unanswered(self) -> list[RequestContext]:
        """Requests whose reply has not been given, the oldest first.  From any thread."""
        return [context for slot, context in list(self.pending.items()) if not slot.is_complete]


class ClientOrigin:
    """`Origin` of requests that came over a client's connection."""

    __slots__ = ("_caller", "_connection", "_processor", "authentication", "entrance", "parts", "peer")

    is_broker = False

    def __init__(self, processor: ConnectionsProcessor, connection: Connection, entrance: Entrance) -> None:
        self._processor = processor
        self._connection = connection
        self.peer = connection.peer
        self.entrance = entrance
        host = address_of(connection.peer)
        self.authentication = entrance.authentication(host)
        self._caller = entrance.stranger(host)
        self.parts: tuple[str, ...] = (entrance.acceptor, processor.name)

    @property
    def caller(self) -> Caller:
        """Who is known to be at the other end."""
        return self._caller if self.authentication is None else self.authentication.caller

    def established(self, transport: Transport) -> None:
        """TLS is agreed on: a certificate may say who is there.  Raises `TlsError` if it is nobody."""
        if self.entrance.mapping is not None:
            self._caller = self.entrance.caller(transport, self._caller.host)

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        self._processor.finish(self._connection, context, response)

    def local_processed(self, context: RequestContext) -> None:
        self._processor.let_next_in(self._connection, context)

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        self._processor.drop_soon(self._connection, reset=reset)
