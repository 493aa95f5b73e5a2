"""The client of a connection: the destination of responses, and the pending requests.

`ClientOrigin` can be called, and `Client` read, from any thread; the rest belongs to the processor's thread.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from pykafka2.broker.security.listeners import ListenerEndpoint
from pykafka2.broker.security.principal import Caller
from pykafka2.broker.server.channel import Slot
from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.connection_quotas import address_of
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.network.transport import Transport
from pykafka2.protocol.struct import Response


class ConnectionsProcessor(Protocol):
    """The processor of a connection, as the origin of a request uses it. Any thread."""

    name: str

    def finish(self, connection: Connection, context: RequestContext, response: Response | None) -> None:
        """Queue the response, which is sent in request order."""
        ...

    def accept_next(self, connection: Connection, context: RequestContext) -> None: ...

    def drop_soon(self, connection: Connection, *, reset: bool) -> None: ...


@attrs.define(eq=False)
class Client:
    """The client of one connection; `pending` are its requests whose responses were not sent yet."""

    origin: ClientOrigin
    pending: dict[Slot, RequestContext] = attrs.field(factory=dict)

    def unanswered(self) -> list[RequestContext]:
        """Return the requests without a response, oldest first. From any thread."""
        return [context for slot, context in list(self.pending.items()) if not slot.is_complete]


class ClientOrigin:
    """The `Origin` of requests from a client's connection."""

    __slots__ = ("_caller", "_connection", "_processor", "authentication", "endpoint", "parts", "peer")

    is_broker = False

    def __init__(
        self, processor: ConnectionsProcessor, connection: Connection, endpoint: ListenerEndpoint
    ) -> None:
        self._processor = processor
        self._connection = connection
        self.peer = connection.peer
        self.endpoint = endpoint
        host = address_of(connection.peer)
        self.authentication = endpoint.authentication(host)
        self._caller = endpoint.anonymous(host)
        self.parts: tuple[str, ...] = (endpoint.acceptor, processor.name)

    @property
    def caller(self) -> Caller:
        """The authenticated sender, or an anonymous one."""
        return self._caller if self.authentication is None else self.authentication.caller

    def established(self, transport: Transport) -> None:
        """Complete the TLS handshake: a certificate can name the principal.

        Raise `TlsError` if no mapping rule matches.
        """
        if self.endpoint.mapping is not None:
            self._caller = self.endpoint.caller(transport, self._caller.host)

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        self._processor.finish(self._connection, context, response)

    def local_processed(self, context: RequestContext) -> None:
        self._processor.accept_next(self._connection, context)

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        self._processor.drop_soon(self._connection, reset=reset)
