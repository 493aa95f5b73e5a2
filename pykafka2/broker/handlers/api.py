"""The broker's APIs: each is one declaration, with its versions, its access, where it runs, and its refusal.

`@api(DescribeAclsRequest, 1, 3, access=on_cluster(Operation.DESCRIBE))` stands on the function that responds.
ApiVersions advertises what is declared, the gate runs `access`, and faults and errors use `refusal`.

Requests for the active controller are handled as events of its queue, on the broker that hosts it (KIP-590).
The request's own timeout, if Kafka uses it, limits the wait in the queue; after it the client gets
REQUEST_TIMED_OUT. Access requires the cluster's lock.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final, TypeVar

import attrs

from pykafka2.broker import handlers
from pykafka2.broker.base.features import DEFAULT, Release
from pykafka2.broker.coordinators.refusals import refusal as of_coordinator
from pykafka2.broker.handlers.authorization import BROKERS, Check
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.responses import REFUSAL
from pykafka2.clock import FOREVER
from pykafka2.errors import RequestTimedOut
from pykafka2.protocol.registry import API_KEYS, ApiKey, name_of
from pykafka2.protocol.struct import Request, Response

Handle = Callable[[Services, RequestContext, Any, float], "Response | None"]
"""Callback: (services, context, request, now) -> the response, or None if it is sent later or not at all."""

Refuse = Callable[[Any, int, int], Response]
"""Callback: (request, version, error code) -> the error response."""

H = TypeVar("H", bound=Handle)


class Place(enum.Enum):
    """The place where a request is handled."""

    HERE = "the broker that received it"
    CONTROLLER = "the active controller, as an event of its queue; other brokers forward to it"
    GROUP_COORDINATOR = "the shard of its group"
    TRANSACTION_COORDINATOR = "the shard of its transactional id"
    SHARE_COORDINATOR = "the shards of its share partitions"


HERE, CONTROLLER = Place.HERE, Place.CONTROLLER
GROUP_COORDINATOR, TRANSACTION_COORDINATOR = Place.GROUP_COORDINATOR, Place.TRANSACTION_COORDINATOR
SHARE_COORDINATOR = Place.SHARE_COORDINATOR
COORDINATORS = (GROUP_COORDINATOR, TRANSACTION_COORDINATOR, SHARE_COORDINATOR)


@attrs.define(frozen=True, eq=False)
class Api:
    """One served API."""

    api_key: int
    min_version: int
    max_version: int
    handle: Handle
    access: Check
    at: Place
    refusal: Refuse
    oldest_version: int
    """The lowest version that `handle` knows if an older release has it."""

    @property
    def name(self) -> str:
        return API_KEYS[self.api_key].name

    @property
    def between_brokers(self) -> bool:
        """Whether only brokers can send it, over their links; clients do not see it."""
        return self.access is BROKERS


APIS: Final[dict[int, Api]] = {}


def api(
    request: type[Request[Any]],
    first: int,
    last: int,
    *,
    access: Check | None = None,
    at: Place = HERE,
    refusal: Refuse | None = None,
    oldest: int | None = None,
) -> Callable[[H], H]:
    """Declare an API for these versions; the decorated function handles it.

    `access` must be given: a check of handlers/authorization.py, or OPEN or BROKERS. Without it this raises
    `TypeError`, so that nothing is open by omission. At the controller `services.controller` is the active
    one. At a coordinator no function is needed, because the request is submitted to its shard. `refusal` is
    given only if Kafka's error responses deviate from `REFUSAL`, or from coordinators/refusals.py. Versions
    from `oldest` on are served as an older release that has them (`KafkaCluster(as_version=...)`).
    """
    key = request.API_KEY
    if access is None:
        raise TypeError(
            f"the API {name_of(key)} has no access. Write what its sender needs, such as "
            "access=on_cluster(Operation.DESCRIBE), each_topic(Operation.READ), on_named(Operation.READ, "
            'ResourceType.GROUP, "group_id"); or access=OPEN if every client may send it, or access=BROKERS'
        )
    if key in APIS:
        raise TypeError(f"the API {name_of(key)} is declared twice")
    default: Refuse = of_coordinator if at in COORDINATORS else REFUSAL

    def register(handle: H) -> H:
        lowest = first if oldest is None else oldest
        APIS[key] = Api(key, first, last, handle, access, at, refusal or default, lowest)
        return handle

    if at is GROUP_COORDINATOR:
        register(submit_to_groups)
    elif at is TRANSACTION_COORDINATOR:
        register(submit_to_transactions)
    elif at is SHARE_COORDINATOR:
        register(submit_to_shares)
    return register


def submit_to_groups(services: Services, context: RequestContext, request: Any, now: float) -> None:
    """Submit a request to its group's shard, which responds, possibly before this returns."""
    services.coordinators.submit(services.coordinators.groups, context, request, now)


def submit_to_transactions(services: Services, context: RequestContext, request: Any, now: float) -> None:
    """Submit a request to the shard of its transactional id, which responds, possibly before this returns."""
    services.coordinators.submit(services.coordinators.transactions, context, request, now)


def submit_to_shares(services: Services, context: RequestContext, request: Any, now: float) -> None:
    """Submit a request to the shards of its share partitions, which respond, possibly before this returns."""
    services.coordinators.submit(services.coordinators.shares, context, request, now)


def authorize_and_handle(services: Services, api: Api, context: RequestContext, now: float) -> None:
    """Call the API's function if the client is authorized; a failure affects this request only."""
    gate = services.gate
    if gate is None or gate.lets_pass(context, services.image):
        services.respond_with(context, partial(api.handle, services, context, context.request, now))
        return

    def handle() -> Response | None:
        return api.handle(services, context, context.request, now)  # without what the gate has rejected

    by_controller = api.at is CONTROLLER
    image = services.controller.image if by_controller else services.image
    services.respond_with(
        context,
        lambda: gate.handle(services, context, image, api.access, handle, by_controller=by_controller),
    )


def services_of_receiver(services: Services, context: RequestContext) -> Services:
    """Return the services of the broker that received the client's request.

    For handlers at the controller. Kafka's brokers check what concerns a single broker before they forward;
    here that is done afterwards.
    """
    if not context.is_from_broker:
        return services
    return services.of(int(context.peer.rpartition("-")[2]))


@cache
def load() -> None:
    """Import every module of handlers/, so that its APIs are declared. Can be called repeatedly."""
    for module in iter_modules(handlers.__path__):
        import_module(f"{handlers.__name__}.{module.name}")


class ClientApis:
    """The APIs for clients, as processors use them, limited to those of a release."""

    def __init__(self, release: Release = DEFAULT, *, has_telemetry: bool = False) -> None:
        self._release = release
        self.ranges = client_ranges(release, has_telemetry=has_telemetry)

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


TELEMETRY = frozenset((ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY))


def client_ranges(release: Release, *, has_telemetry: bool = False) -> dict[int, tuple[int, int]]:
    """Return the versions for clients by API key, of the APIs that both this broker and a release have.

    As in Kafka, those of client telemetry are included only if something receives it.
    """
    ranges = {}
    for key, api in sorted(APIS.items()):
        if key in TELEMETRY and not has_telemetry:
            continue
        versions = release.versions_of(key, api.oldest_version, api.max_version)
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
    return timeout_ms / 1000.0


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
        lambda: authorize_and_handle(services, api, context, services.clock.monotonic()),
        now,
        deadline=FOREVER if api.between_brokers else deadline_of(context),
        refused=lambda error, at: refused(at),
        expire=lambda at: services.responses.refuse(context, RequestTimedOut.code or 0),
    )
