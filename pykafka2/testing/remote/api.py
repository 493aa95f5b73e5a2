"""The calls of the admin port: names, arguments and results as plain data.

`call("controls/cut_link", {"source": 0, "target": 1})`.  Every public method of `Controls` is available by
its own name, including future ones.  Independent of HTTP; runs on the admin port's thread and acquires the
cluster's lock where needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, getdoc, signature
from typing import Any, TypedDict, cast

from pykafka2.broker.base.arguments import api_key, error_class
from pykafka2.broker.base.as_json import check_fields, from_plain
from pykafka2.broker.base.problems import Problem
from pykafka2.broker.config.keys import nearest
from pykafka2.broker.observed.history import Entry
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.registry import request_class
from pykafka2.protocol.struct import Struct
from pykafka2.testing.api import ClusterApi
from pykafka2.testing.controls.controls import Controls
from pykafka2.testing.remote.as_data import to_data
from pykafka2.testing.remote.openapi import check_path, document, result_schema
from pykafka2.testing.remote.waits import Wait
from pykafka2.testing.views.partitions import BrokerView, ControllerView

CONTROLS = "controls/"

# Methods of `ClusterApi` that are available under their own names.
CLUSTER_METHODS = (
    "bootstrap_servers_of",
    "connections",
    "coordinator",
    "create_topic",
    "delete_topic",
    "forget",
    "group",
    "log",
    "partition",
    "reset",
    "share_group",
    "share_partition",
    "telemetry",
    "topics",
    "transaction",
    "transactions",
)


# Views that `wait` can call, which change nothing.
VIEWS = (
    "brokers",
    "connections",
    "controller",
    "coordinator",
    "events",
    "group",
    "history",
    "in_flight_max",
    "log",
    "metrics",
    "partition",
    "problems",
    "records",
    "share_group",
    "share_partition",
    "telemetry",
    "topics",
    "transaction",
    "transactions",
    "values",
)

BASE64, UTF8 = "base64", "utf-8"


class MetricsData(TypedDict):
    """`ClusterMetrics` as data."""

    bytes_in: int
    bytes_out: int
    replication_bytes: int
    apis: dict[str, dict[str, Any]]
    brokers: dict[str, dict[str, Any]]


class ProblemData(TypedDict):
    """A `Problem` as data."""

    where: str
    error: str


class RecordData(TypedDict):
    """A record as data; key, value and headers are text."""

    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: list[list[str | None]]


class UnknownCall(ConfigurationError):
    """The admin port has no call with this name; the message names the nearest."""


class AdminApi:
    """The calls of one cluster."""

    def __init__(self, cluster: ClusterApi) -> None:
        self._cluster = cluster
        self._calls: dict[str, Callable[..., Any]] = {
            "bootstrap_servers": lambda: cluster.bootstrap_servers,
            "brokers": self._brokers,
            "clear_events": cluster.events.clear,
            "clear_history": cluster.history.clear,
            "cluster_id": lambda: cluster.cluster_id,
            "controller": self._controller,
            "events": cluster.events.events,
            "history": self._history,
            "in_flight_max": cluster.history.in_flight_max,
            "metrics": self._metrics,
            "metrics_state": self._metrics_state,
            "problems": self._problems,
            "records": self._records,
            "take_problems": lambda: _problems(cluster.problems.take()),
            "timeline": self._timeline,
            "values": self._values,
            "wait": self._wait,
        }
        self._calls |= {name: getattr(cluster, name) for name in CLUSTER_METHODS}
        self._document: dict[str, Any] | None = None

    def names(self) -> list[str]:
        """Return the names of all calls."""
        controls = [CONTROLS + name for name in dir(Controls) if not name.startswith("_")]
        return sorted([*self._calls, *controls])

    def help(self) -> dict[str, str]:
        """Return all calls with their arguments and descriptions."""
        found: dict[str, str] = {}
        for name in self.names():
            function = self._function(name)
            words = " ".join((getdoc(function) or "").split("\n\n")[0].split())
            taken = [str(one) for one in signature(function).parameters.values() if one.name != "self"]
            found[name] = f"({', '.join(taken)})" + (f": {words}" if words else "")
        return found

    def openapi(self) -> dict[str, Any]:
        """Return the description of all calls as an OpenAPI document."""
        if self._document is None:
            self._document = document({name: self._function(name) for name in self.names()})
        return self._document

    def health(self) -> dict[str, str]:
        """Return that the cluster runs.  Raise the error that ended it."""
        self._cluster.check()
        return {"status": "ok"}

    def _function(self, name: str) -> Callable[..., Any]:
        """Return the function of a call; one of `Controls` is not bound."""
        if name.startswith(CONTROLS):
            function: Callable[..., Any] = getattr(Controls, name.removeprefix(CONTROLS))
            return function
        return self._calls[name]

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Execute a call by name.  `wait` returns a `Wait`, all others plain data.

        Raise `UnknownCall`, `ConfigurationError` for wrong arguments, and the errors of the call.
        """
        if name not in self.names():
            raise UnknownCall(f"The admin port has no call {name!r}{nearest(name, self.names())}")
        if name.startswith(CONTROLS):
            function = getattr(self._cluster.controls, name.removeprefix(CONTROLS))
        else:
            function = self._calls[name]
        positional, named = _fitted(name, function, arguments)
        result = function(*positional, **named)
        return result if isinstance(result, Wait) else to_data(result)

    # ------------------------------------------------------------------ answers of its own

    def _brokers(self) -> list[BrokerView]:
        return [
            BrokerView(broker.id, broker.host, broker.port, broker.is_running, broker.is_paused)
            for broker in self._cluster.brokers
        ]

    def _controller(self) -> ControllerView:
        return ControllerView(self._cluster.controller.id, self._cluster.controller.epoch)

    def _metrics(self) -> MetricsData:
        return cast(MetricsData, self._cluster.metrics().as_dict())

    def _problems(self) -> list[ProblemData]:
        return _problems(self._cluster.problems)

    def _history(
        self,
        api: str | None = None,
        client_id: str | None = None,
        broker: int | None = None,
        peer: str | None = None,
    ) -> list[Entry]:
        return list(self._cluster.history.entries(api, client_id=client_id, broker=broker, peer=peer))

    def _timeline(self, last: int | None = None) -> dict[str, Any]:
        timeline = self._cluster.timeline(last)
        return {"text": timeline.text(), "items": timeline.as_list()}

    def _values(
        self,
        topic: str,
        partition: int,
        isolation: str = "read_uncommitted",
        broker: int | None = None,
        encoding: str = UTF8,
    ) -> list[str | None]:
        """Return the values of a partition in log order, as text; values that are not UTF-8 need
        encoding="base64".  isolation="read_committed" leaves out open and aborted transactions.
        """
        view = self._cluster.log(topic, partition, broker)
        return [_text(value, encoding) for value in view.values(isolation)]

    def _records(
        self,
        topic: str,
        partition: int,
        isolation: str = "read_uncommitted",
        broker: int | None = None,
        encoding: str = UTF8,
    ) -> list[RecordData]:
        """Return records like `values`, each with its offset, timestamp, key and headers."""
        return [
            {
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": _text(record.key, encoding),
                "value": _text(record.value, encoding),
                "headers": [[name, _text(value, encoding)] for name, value in record.headers],
            }
            for record in self._cluster.log(topic, partition, broker).records(isolation)
        ]

    def _wait(
        self,
        call: str,
        arguments: Mapping[str, Any] | None = None,
        until: Mapping[str, Any] | None = None,
        timeout: float = 10.0,
    ) -> Wait:
        """Call a view repeatedly until its result has all of `until`, and return it.  `until` has fields by
        name, nested ones with dots ({"state": "Stable", "members.count": 2}); "count" is the minimum length.
        Without `until` it waits for a result that is not empty.
        """
        if call not in VIEWS:
            raise ConfigurationError(
                f"wait: call={call!r} is no view{nearest(str(call), VIEWS) or '.'} "
                f"Views are {', '.join(VIEWS)}."
            )
        for name, value in (("arguments", arguments), ("until", until)):
            if not isinstance(value, Mapping | None):
                raise ConfigurationError(f"wait: {name}={value!r} is illegal. Set a JSON object.")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
            raise ConfigurationError(f"wait: timeout={timeout!r} is illegal. Set a number of seconds.")
        _fitted(call, self._calls[call], arguments or {})
        for path in until or {}:
            check_path(result_schema(self._calls[call]), path, f"wait: until: the result of {call}")
        return Wait(call, lambda: self.call(call, arguments or {}), until or {}, timeout)

    def _metrics_state(self) -> dict[str, Any]:
        return {str(broker): one.state() for broker, one in self._cluster.metrics().brokers.items()}


