"""A broker's gate: whether who sent a request may have it carried out, before the API's function is called.

There is one where authorizer.class.name names Kafka's StandardAuthorizer.  It goes by the access rules of the
broker's newest metadata (the controller's, for what the controller answers) and builds its index anew when
those have changed.  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.handlers.authorization.checks import WORDS, Checked
from pykafka2.broker.handlers.authorization.table import CHECKS
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.security.acls import NO_ACLS, Acls
from pykafka2.broker.security.asker import Asker
from pykafka2.broker.security.authorizer import Authorizer, Rights, Settings
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.clock import Clock
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.registry import name_of
from pykafka2.protocol.struct import Response


def settings_of(config: BrokerConfig) -> Settings:
    """What super.users and allow.everyone.if.no.acl.found say.  Raises `ConfigurationError`."""
    return Settings.of(
        config.text("super.users") or "",
        allows_if_none_found=bool(config.get("allow.everyone.if.no.acl.found")),
    )


class Gate:
    """Lets requests through to their handlers, or answers them."""

    def __init__(self, broker_id: int, config: BrokerConfig, clock: Clock, events: EventLog) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._events = events
        self._settings = settings = settings_of(config)
        self._authorizers = [Authorizer(NO_ACLS, settings), Authorizer(NO_ACLS, settings)]

    def handle(
        self,
        services: Services,
        context: RequestContext,
        image: ClusterImage,
        go_on: Callable[[], Response | None],
        *,
        by_controller: bool,
    ) -> Response | None:
        """The answer to a request: of its function, `go_on`, or why it is not called."""
        check = CHECKS.get(context.api_key)
        if check is None:
            return go_on()
        asker = self.asker(context, image.acls, by_controller=by_controller)
        verdict = check(Checked(services, context, asker, image))
        if verdict is None:
            return go_on()
        if isinstance(verdict, int):
            refusal = services.answers.refused(context, verdict)
            if getattr(refusal, "error_message", None):
                refusal.error_message = WORDS[verdict]  # type: ignore[union-attr]
            return refusal
        return verdict

    def asker(self, context: RequestContext, acls: Acls, *, by_controller: bool = False) -> Asker:
        """The rights of who sent a request, by these rules."""
        authorizer = self._authorizers[by_controller]
        if authorizer.acls is not acls:
            authorizer = self._authorizers[by_controller] = Authorizer(acls, self._settings)

        def on_denied(rights: Rights, operation: int, resource_type: int, name: str) -> None:
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

        return Asker(authorizer.rights_of(context.caller), on_denied)
