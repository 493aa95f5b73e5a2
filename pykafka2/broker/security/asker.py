"""Authorization checks for one request; denials go to the event log."""

from __future__ import annotations

from typing import Any, Protocol

from pykafka2.broker.security.authorizer import Rights
from pykafka2.protocol.acl_terms import CLUSTER_NAME, ResourceType


class DenialLog(Protocol):
    """Receives what Kafka writes to its authorizer log."""

    def denied(self, context: Any, rights: Rights, operation: int, resource_type: int, name: str) -> None:
        """Record that the sender of a request is denied an operation on a resource."""
        ...


class Access:
    """The rights of the sender of a request, checked while the request is handled."""

    __slots__ = ("_context", "_log", "rights")

    def __init__(self, rights: Rights, log: DenialLog, context: Any) -> None:
        self.rights = rights
        self._log = log
        self._context = context

    def may(self, operation: int, resource_type: int, name: str, *, notes: bool = True) -> bool:
        """Return whether the operation is allowed on the resource.

        With `notes` a denial goes to the event log. Pass False if a denial only omits part of the response,
        or if another right may allow the same.
        """
        if self.rights.may(operation, resource_type, name):
            return True
        if notes:
            self._log.denied(self._context, self.rights, operation, resource_type, name)
        return False

    def may_on_cluster(self, operation: int, *, notes: bool = True) -> bool:
        """Return whether the operation is allowed on the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, notes=notes)
