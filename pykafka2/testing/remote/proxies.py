"""Proxies for controls, history, events, problems and timeline of a cluster in another process.

Each has the names and arguments of its original, and checks calls against the real signature, so a misspelt
control is rejected before anything is sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from pykafka2.broker.base.arguments import ApiName, api_name, error_name
from pykafka2.broker.base.as_json import to_plain
from pykafka2.broker.base.problems import Problem, Problems
from pykafka2.broker.config.keys import nearest
from pykafka2.broker.faults.rule import RULE_KEYS, FaultRule
from pykafka2.broker.observed.event_log import ClusterEvent, EventLog, check_kind
from pykafka2.broker.observed.history import Criteria, Entry, History, check_criteria, matches
from pykafka2.errors import BrokerError, ConfigurationError, IllegalState
from pykafka2.protocol.struct import Request, Response
from pykafka2.testing.controls.controls import Controls
from pykafka2.testing.remote.api import CONTROLS
from pykafka2.testing.remote.as_data import from_data, to_data
from pykafka2.testing.remote.http_client import AdminClient
from pykafka2.testing.views.timeline import Timeline

if TYPE_CHECKING:
    from typing import Unpack

RULE_RESULTS = frozenset({"rule", "add_rule", "hold", "fail_next", "delay", "lose_reply", "disconnect_next"})


class RemoteRule:
    """A rule in the child; reading `fired`, `seen` and other attributes calls the admin port."""

    def __init__(self, client: AdminClient, rule_id: int) -> None:
        self._client = client
        self.id = rule_id

    def to_dict(self) -> dict[str, Any]:
        """Return the present state as data.  Raise `ConfigurationError` after `clear` has removed the
        rule.
        """
        for rule in self._client.call(CONTROLS + "rules"):
            if rule["id"] == self.id:
                return dict(rule)
        raise ConfigurationError(f"No rule has the id {self.id}. rules() lists them.")

    @property
    def seen(self) -> int:
        return int(self.to_dict()["seen"])

    @property
    def fired(self) -> int:
        return int(self.to_dict()["fired"])

    @property
    def is_spent(self) -> bool:
        rule = self.to_dict()
        return bool(0 <= rule["times"] <= rule["fired"])

    def __getattr__(self, name: str) -> Any:
        """Return an argument of the rule: `rule.then`, `rule.times`."""
        if name not in RULE_KEYS:
            raise AttributeError(f"A fault rule has no attribute {name!r}{nearest(name, RULE_KEYS)}")
        return self.to_dict().get(name)

    def __repr__(self) -> str:
        return f"<rule {self.id}>"


class RemoteThrottle:
    """A throttle in the child; reading `fired` calls the admin port."""

    def __init__(self, client: AdminClient, data: Mapping[str, Any]) -> None:
        self._client = client
        self.id = int(data["id"])
        self.client_id, self.api_key, self.seconds = data["client_id"], data["api_key"], data["seconds"]

    @property
    def fired(self) -> int:
        for rule in self._client.call(CONTROLS + "throttles"):
            if rule["id"] == self.id:
                return int(rule["fired"])
        raise ConfigurationError(f"No throttle has the id {self.id}. throttles() lists them.")


class RemoteControls:
    """The proxy of `Controls`."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        known = [word for word in dir(Controls) if not word.startswith("_")]
        if name not in known:
            raise AttributeError(f"Unknown control {name!r}{nearest(name, known)}")
        function = getattr(Controls, name)

        def control(*positional: Any, **named: Any) -> Any:
            arguments = _named(function, positional, named)
            result = self._client.call(CONTROLS + name, **arguments)
            if name == "rules":
                return [RemoteRule(self._client, rule["id"]) for rule in result]
            if name == "throttles":
                return [RemoteThrottle(self._client, rule) for rule in result]
            if name == "throttle":
                return RemoteThrottle(self._client, result)
            return RemoteRule(self._client, result["id"]) if name in RULE_RESULTS else result

        return control


