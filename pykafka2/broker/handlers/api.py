"""The broker's APIs: versions, where each runs, and the functions that handle and refuse its requests.

A handler module registers itself: `@handles(ProduceRequest, 3, 13)` on the function that responds, and
`@refuses` on the one that builds the same response with an error in every field (for faults). ApiVersions
advertises what is registered.

Requests for the active controller are handled as events of its queue, on the broker that hosts it (KIP-590).
The request's own timeout, if Kafka uses it, limits the wait in the queue; after it the client gets
REQUEST_TIMED_OUT. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeVar

import attrs

from pykafka2.broker.base.features import DEFAULT, Release
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.clock import FOREVER
from pykafka2.errors import RequestTimedOut
from pykafka2.protocol.registry import API_KEYS, name_of
from pykafka2.protocol.struct import Request, Response

Handle = Callable[[Services, RequestContext, Any, float], "Response | None"]
"""Callback: (services, context, request, now) -> the response, or None if it is sent later or not at all."""

Refuse = Callable[[Any, int], Response]
"""Callback: (request, error code) -> the error response."""

F = TypeVar("F", bound=Refuse)

HANDLER_MODULES: Final = (
    "administration",
    "api_versions",
    "brokers",
    "envelope",
    "fetch",
    "find_coordinator",
    "groups",
    "log_dirs",
    "metadata",
    "offsets",
    "produce",
    "sasl",
    "transactions",
)


@attrs.define
class Api:
    """One served API."""

    api_key: int
    min_version: int
    max_version: int
    handle: Handle
    refuse: Refuse | None = None
    by_controller: bool = False
    between_brokers: bool = False
    oldest_version: int | None = None
    """The lowest version that the function can handle if an older release has it; default: `min_version`."""
    refuse_in_version: Callable[[Any, int, int], Response] | None = None
    """Callback: (request, version, error code); used instead of `refuse` if the response depends on the
    version.
    """

    @property
    def name(self) -> str:
        return API_KEYS[self.api_key].name

    @property
    def can_refuse(self) -> bool:
        return self.refuse is not None or self.refuse_in_version is not None

    def refusal(self, request: Request[Any], version: int, code: int) -> Response | None:
        """Return the response with an error in every field; None if there is none."""
        if self.refuse_in_version is not None:
            return self.refuse_in_version(request, version, code)
        return None if self.refuse is None else self.refuse(request, code)


APIS: dict[int, Api] = {}


def handles(
    request: type[Request[Any]],
    min_version: int,
    max_version: int,
    *,
    by_controller: bool = False,
    between_brokers: bool = False,
    oldest_version: int | None = None,
) -> Callable[[Handle], Handle]:
    """Register the handler function of an API for these versions.

    With `by_controller` it runs on the broker of the active controller, as an event of its queue
    (`services.controller` is that controller); other brokers forward to it. With `between_brokers` only
    brokers can send it, over their links, and clients do not see the API. Versions from `oldest_version` on
    are served as an older release that has them (`KafkaCluster(as_version=...)`).
    """

    def register(function: Handle) -> Handle:
        APIS[request.API_KEY] = Api(
            request.API_KEY,
            min_version,
            max_version,
            function,
            by_controller=by_controller,
            between_brokers=between_brokers,
            oldest_version=oldest_version,
        )
        return function

    return register


def refuses(request: type[Request[Any]]) -> Callable[[F], F]:
    """Register the function that builds error responses of an API."""

    def register(function: F) -> F:
        APIS[request.API_KEY].refuse = function
        return function

    return register


def respond(services: Services, api: Api, context: RequestContext, now: float) -> None:
    """Have the API's function respond; a failure affects this request only."""
    if context.is_complete:
        return  # its connection is closed

    gate = services.gate
    if gate is None or gate.lets_pass(context, services.image):
        services.respond_with(context, partial(api.handle, services, context, context.request, now))
        return

    def handle() -> Response | None:
        return api.handle(services, context, context.request, now)  # without what the gate has rejected

    image = services.controller.image if api.by_controller else services.image
    services.respond_with(
        context, lambda: gate.handle(services, context, image, handle, by_controller=api.by_controller)
    )


def services_of_receiver(services: Services, context: RequestContext) -> Services:
    """Return the services of the broker that received the client's request.

    For handlers with `by_controller`.

    Kafka's brokers check what concerns a single broker before they forward; here that is done afterwards.
    """
    if not context.is_from_broker:
        return services
    return services.of(int(context.peer.rpartition("-")[2]))


def load() -> None:
    """Import every handler. Can be called repeatedly."""
    for name in HANDLER_MODULES:
        import_module(f"pykafka2.broker.handlers.{name}")


class ClientApis:
    """The APIs for clients, as processors use them, limited to those of a release."""

    def __init__(self, release: Release = DEFAULT) -> None:
        self._release = release
        self.ranges = client_ranges(release)

    def is_served(self, api_key: int, version: int) -> bool:
        """Return whether clients can send this request."""
        served = self.ranges.get(api_key)
        return served is not None and served[0] <= version <= served[1]

    def why_not_served(self, api_key: int, version: int) -> str:
        """Return the reason for the log if a request is not served."""
        served, name = self.ranges.get(api_key), name_of(api_key)
        limit = "" if self._release.is_default else f" as Apache Kafka {self._release.name}"
        if served is None:
            return f"{name} is not served to clients{limit}"
        return f"{name} v{version} is not served{limit}, v{served[0]} to v{served[1]} are"


def client_ranges(release: Release) -> dict[int, tuple[int, int]]:
    """Return the versions for clients by API key, of the APIs that both this broker and a release have."""
    ranges = {}
    for key, api in sorted(APIS.items()):
        lowest = api.min_version if api.oldest_version is None else api.oldest_version
        versions = release.versions_of(key, lowest, api.max_version)
        if versions is not None and not api.between_brokers:
            ranges[key] = versions
    return ranges


# Requests whose timeout_ms Kafka's controller uses: CreateTopics, DeleteTopics, CreatePartitions,
# ElectLeaders, AlterPartitionReassignments. It ignores that of ListPartitionReassignments and UpdateFeatures.
BOUNDED_BY_THEMSELVES = frozenset((19, 20, 37, 43, 45))

# Kafka's request.timeout.ms for all others.
DEFAULT_TIMEOUT = 30.0


def timeout_of(request: Any) -> float:
    """Return how long the client waits, in seconds."""
    if request.API_KEY not in BOUNDED_BY_THEMSELVES:
        return DEFAULT_TIMEOUT
    timeout_ms: int = request.timeout_ms
    return max(timeout_ms, 0) / 1000.0


def deadline_of(context: RequestContext) -> float:
    """Return until when the client waits."""
    return context.received.received_at + timeout_of(context.request)


def submit_to_controller(
    services: Services, api: Api, context: RequestContext, now: float, refused: Callable[[float], None]
) -> None:
    """Handle a request as an event of the controller's queue.

    `refused` is called if this broker is no longer the controller by then.
    """
    services.controller_node.change(
        api.name,
        lambda: respond(services, api, context, services.clock.monotonic()),
        now,
        deadline=FOREVER if api.between_brokers else deadline_of(context),
        refused=lambda error, at: refused(at),
        expire=lambda at: services.responses.refuse(context, RequestTimedOut.code or 0),
    )
