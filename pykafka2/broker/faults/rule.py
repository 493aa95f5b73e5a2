"""One fault rule as data: which requests it matches, when it fires, and what happens to them then.

A rule is made from keywords or from a mapping (so from JSON), and knows nothing of brokers: engine.py
keeps the rules of a cluster and carries them out.  A misspelt API, key, action or error raises and names the
nearest one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

import attrs

from pykafka2.broker.base.as_json import check_fields
from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.base.names import api_key, api_name, error_class
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
    """What happens to a request that a rule fires on.  Values are the words of `then`."""

    ERROR = "error"
    """Answered with this error, not acted upon: "error:NOT_LEADER_OR_FOLLOWER".  With a topic or partition
    only those of a Produce or Fetch are refused; other requests are refused in every place."""
    DELAY = "delay"
    """Handled that many seconds later: "delay:0.5".  What follows on its connection waits behind it."""
    HOLD = "hold"
    """Kept, unread, until `controls.release`."""
    SWALLOW = "swallow"
    """Neither acted upon nor answered, ever; the connection stays open and silent."""
    LOSE_REPLY = "apply_then_lose_reply"
    """Acted upon; instead of the answer the connection is reset."""
    HALF_FRAME = "half_frame"
    """Acted upon; half of the answer's bytes leave, then the connection is closed."""
    CLOSE_BEFORE = "close_before"
    """The connection is closed; the request is not acted upon."""
    CLOSE_AFTER = "close_after"
    """Answered; then the connection is closed."""
    REPLAY = "replay"
    """The connection is reset at once, and the request arrives late all the same, from a connection that is
    dead by then: after `replay:SECONDS`, or at `controls.release`.  Its answer goes nowhere."""
    STALE_METADATA = "stale_metadata"
    """Answered from the cluster's state as it was when the rule was planted."""
    REPLACE_REPLY = "replace_reply"
    """Acted upon; `reply` is answered: a response, a function of request and response, or a mapping of the
    fields that differ."""


WITH_SECONDS = frozenset({Action.DELAY, Action.REPLAY})
# Those that answer from a broker's image and change nothing.
STALE_APIS = frozenset({"Metadata", "DescribeCluster", "DescribeTopicPartitions"})


def _times(value: int | None) -> int:
    return UNSAID if value is None else value