def _text(data: bytes | None, encoding: str) -> str | None:
    """Convert bytes to JSON text.  Raise `ConfigurationError` for bytes that are not text."""
    if data is None or encoding == BASE64:
        return None if data is None else str(to_data(data))
    if encoding != UTF8:
        raise ConfigurationError(
            f"encoding={encoding!r} is illegal. Set {UTF8!r} or "
            f"{BASE64!r}{nearest(str(encoding), (UTF8, BASE64))}"
        )
    try:
        return data.decode(UTF8)
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{data[:40]!r} is not UTF-8. Set encoding={BASE64!r}.") from error


def _problems(problems: Iterable[Problem]) -> list[ProblemData]:
    return [{"where": one.where, "error": repr(one.error)} for one in problems]


def _fitted(
    name: str, function: Callable[..., Any], arguments: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments by name, converted for the function; raise for a misspelt or missing one."""
    parameters = signature(function).parameters
    takes_any = any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values())
    known = [one.name for one in parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    values = {key: _value(key, value) for key, value in arguments.items()}
    for key in values:
        if key not in known and not takes_any:
            takes = f"its arguments are {', '.join(known)}" if known else "it takes none"
            raise ConfigurationError(f"{name} has no argument {key!r}{nearest(key, known) or ';'} {takes}")
    spread = [one.name for one in parameters.values() if one.kind is Parameter.VAR_POSITIONAL]
    missing = [
        one.name
        for one in parameters.values()
        if one.default is Parameter.empty and one.name in known and one.name not in (*values, *spread)
    ]
    if missing:
        raise ConfigurationError(f"{name} needs the argument {missing[0]!r}")
    if not spread:
        return [], values
    rest = values.pop(spread[0], [])
    if not isinstance(rest, list):
        raise ConfigurationError(f"{name}: {spread[0]}={rest!r} is illegal. Set a list.")
    # Arguments before *arguments must then be positional.
    positional = [
        values.pop(one.name, one.default)
        for one in parameters.values()
        if one.kind is Parameter.POSITIONAL_OR_KEYWORD
    ]
    return [*positional, *rest], values


def _value(key: str, value: Any) -> Any:
    """Convert data to Python's types: errors by name, partitions as pairs, whole responses."""
    if key == "error" and isinstance(value, str):
        return error_class(value)
    if key == "partition" and not isinstance(value, int | None):
        if not (isinstance(value, list) and len(value) == 2 and isinstance(value[1], int)):
            raise ConfigurationError(
                f'partition={value!r} is illegal. Set ["topic", number], or only the number.'
            )
        return tuple(value)
    if key == "topic" and isinstance(value, list) and len(value) == 2:
        return tuple(value)  # of compact, which takes a topic or a partition
    if key == "reply" and isinstance(value, Mapping):
        return _reply(value)
    if key == "rule" and isinstance(value, Mapping) and "reply" in value:
        return {**value, "reply": _value("reply", value["reply"])}
    return value


def _reply(value: Mapping[str, Any]) -> Mapping[str, Any] | Struct:
    """`{"message": "MetadataResponse", "fields": {...}}` is a whole response; else fields to change."""
    if set(value) != {"message", "fields"}:
        return value
    response = request_class(api_key(str(value["message"]).removesuffix("Response"))).RESPONSE
    fields = value["fields"]
    if not isinstance(fields, Mapping):
        raise ConfigurationError(f"reply: fields={fields!r} is illegal. Set a JSON object.")
    check_fields(response, fields, "reply: ")
    return from_plain(response, fields)
