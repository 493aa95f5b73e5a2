"""A fault rule as data: which requests it matches, when it fires, and its effect; the rules of a test.

A rule is created from keywords or from a mapping (such as JSON), and is independent of brokers: engine.py
stores and applies a cluster's rules. A misspelt API, key, action or error raises with the nearest name.

Used for fault rules (engine.py) and throttles (throttle_rules.py). Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import attrs

from pykafka2.broker.base.arguments import api_key, api_name, error_class
from pykafka2.broker.base.as_json import check_fields, copied
from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.config.keys import nearest
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.errors import BrokerError, ConfigurationError
from pykafka2.protocol.registry import API_KEYS, request_class
from pykafka2.protocol.struct import Response

logger = logging.getLogger(__name__)

FOR_EVER = -1
UNSAID = -2

Where = Callable[[Any], bool]
Reply = Response | Mapping[str, Any] | Callable[[Any, Any], Response | None]


class Action(Enum):
    """The effect of a rule on a request. Values are the words of `then`."""

    ERROR = "error"
    """Responds with this error without processing the request: "error:NOT_LEADER_OR_FOLLOWER".

    With a topic or partition, only those of a Produce or Fetch are rejected; other requests are rejected as
    a whole.
    """
    DELAY = "delay"
    """Processes it this many seconds later: "delay:0.5". Later requests of the connection wait behind it."""
    HOLD = "hold"
    """Holds it unprocessed until `controls.release`."""
    SWALLOW = "swallow"
    """Neither processes it nor responds; the connection stays open and silent.

    A request between brokers fails once the rule is removed, because their links have no request timeout.
    """
    LOSE_REPLY = "apply_then_lose_reply"
    """Processes it; instead of sending the response, resets the connection."""
    HALF_FRAME = "half_frame"
    """Processes it; sends half of the response's bytes, then closes the connection."""
    CLOSE_BEFORE = "close_before"
    """Closes the connection without processing the request."""
    CLOSE_AFTER = "close_after"
    """Sends the response, then closes the connection."""
    REPLAY = "replay"
    """Resets the connection at once, and processes the request later, as if from the closed connection.

    That happens after `replay:SECONDS`, or at `controls.release`. The response is dropped.
    """
    STALE_METADATA = "stale_metadata"
    """Responds with the cluster's state from when the rule was added."""
    REPLACE_REPLY = "replace_reply"
    """Processes it and responds with `reply`: a response, a function of request and response, or a mapping
    of changed fields.
    """


WITH_SECONDS = frozenset({Action.DELAY, Action.REPLAY})
# APIs that respond from a broker's image and change nothing.
STALE_APIS = frozenset({"Metadata", "DescribeCluster", "DescribeTopicPartitions"})


def _times(value: int | None) -> int:
    return UNSAID if value is None else value


