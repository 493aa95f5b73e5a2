"""Responses to requests, including errors.

A failure affects only its request: it gets an error response, or its connection closes if no response is
possible. A bug is also recorded in the cluster's problems. Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pykafka2.broker.base.problems import Problems
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.errors import BrokerError, IllegalState, KafkaError, UnknownServerError
from pykafka2.protocol.struct import Request, Response
from pykafka2.text import printable

logger = logging.getLogger(__name__)


class Refusing(Protocol):
    """An API that can build error responses."""

    @property
    def name(self) -> str: ...

    @property
    def can_refuse(self) -> bool: ...

    def refusal(self, request: Request[Any], version: int, code: int) -> Response | None:
        """Return a response with the error in every field for it; None if there is none."""
        ...


class Responses:
    """Responses and error responses of one broker."""

    def __init__(self, broker_id: int, apis: Mapping[int, Refusing], problems: Problems) -> None:
        self._broker_id = broker_id
        self._apis = apis
        self._problems = problems

    def respond_with(self, context: RequestContext, work: Callable[[], Response | None]) -> None:
        """Send the response that `work` returns; None if it is sent later.

        Also used after a wait for another broker or for replicas. An exception affects only this request or
        its connection.
        """
        response: Response | None
        try:
            response = work()
        except Exception as error:
            response = self._failed(context, error)
        if response is None or context.is_complete:
            return
        try:
            context.respond(response)
        except Exception as error:
            self._problems.note(f"broker {self._broker_id} responding to {context.request!r}", error)
            context.close()

    def _failed(self, context: RequestContext, error: Exception) -> Response | None:
        """Return the response after an exception; everything but broker errors is a bug."""
        code = UnknownServerError.code
        if isinstance(error, BrokerError):
            code = error.code or code
        elif isinstance(error, KafkaError) and not isinstance(error, IllegalState):
            name = self._apis[context.api_key].name
            logger.warning("broker %d refused %s: %s", self._broker_id, name, printable(str(error)))
        else:
            self._problems.note(f"broker {self._broker_id} handling {context.request!r}", error)
        if context.is_complete:
            return None  # its connection is closed
        return self.refused(context, code)

    def refused(self, context: RequestContext, code: int | None) -> Response | None:
        """Return a response with the error in every field, or close the connection if there is none."""
        api = self._apis[context.api_key]
        # A produce with acks=0 gets no response.
        if not api.can_refuse or context.is_complete or getattr(context.request, "acks", None) == 0:
            context.close()
            return None
        return api.refusal(context.request, context.version, code if code is not None else -1)

    def refusal_of(self, context: RequestContext, request: Request[Any], code: int) -> Response | None:
        """Return the response with an error in every field for a part of a request.

        None if there is none.
        """
        return self._apis[context.api_key].refusal(request, context.version, code)

    def refuse(self, context: RequestContext, code: int) -> None:
        """Respond with an error in every field, unless a response was sent."""
        if not context.is_complete:
            response = self.refused(context, code)
            if response is not None:
                context.respond(response)
