"""Fault rules of one cluster: matching requests, applying the rules, and holding requests.

A request is checked when a handler takes it (`intercept`), and again when its response is sent (`reshape`,
`send`). A rule's effect on the response is stored on the request when the rule fires (`FaultMarks`), so that
the server below knows no rules. rule.py defines the rules. Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

import attrs

from pykafka2.broker.base.arguments import ApiName, api_name
from pykafka2.broker.base.as_json import copied, merged
from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.faults.client_links import ClientLinks, Target
from pykafka2.broker.faults.partial_errors import named_partitions, refuse_some
from pykafka2.broker.faults.rule import Action, FaultRule, RuleList
from pykafka2.broker.security.principal import Caller
from pykafka2.broker.server.request_context import ClosingResponse, FaultMarks, RequestContext
from pykafka2.broker.server.responses import Refusing
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.registry import API_KEYS
from pykafka2.protocol.struct import Response


@attrs.define(eq=False)
class Held:
    """A request held by a rule; `is_late` if its connection is closed by now."""

    target: Target
    context: RequestContext
    rule: FaultRule
    is_late: bool = False

    def release(self) -> None:
        """Queue the request on its broker."""
        if self.is_late:
            self.target.enqueue_late(self.context)
        else:
            self.target.enqueue(self.context)


class DeadOrigin:
    """The `Origin` of a request whose connection is closed: its response is dropped."""

    __slots__ = ("caller", "peer")

    is_broker = False
    software = ""
    is_closed = True
    authentication = None
    parts: tuple[str, ...] = ("a dead connection",)

    def __init__(self, peer: str, caller: Caller) -> None:
        self.peer = peer
        self.caller = caller

    def when_closed(self, then: Callable[[float], object]) -> None:
        """Do nothing: the connection has closed before the request was handled."""

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        """Do nothing: the connection is closed."""

    def local_processed(self, context: RequestContext) -> None:
        """Do nothing: no request follows on a closed connection."""

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        """Do nothing: the connection is closed."""


logger = logging.getLogger(__name__)


class Faults:
    """The rules of one cluster, the requests they hold, and the client links.

    `apis` are the brokers' APIs, by key. `on_fired` is called for each rule that fires, with the broker's id
    and the request.
    """

    def __init__(
        self, apis: Mapping[int, Refusing], on_fired: Callable[[FaultRule, int, RequestContext], object]
    ) -> None:
        self.is_active = False
        """Whether requests must be checked at all. An attribute, as each request and response reads it."""
        self.rules: RuleList[FaultRule] = RuleList("rule", "rules", self._note_active)
        self.client_links = ClientLinks(self._note_active)
        self._on_fired = on_fired
        self._apis = apis
        self._held: list[Held] = []
        self._swallowed: list[tuple[FaultRule, RequestContext]] = []
        """Requests between brokers without a response. Their links have no timeout, unlike a client's."""

    def _note_active(self) -> None:
        self.is_active = bool(self.rules.active) or self.client_links.is_active

    # ------------------------------------------------------------------ adding and removing rules

    def add(self, rule: FaultRule, image: ClusterImage) -> FaultRule:
        """Add a rule. Raise for an API that is not served."""
        served = {api.name for api in self._apis.values()}
        if rule.api is not None and rule.api not in served:
            raise ConfigurationError(
                f"{rule.api}Request is not served; served are {', '.join(sorted(served))}"
            )
        self.rules.add(rule)
        rule.image = image
        return rule

    def remove(self, rule: FaultRule) -> None:
        """Remove a rule and release the requests it holds. No effect if it is spent or removed."""
        self.rules.expire(rule)
        self._release([held for held in self._incomplete() if held.rule is rule])
        self._fail_swallowed(rule)

    def clear(self) -> None:
        """Remove all rules and release held requests; client links stay."""
        self.rules.clear()
        self.release(None)
        self._fail_swallowed()

    def _fail_swallowed(self, rule: FaultRule | None = None) -> None:
        """End the swallowed requests between brokers (of one rule), so that their senders try again."""
        ended = [context for known, context in self._swallowed if rule in (None, known)]
        self._swallowed = [entry for entry in self._swallowed if rule not in (None, entry[0])]
        for context in ended:
            if not context.is_complete:
                context.close()

    # ------------------------------------------------------------------ held requests

    def held(self, api: ApiName | None = None) -> int:
        """Return the number of held requests."""
        return len(self._select(api))

    def release(self, api: ApiName | None) -> None:
        """End holding (of one API) and release the held requests in the order of arrival."""
        name = None if api is None else api_name(api)
        for rule in list(self.rules.active):
            if rule.action is Action.HOLD and name in (None, rule.api):
                self.rules.expire(rule)
        self._release(self._select(api))

    def forget(self, broker_id: int) -> None:
        """Drop the requests held for a stopped broker."""
        self._held = [held for held in self._held if held.target.id != broker_id]
        self.client_links.forget(broker_id)

    def _release(self, released: list[Held]) -> None:
        self._held = [held for held in self._held if held not in released]
        for held in released:
            held.release()

    def _select(self, api: ApiName | None) -> list[Held]:
        name = None if api is None else api_name(api)
        return [
            held for held in self._incomplete() if name is None or API_KEYS[held.context.api_key].name == name
        ]

    def _incomplete(self) -> list[Held]:
        # A held request is marked as complete when its connection closes.
        self._held = [held for held in self._held if not held.context.is_complete]
        return list(self._held)

    # ------------------------------------------------------------------ incoming requests

    def intercept(self, target: Target, context: RequestContext, now: float) -> bool:
        """Apply links and rules to a request. Return True if it must not be handled now."""
        marks = context.faults
        if marks is not None and marks.rule_id is not None:
            return False  # its rule has fired already
        if self.client_links.is_active and self.client_links.carry(target, context, now):
            return True
        rule = self._count_and_find(target, context)
        if rule is None:
            return False
        marks = context.faults = context.faults or FaultMarks()
        _mark(marks, rule, context)
        if context.on_response is None:
            context.on_response = target.on_response  # otherwise nothing checks responses between brokers
        self._on_fired(rule, target.id, context)
        return self._act(rule, marks, target, context, now)

    def _count_and_find(self, target: Target, context: RequestContext) -> FaultRule | None:
        """Return the first rule that fires on a request, and count the request for all matching rules."""
        found: FaultRule | None = None
        for rule in list(self.rules.active):
            if rule.matches(target.id, context, lambda: named_partitions(target, context)):
                rule.seen += 1
                if found is None and rule.is_due():
                    found = rule
                    rule.fired += 1
                    if rule.is_spent:
                        self.rules.expire(rule)
        return found

    def _act(
        self, rule: FaultRule, marks: FaultMarks, target: Target, context: RequestContext, now: float
    ) -> bool:
        action = rule.action
        if action is Action.ERROR and rule.error is not None:
            return self._refuse(rule, rule.error.code or 0, marks, target, context)
        if action is Action.DELAY:
            target.wheel.add(now + (rule.seconds or 0.0), lambda at: target.enqueue(context))
        elif action is Action.HOLD:
            self._held.append(Held(target, context, rule))
        elif action is Action.CLOSE_BEFORE:
            context.close(reset=rule.resets)
        elif action is Action.REPLAY:
            self._replay(rule, target, context, now)
        elif action is Action.STALE_METADATA and rule.image is not None:
            _respond_from(rule.image, target, context, now)
        elif action is Action.SWALLOW:
            if context.is_from_broker:
                self._swallowed.append((rule, context))
        else:
            return False  # the other actions apply to the response
        return True

    def _refuse(
        self, rule: FaultRule, code: int, marks: FaultMarks, target: Target, context: RequestContext
    ) -> bool:
        """Respond with an error.

        Return False if only some partitions get it and the rest must be handled.
        """
        if rule.names_partitions:
            marks.reshape = refuse_some(rule.covers, code, target, context, self._apis)
            if marks.reshape is not None:
                return False
        response = target.refused(context, code)
        if response is not None:
            context.respond(response)
        return True

    def _replay(self, rule: FaultRule, target: Target, context: RequestContext, now: float) -> None:
        late = RequestContext(DeadOrigin(f"{context.peer} (dead)", context.caller), context.received)
        late.faults = FaultMarks(rule_id=rule.id)
        context.close(reset=rule.resets)
        if rule.seconds is None:
            self._held.append(Held(target, late, rule, is_late=True))
        else:
            target.wheel.add(now + rule.seconds, lambda at: target.enqueue_late(late))

    # ------------------------------------------------------------------ outgoing responses

    def reshape(self, context: RequestContext, response: Response | None) -> Response | None:
        """Return the response as changed by the request's rule, or None for no response."""
        marks = context.faults
        if marks is None or marks.reshape is None or response is None:
            return response
        return marks.reshape(response)

    def send(
        self, target: Target, context: RequestContext, response: Response | None, was: Response | None
    ) -> bool:
        """Send a response over links and according to rules. Return False if the caller must not send it.

        `was` is the response before `reshape`.
        """
        marks = context.faults
        origin = context.origin
        if marks is not None:
            closing = marks.closing
            is_lost = marks.loses_response or (response is None and was is not None)
            # A link between brokers carries whole frames only.
            if is_lost or (closing is not None and closing.sends_half and context.is_from_broker):
                origin.disconnect(context, reset=marks.resets)
                return False
            if closing is not None:  # otherwise the connection may have to close for another reason
                context.delivery.closing = closing
        if not self.client_links.carry_back(target, context, response):
            return False
        if response is was:
            return True
        origin.deliver(context, response)
        return False