@attrs.define(eq=False, kw_only=True)
class FaultRule:
    """The effect (`then`) on matching requests. Omitted criteria match everything.

    Attributes:
        then: an `Action` as text, such as "hold", "delay:0.5" or "error:NOT_LEADER_OR_FOLLOWER".
        api: a name ("Produce"), an API key or a request class.
        topic: the request must name it.
        partition: the request must name it.
        client_id: the client that sends the request.
        broker: the broker that receives the request.
        where: a predicate on a copy of the decoded request (not from JSON).
        nth: start with the n-th matching request, from 1.
        every: fire on each n-th matching request.
        times: how often to fire; default: once with `nth`, otherwise without a limit (-1).
        between_brokers: match requests between brokers, instead of those of clients.
        reset: whether a connection that the rule closes is reset; the default depends on the action.
        reply: the response of "replace_reply"; anything but a function requires `api`.  A function receives
            copies of request and response, and can edit them.

    `seen` counts matching requests, `fired` those on which the rule fired. Raises `ConfigurationError`.
    """

    then: str
    api: str | None = attrs.field(default=None, converter=attrs.converters.optional(api_name))
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    broker: int | None = None
    where: Where | None = None
    nth: int | None = None
    every: int | None = None
    times: int = attrs.field(default=None, converter=_times)
    between_brokers: bool = False
    reset: bool | None = None
    reply: Reply | None = None
    id: int = attrs.field(default=0, init=False)
    seen: int = attrs.field(default=0, init=False)
    fired: int = attrs.field(default=0, init=False)
    action: Action = attrs.field(init=False)
    error: type[BrokerError] | None = attrs.field(default=None, init=False)
    seconds: float | None = attrs.field(default=None, init=False)
    image: ClusterImage | None = attrs.field(default=None, init=False, repr=False)
    """The image for "stale_metadata"; set when the rule is added."""

    def __attrs_post_init__(self) -> None:
        for names, kind, word in KINDS_OF_KEYS:
            for name in names:
                value = getattr(self, name)
                if not (value is None and name in OPTIONAL_KEYS) and not _is_a(value, kind):
                    raise ConfigurationError(f"{name}={value!r}: use {word}")
        self._read_then()
        for name, number in (("nth", self.nth), ("every", self.every)):
            if number is not None and number < 1:
                raise ConfigurationError(f"{name}={number!r}: use a number of at least 1")
        if self.nth is not None and self.every is not None:
            raise ConfigurationError("use nth or every, not both")
        if self.times == UNSAID:
            self.times = FOR_EVER if self.nth is None else 1
        elif self.times < 1 and self.times != FOR_EVER:
            raise ConfigurationError(
                f"times={self.times}: use a number of at least 1, or {FOR_EVER} for no limit"
            )
        if self.action is Action.STALE_METADATA and self.api not in STALE_APIS:
            raise ConfigurationError(f"stale_metadata needs api=, one of {', '.join(sorted(STALE_APIS))}")
        if (self.action is Action.REPLACE_REPLY) != (self.reply is not None):
            raise ConfigurationError("replace_reply needs reply=, and only replace_reply takes it")
        if isinstance(self.reply, Mapping | Response):
            self._check_reply(self.reply)

    def _check_reply(self, reply: Mapping[str, Any] | Response) -> None:
        """Validate a reply given as data, which must match the response of the rule's API."""
        if self.api is None:
            raise ConfigurationError("reply= has the fields of one API's response; set api=")
        expected = request_class(api_key(self.api)).RESPONSE
        if isinstance(reply, Response) and not isinstance(reply, expected):
            raise ConfigurationError(f"reply= is a {type(reply).__name__}, not a {expected.__name__}")
        check_fields(expected, reply, "reply: ")

    def _read_then(self) -> None:
        word, colon, argument = self.then.partition(":")
        try:
            self.action = Action(word)
        except ValueError:
            known = [action.value for action in Action]
            raise ConfigurationError(
                f"unknown action {word!r}{nearest(word, known) or ';'} use one of {', '.join(known)}"
            ) from None
        if self.action is Action.ERROR:
            if not argument:
                raise ConfigurationError('set the error, such as then="error:NOT_LEADER_OR_FOLLOWER"')
            self.error = error_class(argument)
        elif self.action in WITH_SECONDS and argument:
            self.seconds = _seconds(self.then, argument)
        elif colon:
            raise ConfigurationError(f"then={self.then!r}: {word} takes no argument")
        elif self.action is Action.DELAY:
            raise ConfigurationError('set the seconds, such as then="delay:0.5"')

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FaultRule:
        """Create a rule from plain data, such as JSON: `{"api": "Produce", "nth": 3, "then": "hold"}`."""
        check_keys(data)
        return cls(**data)

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data, with its state (`id`, `seen`, `fired`)."""
        data = {name: getattr(self, name) for name in RULE_KEYS}
        for name in ("where", "reply"):
            if data[name] is not None and not isinstance(data[name], Mapping):
                data[name] = repr(data[name])
        kept = {name: value for name, value in data.items() if value is not None}
        return {"id": self.id, **kept, "seen": self.seen, "fired": self.fired}

    @property
    def is_spent(self) -> bool:
        """Whether it has fired as often as `times` allows."""
        return self.times != FOR_EVER and self.fired >= self.times

    @property
    def resets(self) -> bool:
        """Whether the connection that it closes is reset."""
        if self.reset is None:
            return self.action in (Action.LOSE_REPLY, Action.REPLAY)
        return self.reset

    def matches(
        self,
        broker_id: int,
        context: RequestContext,
        named: Callable[[], Iterable[tuple[str, int | None]]],
    ) -> bool:
        """Return whether a request matches, apart from `nth` and `every`.

        `named` returns the request's partitions.
        """
        if (
            (self.broker is not None and broker_id != self.broker)
            or self.between_brokers != context.is_from_broker
            or (self.client_id is not None and context.client_id != self.client_id)
            or (self.api is not None and API_KEYS[context.api_key].name != self.api)
        ):
            return False
        if self.names_partitions and not any(map(self.covers, named())):
            return False
        return self.where is None or self._matches_where(self.where, context)

    def _matches_where(self, where: Where, context: RequestContext) -> bool:
        try:
            return bool(where(copied(context.request)))
        except Exception:
            # An exception in a test's function: the broker continues, and the request does not match.
            logger.exception("where= of rule %d failed for %r", self.id, context.request)
            return False

    @property
    def names_partitions(self) -> bool:
        """Whether it applies to some partitions only."""
        return self.topic is not None or self.partition is not None

    def covers(self, named: tuple[str, int | None]) -> bool:
        """Return whether it applies to a partition."""
        topic, partition = named
        return self.topic in (None, topic) and self.partition in (None, partition)

    def is_due(self) -> bool:
        """Return whether it fires on the request that was counted last."""
        if self.is_spent:
            return False
        if self.every is not None:
            return self.seen % self.every == 0
        return self.nth is None or self.seen >= self.nth


# Types of the keys, with their description for messages.
KINDS_OF_KEYS: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (("then",), str, "an action as a string"),
    (("topic", "client_id"), str, "a name"),
    (("partition", "broker", "nth", "every", "times"), int, "a number"),
    (("between_brokers", "reset"), bool, "true or false"),
    (("where",), Callable, "a function of the request"),
    (("reply",), (Response, Mapping, Callable), "a response, a mapping of fields, or a function"),
)
OPTIONAL_KEYS = frozenset(
    {"topic", "client_id", "partition", "broker", "nth", "every", "reset", "where", "reply"}
)

RULE_KEYS = tuple(field.name for field in attrs.fields(FaultRule) if field.init)


def check_keys(data: Mapping[str, Any]) -> None:
    """Raise for an unknown key, with the nearest one, and for a rule without `then`."""
    for name in data:
        if name not in RULE_KEYS:
            raise ConfigurationError(f"a fault rule has no {name!r}{nearest(name, RULE_KEYS)}")
    if "then" not in data:
        raise ConfigurationError('set the action, such as then="hold"')


def _is_a(value: object, kind: Any) -> bool:
    # In Python, bool is a subclass of int.
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _seconds(then: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigurationError(f"then={then!r}: use seconds, such as delay:0.5")
    return seconds


MAX_LISTED = 1000


class ListedRule(Protocol):
    """A rule, whose id is assigned here."""

    id: int


Rule = TypeVar("Rule", bound=ListedRule)


class RuleList(Generic[Rule]):
    """The rules of one kind; `kind` and `listed_by` are used in errors."""

    def __init__(self, kind: str, listed_by: str, on_changed: Callable[[], object] = lambda: None) -> None:
        self.active: list[Rule] = []
        """Rules that can still fire."""
        self.all: list[Rule] = []
        """Rules added since the last `clear`, including spent ones; the oldest are dropped first."""
        self._kind = kind
        self._listed_by = listed_by
        self._on_changed = on_changed
        """Called when `active` has changed."""
        self._count = 0

    def add(self, rule: Rule) -> Rule:
        """Number and activate a rule. Raise `ConfigurationError` if it was added before."""
        if any(rule is known for known in self.all):
            raise ConfigurationError(f"{self._kind} {rule.id} was added already; create another one")
        self._count += 1
        rule.id = self._count
        self.active.append(rule)
        self.all.append(rule)
        del self.all[:-MAX_LISTED]
        self._on_changed()
        return rule

    def expire(self, rule: Rule) -> None:
        """Deactivate a rule. Can be called repeatedly."""
        self.active = [known for known in self.active if known is not rule]
        self._on_changed()

    def find(self, rule_id: int) -> Rule:
        """Return the rule with an id. Raise `ConfigurationError` if there is none."""
        for rule in self.all:
            if rule.id == rule_id:
                return rule
        raise ConfigurationError(f"no {self._kind} has the id {rule_id}; see {self._listed_by}()")

    def resolve(self, rule: object, kind: type[Rule]) -> Rule:
        """Return the rule of an argument: a rule of this class, or its id. Raise `ConfigurationError`."""
        if isinstance(rule, int) and not isinstance(rule, bool):
            return self.find(rule)
        if not isinstance(rule, kind):
            raise ConfigurationError(f"{rule!r} is not a {self._kind}: use a {self._kind} or its id")
        return rule

    def forget_numbers(self) -> None:
        """Restart numbering from 1, unless there are rules."""
        if not self.all:
            self._count = 0

    def clear(self) -> None:
        """Remove all rules."""
        self.active.clear()
        self.all.clear()
        self._on_changed()
