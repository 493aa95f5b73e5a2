"""`PyKafka2Instrumentor`: traces all clients of the process, and reports the metrics of each."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Collection, Iterable
from functools import partial
from typing import Any, ClassVar, Final

from opentelemetry import metrics
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.metrics import CallbackOptions, Meter, Observation

from pykafka2 import ClientInfo, MetricKind, add_interceptor_factory, remove_interceptor_factory
from pykafka2.contrib.opentelemetry.consumer import ConsumerTracing
from pykafka2.contrib.opentelemetry.producer import ProducerTracing
from pykafka2.contrib.opentelemetry.telemetry import Telemetry, Tracing
from pykafka2.metric_table import ADMIN, CONSUMER_ALL, PRODUCER, SHARE_CONSUMER
from pykafka2.metrics import Definition, distinct_name

UNITS: Final = {"bytes": "By", "milliseconds": "ms", "nanoseconds": "ns", "seconds": "s", "ratio": "1"}
"""Units of metrics as OpenTelemetry writes them; other units are annotations, such as {records}."""

TRACINGS: Final[dict[str, type[Tracing]]] = {
    "producer": ProducerTracing,
    "consumer": ConsumerTracing,
    "share_consumer": ConsumerTracing,
}
TABLES: Final = {
    "producer": PRODUCER,
    "consumer": CONSUMER_ALL,
    "share_consumer": SHARE_CONSUMER,
    "admin": ADMIN,
}
"""The metrics of each kind of client."""


class PyKafka2Instrumentor(BaseInstrumentor):
    """Instruments the producers, consumers and share consumers that are created while it is on.

    These can be sync or asyncio. `instrument` takes the arguments of `Telemetry` by name, and
    `client_metrics=True` to report every row of the clients' `metric_rows()`, also those of admin clients. A
    client that has a `ProducerTracing` or `ConsumerTracing` already is not traced twice. After
    `uninstrument`, clients that exist record nothing more.
    """

    _telemetry: Telemetry
    _clients: ClientMetrics | None
    _clients_by_provider: ClassVar[weakref.WeakKeyDictionary[Any, ClientMetrics]] = (
        weakref.WeakKeyDictionary()
    )
    """A provider creates an instrument once, and ignores the callbacks of later ones with its name."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return that nothing else must be installed: the instrumentor is a part of what it instruments."""
        return ()

    def _instrument(self, **options: Any) -> None:
        names = ("tracer_provider", "meter_provider", "send_hook", "receive_hook", "process_hook")
        self._telemetry = Telemetry(**{name: options[name] for name in names if name in options})
        self._clients = None
        add_interceptor_factory(self._tracing_of)
        if options.get("client_metrics", False):
            provider = options.get("meter_provider") or metrics  # the module stands for the global one
            clients = self._clients_by_provider.get(provider)
            if clients is None:
                clients = self._clients_by_provider[provider] = ClientMetrics(self._telemetry.meter)
            self._clients = clients
            add_interceptor_factory(self._clients.watch)

    def _uninstrument(self, **options: Any) -> None:
        self._telemetry.is_on = False
        remove_interceptor_factory(self._tracing_of)
        if self._clients is not None:
            remove_interceptor_factory(self._clients.watch)
            self._clients.clear()

    def _tracing_of(self, kind: str, interceptors: tuple[Any, ...]) -> Tracing | None:
        if kind not in TRACINGS or any(isinstance(one, Tracing) for one in interceptors):
            return None
        return TRACINGS[kind](self._telemetry)