def _named(
    function: Callable[..., Any], positional: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name, as data."""
    parameters = signature(function).parameters
    try:
        bound = signature(function).bind(None, *positional, **named)
    except TypeError as error:
        raise TypeError(f"{function.__qualname__}(): {error}") from None
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if name == "self":
            continue
        if parameters[name].kind is Parameter.VAR_KEYWORD:
            arguments.update({key: _crossing(key, one) for key, one in value.items()})
        else:
            arguments[name] = _crossing(name, value)
    return arguments


def _crossing(name: str, value: Any) -> Any:
    """Convert a value to data; raise for values that cannot be sent."""
    if isinstance(value, FaultRule):
        for inner in ("where", "reply"):
            _crossing(inner, getattr(value, inner))
        data = {key: one for key, one in value.to_dict().items() if key not in ("id", "seen", "fired")}
        return {**data, **({"reply": _crossing("reply", value.reply)} if value.reply is not None else {})}
    if isinstance(value, RemoteRule | RemoteThrottle):
        return value.id
    if isinstance(value, Response):
        return {"message": type(value).NAME, "fields": to_plain(value)}
    if isinstance(value, type):
        if issubclass(value, Request):
            return api_name(value)
        if issubclass(value, BrokerError):
            return f"error:{error_name(value)}" if name == "then" else error_name(value)
    if callable(value):
        raise ConfigurationError(
            f"{name}: a function cannot be sent to the cluster's process. Pass data, or use a cluster "
            "in this "
            "process (process=False)"
        )
    if isinstance(value, Mapping):
        return {key: _crossing(key, one) for key, one in value.items()}
    if isinstance(value, float):
        return value  # also infinity and NaN: None would mean another thing, such as no quota
    return to_data(value)


class RemoteHistory(History):
    """The proxy of the history; `where` runs in this process."""

    def __init__(self, client: AdminClient) -> None:
        super().__init__()
        self._client = client

    def __len__(self) -> int:
        return len(self._client.call("history"))

    def __iter__(self) -> Iterator[Entry]:
        return iter(from_data(list[Entry], self._client.call("history")))

    def entries(self, api: ApiName | None = None, **criteria: Unpack[Criteria]) -> list[Entry]:
        api = None if api is None else api_name(api)
        check_criteria(criteria)
        since = criteria.get("since")
        chosen: dict[str, Any] = {}
        if not isinstance(since, Entry):  # which may be of another API or client
            chosen = {"api": api, **{name: criteria.get(name) for name in ("client_id", "broker", "peer")}}
        entries: list[Entry] = from_data(list[Entry], self._client.call("history", **chosen))
        if isinstance(since, Entry):
            keys = [(one.received_at, one.peer, one.correlation_id) for one in entries]
            key = (since.received_at, since.peer, since.correlation_id)
            entries = entries[keys.index(key) + 1 :] if key in keys else entries
        return [entry for entry in entries if matches(entry, api, criteria)]

    def in_flight_max(self, api: ApiName, *, client_id: str | None = None) -> int:
        return int(self._client.call("in_flight_max", api=api_name(api), client_id=client_id))

    def clear(self) -> None:
        self._client.call("clear_history")


class RemoteEvents(EventLog):
    """The proxy of the events, read-only."""

    def __init__(self, client: AdminClient) -> None:
        super().__init__()
        self._client = client

    def events(self, kind: str | None = None) -> list[ClusterEvent]:
        check_kind(kind)
        return [ClusterEvent(**event) for event in self._client.call("events", kind=kind)]

    def clear(self) -> None:
        self._client.call("clear_events")


class RemoteProblems(Problems):
    """The exceptions inside the brokers of the child, as text."""

    def __init__(self, client: AdminClient) -> None:
        super().__init__()
        self._client = client

    def __len__(self) -> int:
        return len(self._client.call("problems"))

    def __iter__(self) -> Iterator[Problem]:
        return iter(_problems(self._client.call("problems")))

    def take(self) -> list[Problem]:
        return _problems(self._client.call("take_problems"))


def _problems(data: list[dict[str, str]]) -> list[Problem]:
    return [Problem(one["where"], IllegalState(one["error"])) for one in data]


class RemoteTimeline(Timeline):
    """A timeline from the child."""

    def __init__(self, text: str, items: list[dict[str, Any]], metrics: dict[str, Any]) -> None:
        self._text = text
        self._data_items = items
        self._metrics_data = metrics

    def __len__(self) -> int:
        return len(self._data_items)

    def text(self) -> str:
        return self._text

    def json(self) -> str:
        return json.dumps({"timeline": self._data_items, "metrics": self._metrics_data})

    def as_list(self) -> list[dict[str, Any]]:
        return self._data_items