@attrs.define(eq=False, kw_only=True)
class FaultRule:
    """What happens (`then`) to which requests.  Give what the rule depends on; the rest matches anything.

    Attributes:
        then: an `Action` as text, such as "hold", "delay:0.5" or "error:NOT_LEADER_OR_FOLLOWER".
        api: a name ("Produce"), an API key or a request class.
        topic: the request must name it.
        partition: the request must name it.
        client_id: who asks.
        broker: who is asked.
        where: a function of the decoded request that says whether it is meant (not from JSON).
        nth: begin with the n-th request that matches, from 1.
        every: fire on each n-th request that matches.
        times: how often to fire; default: once with `nth`, otherwise until it is taken back (-1).
        between_brokers: match requests that brokers send each other, instead of those of clients.
        reset: whether a connection that the rule closes is reset; default: as the action says.
        reply: what "replace_reply" answers; anything but a function needs `api`.

    `seen` counts requests that matched, `fired` those that it acted on.  Raises `ConfigurationError`.
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
    """What "stale_metadata" answers from; set when the rule is planted."""

    def __attrs_post_init__(self) -> None:
        for names, kind, word in KINDS_OF_KEYS:
            for name in names:
                value = getattr(self, name)
                if not (value is None and name in OPTIONAL_KEYS) and not _is_a(value, kind):
                    raise ConfigurationError(f"{name}={value!r}: say {word}")
        self._read_then()
        for name, number in (("nth", self.nth), ("every", self.every)):
            if number is not None and number < 1:
                raise ConfigurationError(f"{name}={number!r}: say a number from 1")
        if self.nth is not None and self.every is not None:
            raise ConfigurationError("say nth or every, not both")
        if self.times == UNSAID:
            self.times = FOR_EVER if self.nth is None else 1
        elif self.times < 1 and self.times != FOR_EVER:
            raise ConfigurationError(f"times={self.times}: say how often, from 1, or {FOR_EVER} for ever")
        if self.action is Action.STALE_METADATA and self.api not in STALE_APIS:
            raise ConfigurationError(f"stale_metadata is for {', '.join(sorted(STALE_APIS))}; say which api")
        if (self.action is Action.REPLACE_REPLY) != (self.reply is not None):
            raise ConfigurationError("replace_reply needs reply=, and nothing else has one")
        if isinstance(self.reply, Mapping | Response):
            self._check_reply(self.reply)

    def _check_reply(self, reply: Mapping[str, Any] | Response) -> None:
        """Data is the answer of one API; a function may look at what it gets."""
        if self.api is None:
            raise ConfigurationError("reply= has the fields of one API's answer: say which api")
        expected = request_class(api_key(self.api)).RESPONSE
        if isinstance(reply, Response):
            if not isinstance(reply, expected):
                raise ConfigurationError(f"reply= is a {type(reply).__name__}, not a {expected.__name__}")
            return
        check_fields(expected, reply)

    def _read_then(self) -> None:
        word, colon, argument = self.then.partition(":")
        try:
            self.action = Action(word)
        except ValueError:
            known = [action.value for action in Action]
            raise ConfigurationError(
                f"no action is called {word!r}{nearest(word, known)}; there are {', '.join(known)}"
            ) from None
        if self.action is Action.ERROR:
            if not argument:
                raise ConfigurationError('say which error, such as then="error:NOT_LEADER_OR_FOLLOWER"')
            self.error = error_class(argument)
        elif self.action in WITH_SECONDS and argument:
            self.seconds = _seconds(self.then, argument)
        elif colon:
            raise ConfigurationError(f"then={self.then!r}: {word} takes nothing behind it")
        elif self.action is Action.DELAY:
            raise ConfigurationError('say by how many seconds, such as then="delay:0.5"')

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FaultRule:
        """A rule from plain data, such as JSON: `{"api": "Produce", "nth": 3, "then": "hold"}`."""
        check_keys(data)
        return cls(**data)

    def to_dict(self) -> dict[str, Any]:
        """The rule as plain data, with what has become of it (`id`, `seen`, `fired`)."""
        data = {name: getattr(self, name) for name in RULE_KEYS}
        for name in ("where", "reply"):
            if data[name] is not None and not isinstance(data[name], Mapping):
                data[name] = repr(data[name])
        kept = {name: value for name, value in data.items() if value is not None}
        return {"id": self.id, **kept, "seen": self.seen, "fired": self.fired}

    @property
    def is_spent(self) -> bool:
        """It has fired as often as it may."""
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
        """Whether a request is one of those meant; says nothing of the n-th.  `named` tells the partitions
        that it is about.
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
        return self.where is None or self._says_where(self.where, context)

    def _says_where(self, where: Where, context: RequestContext) -> bool:
        try:
            return bool(where(context.request))
        except Exception:
            # A mistake in a test's function; the broker goes on, the request is not meant.
            logger.exception("rule %d cannot say whether it means %r", self.id, context.request)
            return False

    @property
    def names_partitions(self) -> bool:
        """Whether it is about some partitions only."""
        return self.topic is not None or self.partition is not None

    def covers(self, named: tuple[str, int | None]) -> bool:
        """Whether a partition is one of those meant."""
        topic, partition = named
        return self.topic in (None, topic) and self.partition in (None, partition)

    def is_due(self) -> bool:
        """Whether it fires on the request that was counted last."""
        if self.is_spent:
            return False
        if self.every is not None:
            return self.seen % self.every == 0
        return self.nth is None or self.seen >= self.nth


# What the keys hold, and how to say so.
KINDS_OF_KEYS: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (("then",), str, "what happens, as text"),
    (("topic", "client_id"), str, "a name"),
    (("partition", "broker", "nth", "every", "times"), int, "a number"),
    (("between_brokers", "reset"), bool, "true or false"),
    (("where",), Callable, "a function of the request"),
    (("reply",), (Response, Mapping, Callable), "a response, a mapping of fields, or a function"),
)
OPTIONAL_KEYS = frozenset(
    {"topic", "client_id", "partition", "broker", "nth", "every", "reset", "where", "reply"}
)

RULE_KEYS = tuple(one.name for one in attrs.fields(FaultRule) if one.init)


def check_keys(data: Mapping[str, Any]) -> None:
    """Raise for what is no key of a rule, naming the nearest, and for a rule without `then`."""
    for name in data:
        if name not in RULE_KEYS:
            raise ConfigurationError(f"a fault rule has no {name!r}{nearest(name, RULE_KEYS)}")
    if "then" not in data:
        raise ConfigurationError('say what happens, such as then="hold"')


def _is_a(value: object, kind: Any) -> bool:
    # To Python true is a number.
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _seconds(then: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigurationError(f"then={then!r}: say seconds, such as delay:0.5")
    return seconds
