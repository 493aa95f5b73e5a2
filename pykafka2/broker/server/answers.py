"""How a request gets its answer, whatever goes wrong on the way.

A failure costs the request alone: it is answered with an error, or its connection is closed where there can
be no answer.  A mistake of ours is noted in the cluster's problems as well.  Under the cluster's lock.
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
    """An API, as far as its refusals go."""

    @property
    def name(self) -> str: ...

    @property
    def can_refuse(self) -> bool: ...

    def refusal(self, request: Request[Any], version: int, code: int) -> Response | None:
        """The answer with an error in every place; None if there is none."""
        ...


class Answers:
    """Answers and refusals of one broker."""

    def __init__(self, broker_id: int, apis: Mapping[int, Refusing], problems: Problems) -> None:
        self._broker_id = broker_id
        self._apis = apis
        self._problems = problems

    def go_on_with(self, context: RequestContext, work: Callable[[], Response | None]) -> None:
        """Answer with what `work` gives (None: the answer comes later), also after a wait for another broker
        or for replicas; what goes wrong costs this request, or its connection.
        """
        response: Response | None
        try:
            response = work()
        except Exception as error:
            response = self._failed(context, error)
        if response is None or context.is_answered:
            return
        try:
            context.reply(response)
        except Exception as error:
            self._problems.note(f"broker {self._broker_id} at its answer to {context.request!r}", error)
            context.close()

    def _failed(self, context: RequestContext, error: Exception) -> Response | None:
        """What a request hears whose handling raised this; all but a broker's errors are mistakes of ours."""
        code = UnknownServerError.code
        if isinstance(error, BrokerError):
            code = error.code or code
        elif isinstance(error, KafkaError) and not isinstance(error, IllegalState):
            name = self._apis[context.api_key].name
            logger.warning("broker %d refused %s: %s", self._broker_id, name, printable(str(error)))
        else:
            self._problems.note(f"broker {self._broker_id} at {context.request!r}", error)
        if context.is_answered:
            return None  # its connection is gone
        return self.refused(context, code)

    def refused(self, context: RequestContext, code: int | None) -> Response | None:
        """The answer with an error everywhere; where there can be none the connection is closed."""
        api = self._apis[context.api_key]
        # Nobody waits for the answer to a produce with acks=0.
        if not api.can_refuse or context.is_answered or getattr(context.request, "acks", None) == 0:
            context.close()
            return None
        return api.refusal(context.request, context.version, code if code is not None else -1)

    def refusal_of(self, context: RequestContext, request: Request[Any], code: int) -> Response | None:
        """The answer with an error everywhere to a part of a request; None if there can be none."""
        return self._apis[context.api_key].refusal(request, context.version, code)

    def refuse(self, context: RequestContext, code: int) -> None:
        """Answer with one error everywhere, if nobody has answered yet."""
        if not context.is_answered:
            response = self.refused(context, code)
            if response is not None:
                context.reply(response)
