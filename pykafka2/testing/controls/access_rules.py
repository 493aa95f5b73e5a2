"""`cluster.acls`: the access rules of a cluster, wherever its brokers run, and what they have refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.observed.event_log import ClusterEvent, EventLog
from pykafka2.testing.controls.access import Resource
from pykafka2.testing.controls.controls import Controls

if TYPE_CHECKING:
    from typing import Unpack


class AccessRules:
    """`cluster.acls`: access rules, made and taken back by the test's own hand.

    Principals are in Kafka's notation, "User:ann" ("User:*": everybody; who does not authenticate is
    "User:ANONYMOUS"), operations Kafka's: READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION,
    DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, ALL.
    """

    def __init__(self, controls: Controls, events: EventLog) -> None:
        self._controls = controls
        self._events = events

    def allow(self, principal: str, *operations: str, **resource: Unpack[Resource]) -> None:
        """Let a principal do this: `allow("User:ann", "READ", "DESCRIBE", topic="orders")`.

        Raises `ConfigurationError` for a misspelt operation, a resource that is not one, or if the cluster
        has no authorizer.
        """
        self._controls.allow_access(principal, *operations, **resource)

    def deny(self, principal: str, *operations: str, **resource: Unpack[Resource]) -> None:
        """Keep a principal from doing this, whatever allows it.  Raises as `allow`."""
        self._controls.deny_access(principal, *operations, **resource)

    def revoke(self, principal: str | None = None, *operations: str, **resource: Unpack[Resource]) -> int:
        """Take back rules, allowing and denying ones: of this principal (None: of all), for these operations
        (none: for all) on this resource (none: on all); how many went.
        """
        return self._controls.revoke_access(principal, *operations, **resource)

    def rules(self) -> list[dict[str, str]]:
        """Every rule: permission, principal, host, operation, resource_type, resource, pattern."""
        return self._controls.access_rules()

    def denials(self, principal: str | None = None) -> list[ClusterEvent]:
        """What was refused so far, oldest first, of one principal or all: events whose `facts` say
        principal, host, operation, resource_type, resource, api and broker.  The same is noted once, and up
        to a thousand different ones until the cluster is told to forget.
        """
        return [
            event for event in self._events.events("denied") if principal in (None, event.facts["principal"])
        ]
