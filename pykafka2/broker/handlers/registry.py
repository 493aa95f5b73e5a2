"""Which requests this broker answers, at which versions, and by which function.

A handler file registers itself: `@handles(ProduceRequest, 3, 13)` on the function that answers, and
`@refuses` on the one that makes the same answer with an error code in every place (for planted faults).
ApiVersions offers what is registered, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeVar

import attrs

from pykafka2.broker.handlers.services import Services
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.protocol.registry import API_KEYS, name_of
from pykafka2.protocol.struct import Request, Response

Handle = Callable[[Services, RequestContext, Any, float], "Response | None"]
"""(services, context, request, now) -> the answer, or None if it comes later or not at all."""

Refuse = Callable[[Any, int], Response]
"""(request, error code) -> the answer that says so."""

F = TypeVar("F", bound=Refuse)

HANDLER_MODULES: Final = (
    "administration",
    "allocate_producer_ids",
    "alter_partition",
    "api_versions",
    "broker_registration",
    "delete_records",
    "envelope",
    "fetch",
    "find_coordinator",
    "group_coordinator",
    "list_offsets",
    "log_dirs",
    "metadata",
    "offset_for_leader_epoch",
    "produce",
    "sasl",
    "transaction_coordinator",
)


@attrs.define
class Api:
    """One API as it is served."""

    api_key: int
    min_version: int
    max_version: int
    handle: Handle
    refuse: Refuse | None = None
    by_controller: bool = False
    between_brokers: bool = False
    refuse_in_version: Callable[[Any, int, int], Response] | None = None
    """(request, version, error code): instead of `refuse`, where the answer depends on the version."""

    @property
    def name(self) -> str:
        return API_KEYS[self.api_key].name

    @property
    def can_refuse(self) -> bool:
        return self.refuse is not None or self.refuse_in_version is not None

    def refusal(self, request: Request[Any], version: int, code: int) -> Response | None:
        """The answer with an error in every place; None if there is none."""
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
) -> Callable[[Handle], Handle]:
    """Register the function that answers this API at these versions.

    With `by_controller` it runs on the broker that hosts the active controller, as an event of its queue
    (`services.controller` is that controller); all other brokers forward to it.
    With `between_brokers` only brokers may ask, over their links, and clients hear nothing of it.
    """

    def register(function: Handle) -> Handle:
        APIS[request.API_KEY] = Api(
            request.API_KEY,
            min_version,
            max_version,
            function,
            by_controller=by_controller,
            between_brokers=between_brokers,
        )
        return function

    return register


def refuses(request: type[Request[Any]]) -> Callable[[F], F]:
    """Register the function that answers this API with one error everywhere."""

    def register(function: F) -> F:
        APIS[request.API_KEY].refuse = function
        return function

    return register


def respond(services: Services, api: Api, context: RequestContext, now: float) -> None:
    """Have the API's function answer; whatever goes wrong costs this request alone."""
    if context.is_answered:
        return  # its connection is gone

    def handle() -> Response | None:
        return api.handle(services, context, context.request, now)

    gate = services.gate
    if gate is None or gate.lets_pass(context, services.image):
        services.respond_with(context, handle)
        return
    image = services.controller.image if api.by_controller else services.image
    services.respond_with(
        context, lambda: gate.handle(services, context, image, handle, by_controller=api.by_controller)
    )


def services_asked(services: Services, context: RequestContext) -> Services:
    """Those of the broker that a client has asked, where a handler runs `by_controller`.

    Kafka's brokers check what concerns a single broker before they forward; here that is done after.
    """
    if not context.is_from_broker:
        return services
    return services.of(int(context.peer.rpartition("-")[2]))


def load() -> None:
    """Import every handler.  Safe to repeat."""
    for name in HANDLER_MODULES:
        import_module(f"pykafka2.broker.handlers.{name}")


class ClientApis:
    """What clients may ask, for processors (server/api_table.py)."""

    def is_served(self, api_key: int, version: int) -> bool:
        """Whether clients may ask this."""
        api = APIS.get(api_key)
        return api is not None and not api.between_brokers and api.min_version <= version <= api.max_version

    def why_not_served(self, api_key: int, version: int) -> str:
        """What to tell the people whose client asked it."""
        api = APIS.get(api_key)
        if api is None or api.between_brokers:
            return f"{name_of(api_key)} is not served to clients"
        return f"{name_of(api_key)} v{version} is not served, v{api.min_version} to v{api.max_version} are"