class ClientMetrics:
    """Observable instruments over the metric rows of all clients. Thread-safe.

    The row `record-send-total` of a producer is the instrument `kafka.producer.record_send_total`, with its
    tags as attributes. Of a name that exists with and without tags, only the rows with the most tags are
    reported, as a sum over attributes would count the others twice. Of several clients of one kind with the
    same client_id, the second has the attribute `client-id` NAME#2, since its values would replace those of
    the first.
    """

    def __init__(self, meter: Meter) -> None:
        self._watched: dict[tuple[str, str], weakref.ref[_Watched]] = {}
        """The interceptors by the kind and the distinct name of their clients."""
        self._lock = threading.RLock()  # a finalizer or a signal handler can close a client at any moment
        self._found: dict[str, list[Observation]] = {}
        """Observations of the last reading that no callback has returned yet, by instrument."""
        self._tags: dict[str, int] = {}
        """The number of tags of the rows to report, by instrument."""
        definitions = {
            instrument_name(kind, one.name): one
            for kind, table in TABLES.items()
            for one in sorted(table, key=lambda one: len(one.tags))
        }
        for name, definition in definitions.items():
            self._tags[name] = len(definition.tags) + 1  # client-id
            self._create(meter, name, definition)

    def watch(self, kind: str, interceptors: tuple[Any, ...]) -> _Watched:
        """Return an interceptor for a new client, whose rows are reported until it is closed."""
        return _Watched(self)

    def add(self, watched: _Watched, client: ClientInfo) -> tuple[str, str]:
        """Report this client from now on; return its key, for `remove`."""
        kind, watched_refs = client.kind, self._watched
        with self._lock:
            for key, known in list(watched_refs.items()):
                if known() is None:
                    watched_refs.pop(key, None)
            name = distinct_name(client.client_id or "", lambda name: (kind, name) in watched_refs)
            watched_refs[kind, name] = weakref.ref(watched)
        return kind, name

    def remove(self, key: tuple[str, str], watched: _Watched) -> None:
        """Report this client no more."""
        known = self._watched.get(key)
        if known is not None and known() in (watched, None):  # not a later client with the same name
            self._watched.pop(key, None)

    def clear(self) -> None:
        """Report the clients that exist no more."""
        self._watched.clear()

    def _create(self, meter: Meter, name: str, definition: Definition) -> None:
        is_counter = definition.kind is MetricKind.COUNTER
        create = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        create(name, [partial(self._observe, name)], unit_of(definition), definition.description)

    def _observe(self, name: str, options: CallbackOptions) -> Iterable[Observation]:
        """Return the observations of an instrument. The rows are read once for all instruments.

        A reader calls each instrument once in a collection, so the second call of one begins the next.
        """
        with self._lock:
            found = self._found.pop(name, None)
            if found is None:
                self._found = self._read()
                found = self._found.pop(name)
            return found

    def _read(self) -> dict[str, list[Observation]]:
        found: dict[str, list[Observation]] = {name: [] for name in self._tags}
        for (kind, client_id), known in list(self._watched.items()):
            watched = known()
            for row in [] if watched is None else watched.client.metric_rows():
                name = instrument_name(kind, row.name)
                if len(row.tags) == self._tags.get(name) and not math.isnan(row.value):
                    found[name].append(Observation(row.value, {**row.tags, "client-id": client_id}))
        return found


class _Watched:
    """The interceptor of a client whose metrics are reported."""

    client: ClientInfo

    def __init__(self, metrics: ClientMetrics) -> None:
        self._metrics = metrics
        self._key = "", ""

    def on_start(self, client: ClientInfo) -> None:
        self.client = client
        self._key = self._metrics.add(self, client)

    def close(self) -> None:
        self._metrics.remove(self._key, self)


def unit_of(definition: Definition) -> str:
    """Return the unit of a metric by UCUM, such as By/s."""
    unit, _, per = definition.unit.partition(" per ")
    if unit == f"{per}s":
        return "1"  # a ratio of times
    written = UNITS.get(unit, f"{{{unit}}}")
    return f"{written}/{'s' if per == 'second' else f'{{{per}}}'}" if per else written


def instrument_name(kind: str, name: str) -> str:
    """Return the name of an instrument, such as kafka.producer.record_send_total."""
    return f"kafka.{kind}.{name.replace('-', '_')}"
