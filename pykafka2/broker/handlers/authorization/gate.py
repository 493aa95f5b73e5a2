"""A broker's gate: authorizes a request before the API's function is called.

Exists if authorizer.class.name names Kafka's StandardAuthorizer. It uses the ACLs of the broker's latest
metadata (the controller's, for requests that the controller handles) and rebuilds its index when they change.
Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.handlers.authorization.checks import WORDS, Checked
from pykafka2.broker.handlers.authorization.table import CHECKS
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.security.acls import NO_ACLS, Acls
from pykafka2.broker.security.authorizer import MAX_CALLERS, Access, Authorizer, Rights, Settings
from pykafka2.broker.security.principal import Caller
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.clock import Clock
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.registry import ApiKey, name_of
from pykafka2.protocol.struct import Response

PRODUCE: Final = int(ApiKey.PRODUCE)
WRITE: Final = int(Operation.WRITE)
TOPIC: Final = int(ResourceType.TOPIC)


def settings_of(config: BrokerConfig) -> Settings:
    """Return super.users and allow.everyone.if.no.acl.found. Raise `ConfigurationError`."""
    return Settings.of(
        config.text("super.users") or "",
        allows_if_none_found=bool(config.get("allow.everyone.if.no.acl.found")),
    )


class Gate:
    """Passes requests to their handlers, or rejects them."""

    def __init__(self, broker_id: int, config: BrokerConfig, clock: Clock, events: EventLog) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._events = events
        self._settings = settings_of(config)
        self._acls = NO_ACLS
        self._authorizer = self._of_controller = Authorizer(NO_ACLS, self._settings)
        # By identity: a connection uses the same object each time, and hashing one takes a microsecond.
        self._rights: dict[int, tuple[Caller, Rights]] = {}

    def lets_pass(self, context: RequestContext, image: ClusterImage) -> bool:
        """Return whether a request is known to be authorized. If False, `handle` decides.

        Repeated requests only look up cached decisions: a hundredth of the cost of a Produce.
        """
        if context.api_key == PRODUCE:
            request: Any = context.request
            known = self._rights.get(id(context.origin.caller))
            if known is None or image.acls is not self._acls or request.transactional_id is not None:
                return False
            decided = known[1].decided
            for topic in request.topic_data:
                name = topic.name or image.topic_names.get(topic.topic_id)
                if not decided.get((WRITE, TOPIC, name)):  # type: ignore[arg-type]
                    return False
            return True
        return context.origin.caller.is_broker

    def handle(
        self,
        services: Services,
        context: RequestContext,
        image: ClusterImage,
        proceed: Callable[[], Response | None],
        *,
        by_controller: bool,
    ) -> Response | None:
        """Return the response of the API's function, `proceed`, or an authorization error."""
        check = CHECKS.get(context.api_key)
        if check is None:
            return proceed()
        access = self.access(context, image.acls, by_controller=by_controller)
        verdict = check(Checked(services, context, access, image))
        if verdict is None:
            return proceed()
        if isinstance(verdict, int):
            refusal = services.responses.refused(context, verdict)
            if getattr(refusal, "error_message", None):
                refusal.error_message = WORDS[verdict]  # type: ignore[union-attr]
            return refusal
        return verdict

    def access(self, context: RequestContext, acls: Acls, *, by_controller: bool = False) -> Access:
        """Return the rights of the sender of a request under these ACLs."""
        caller = context.origin.caller
        if by_controller:
            if self._of_controller.acls is not acls:
                self._of_controller = Authorizer(acls, self._settings)
            return Access(self._of_controller.rights_of(caller), self, context)
        if self._acls is not acls:
            self._acls, self._authorizer = acls, Authorizer(acls, self._settings)
            self._rights = {}
        known = self._rights.get(id(caller))
        if known is None:
            if len(self._rights) >= MAX_CALLERS:
                self._rights.clear()
            known = self._rights[id(caller)] = caller, self._authorizer.rights_of(caller)
        return Access(known[1], self, context)

    def denied(
        self, context: RequestContext, rights: Rights, operation: int, resource_type: int, name: str
    ) -> None:
        """Record a denial in the event log."""
        self._events.access_denied(
            self._clock.monotonic(),
            self._broker_id,
            rights.principal,
            rights.host,
            name_of(context.api_key),
            Operation(operation).name,
            ResourceType(resource_type).name,
            name,
        )
