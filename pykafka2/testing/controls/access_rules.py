"""`cluster.acls`: the access rules of a cluster, wherever its brokers run, and its denied requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.observed.event_log import ClusterEvent, EventLog
from pykafka2.testing.controls.access import Resource
from pykafka2.testing.controls.controls import Controls

if TYPE_CHECKING:
    from typing import Unpack


class AccessRules:
    """`cluster.acls`: adds and removes access rules.

    Principals have Kafka's notation, "User:ann" ("User:*": everyone; clients without authentication are
    "User:ANONYMOUS").  Operations are Kafka's: READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION,
    DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, ALL.
    """

    def __init__(self, controls: Controls, events: EventLog) -> None:
        self._controls = controls
        self._events = events

    def allow(self, principal: str, *operations: str, **resource: Unpack[Resource]) -> None:
        """Allow operations: `allow("User:ann", "READ", "DESCRIBE", topic="orders")`.

        Raise `ConfigurationError` for a misspelt operation, an illegal resource, or a cluster without
        authorizer.
        """
        self._controls.allow_access(principal, *operations, **resource)

    def deny(self, principal: str, *operations: str, **resource: Unpack[Resource]) -> None:
        """Deny operations, even if another rule allows them.  Raise the errors of `allow`."""
        self._controls.deny_access(principal, *operations, **resource)

    def revoke(self, principal: str | None = None, *operations: str, **resource: Unpack[Resource]) -> int:
        """Remove rules, allowing and denying: of this principal (None: all), for these operations (none: all)
        on this resource (none: all).  Return the number of removed rules.
        """
        return self._controls.revoke_access(principal, *operations, **resource)

    def rules(self) -> list[dict[str, str]]:
        """Return every rule: permission, principal, host, operation, resource_type, resource, pattern."""
        return self._controls.access_rules()

    def denials(self, principal: str | None = None) -> list[ClusterEvent]:
        """Return denied requests, oldest first, of one principal or all: events whose `facts` are principal,
        host, operation, resource_type, resource, api and broker.  Repetitions are recorded once, and at most
        a thousand different ones until the cluster's `forget` is called.
        """
        return [
            event for event in self._events.events("denied") if principal in (None, event.facts["principal"])
        ]