def _mark(marks: FaultMarks, rule: FaultRule, context: RequestContext) -> None:
    """Store a fired rule's effect on the response with the request."""
    marks.rule_id = rule.id
    marks.resets = rule.resets
    marks.loses_response = rule.action is Action.LOSE_REPLY
    if rule.action is Action.REPLACE_REPLY:
        marks.reshape = partial(_replaced, rule, context)
    if rule.action in (Action.HALF_FRAME, Action.CLOSE_AFTER):
        marks.closing = ClosingResponse(rule.resets, sends_half=rule.action is Action.HALF_FRAME)


def _replaced(rule: FaultRule, context: RequestContext, response: Response) -> Response | None:
    """Return the replacement of a response; None closes the connection."""
    reply = rule.reply
    changed: object
    try:
        if isinstance(reply, Response):
            changed = copied(reply)  # a throttle changes the response
        elif isinstance(reply, Mapping):
            changed = merged(response, reply)
        elif reply is None:
            return response
        else:
            # Copies: brokers cache parts of responses for the process, and the history keeps the request.
            changed = reply(copied(context.request), copied(response))
        return None if changed is None else _sendable(changed, context)
    except Exception:
        # An error in a test's reply closes its connection; the broker continues.
        logger.exception("rule %d could not replace %r", rule.id, response)
        return None


def _sendable(reply: object, context: RequestContext) -> Response:
    """Return the replacement of a response; raise if it cannot be sent."""
    expected = type(context.request).RESPONSE
    if not isinstance(reply, expected):
        raise ConfigurationError(
            f"reply= returned a {type(reply).__name__}: return a {expected.__name__}, or None to close the "
            "connection"
        )
    reply.encode_into(context.version, [])
    return reply


def _respond_from(image: ClusterImage, target: Target, context: RequestContext, now: float) -> None:
    """Handle a request with another image than the broker's."""
    current, target.image = target.image, image
    try:
        target.dispatch(context, now)
    finally:
        if target.image is image:  # nothing was created meanwhile
            target.image = current
