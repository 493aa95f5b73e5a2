"""What a broker does with a request: taken in, handled under the cluster's lock, answered.  Part of `Broker`
(broker.py).

Whatever goes wrong costs the request alone: it is answered with an error, or its connection is closed where
there can be no answer.  A mistake of ours is noted in the cluster's problems as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from pykafka2.broker.forwarding import to_controller
from pykafka2.broker.handlers.registry import APIS, Api
from pykafka2.broker.server.request_channel import RequestChannel, RequestContext
from pykafka2.errors import BrokerError, IllegalState, KafkaError, UnknownServerError
from pykafka2.protocol.struct import Response

if TYPE_CHECKING:
    from pykafka2.broker.base.problems import Problems
    from pykafka2.broker.broker import Broker
    from pykafka2.broker.server.request_metrics import RequestMetrics
    from pykafka2.clock import Clock
    from pykafka2.testing.cluster import KafkaCluster

logger = logging.getLogger(__name__)


class BrokerRequests:
    """`handle`, what connections tell of requests, and how they are answered and refused."""

    id: int
    lock: Any
    clock: Clock
    metrics: RequestMetrics
    problems: Problems
    is_running: bool
    is_paused: bool
    _cluster: KafkaCluster
    _requests: RequestChannel

    @property
    def _broker(self) -> Broker:
        return cast("Broker", self)

    # ------------------------------------------------------------------ the connection tells

    def _on_request(self, context: RequestContext) -> None:
        """A processor has decoded a client's request."""
        context.on_reply = self.on_reply
        with self.lock:
            self._cluster.history.received(self.id, context)

    def _on_gone(self, context: RequestContext, now: float) -> None:
        """The connection of a request is gone before its answer left: nothing may wait for it."""
        with self.lock:
            self._cluster.history.ended(context, None, now)
            if not context.is_answered and context.abandon is not None:
                context.abandon(now)
            context.is_answered = True

    def _on_left(self, contexts: Sequence[RequestContext], now: float) -> None:
        """Replies have left for their clients."""
        with self.lock:
            since = self._cluster.told_since
            for context in contexts:
                # The reply to a request that a test has forgotten (`KafkaCluster.forget`) counts no more.
                if context.received_at >= since:
                    self.metrics.record(context, now)
                self._cluster.history.left(context)

    def _on_refused(self, client: str, reason: str, now: float) -> None:
        """A client sent what cannot be answered; its connection is being closed."""
        with self.lock:
            self._cluster.events.client_refused(now, self.id, client, reason)

    def on_reply(self, context: RequestContext, response: Response | None) -> bool:
        """A request is answered: False if a fault takes care of the answer."""
        context.answered_at = self.clock.monotonic()
        faults = self._cluster.faults
        is_plain = context.faults is None and not faults.is_active
        sent = response if is_plain else faults.reshaped(context, response)
        if self._cluster.throttles.rules:
            self._cluster.throttles.apply(context, sent)
        self._cluster.history.ended(context, sent, context.answered_at)
        return is_plain or faults.sends(self._broker, context, sent, response)

    # ------------------------------------------------------------------ answering

    def handle(self, context: RequestContext, now: float) -> None:
        """Answer one request, unless a fault has something else to say about it."""
        with self.lock:
            if not self.is_running or context.is_answered:
                return
            if self.is_paused:
                self._requests.put_back(context)
                return
            faults = self._cluster.faults
            if faults.is_active and faults.meets(self._broker, context, now):
                return
            self.answer(context, now)

    def answer(self, context: RequestContext, now: float) -> None:
        """Have a request answered, by the API's function or by the controller."""
        context.metrics = self.metrics
        context.taken_at = self.clock.monotonic()
        api = APIS[context.api_key]
        if api.by_controller:
            to_controller(self._broker, api, context, now)
        else:
            self.respond(api, context, now)
        context.handled_at = self.clock.monotonic()

    def respond(self, api: Api, context: RequestContext, now: float) -> None:
        """Have the API's function answer; whatever goes wrong costs this request alone."""
        if not context.is_answered:  # else its connection is gone
            self.go_on_with(context, lambda: api.handle(self._broker, context, context.request, now))

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
            self.problems.note(f"broker {self.id} at its answer to {context.request!r}", error)
            context.close()

    def _failed(self, context: RequestContext, error: Exception) -> Response | None:
        """What a request hears whose handling raised this; all but a broker's errors are mistakes of ours."""
        code = UnknownServerError.code
        if isinstance(error, BrokerError):
            code = error.code or code
        elif isinstance(error, KafkaError) and not isinstance(error, IllegalState):
            logger.warning("broker %d refused %s: %s", self.id, APIS[context.api_key].name, error)
        else:
            self.problems.note(f"broker {self.id} at {context.request!r}", error)
        if context.is_answered:
            return None  # its connection is gone
        return self.refused(context, code)

    def refused(self, context: RequestContext, code: int | None) -> Response | None:
        """The answer with an error everywhere; where there can be none the connection is closed."""
        api = APIS[context.api_key]
        # Nobody waits for the answer to a produce with acks=0 (rule 7).
        if not api.can_refuse or context.is_answered or getattr(context.request, "acks", None) == 0:
            context.close()
            return None
        return api.refusal(context.request, context.version, code if code is not None else -1)

    def refuse(self, context: RequestContext, code: int) -> None:
        """Answer with one error everywhere, if nobody has answered yet."""
        if not context.is_answered:
            response = self.refused(context, code)
            if response is not None:
                context.reply(response)

    def go_on(self, context: RequestContext) -> None:
        """A request that a fault held goes on to its handler."""
        if self.is_running:
            if context.slot is None and not context.is_from_broker:
                self._on_request(context)  # late, from a connection that is dead
            self._requests.put(context)
