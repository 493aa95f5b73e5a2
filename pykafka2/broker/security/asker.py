"""Who asks for one request to be carried out, and what that one may do; what is denied is told to the log."""

from __future__ import annotations

from typing import Any, Protocol

from pykafka2.broker.security.authorizer import Rights
from pykafka2.protocol.acl_terms import CLUSTER_NAME, ResourceType


class DenialLog(Protocol):
    """Is told what would be written to Kafka's authorizer log."""

    def denied(self, context: Any, rights: Rights, operation: int, resource_type: int, name: str) -> None:
        """Who asks, by a request, may not do this to a resource."""
        ...


class Asker:
    """The rights of who sent a request, asked while it is handled."""

    __slots__ = ("_context", "_log", "rights")

    def __init__(self, rights: Rights, log: DenialLog, context: Any) -> None:
        self.rights = rights
        self._log = log
        self._context = context

    def may(self, operation: int, resource_type: int, name: str, *, notes: bool = True) -> bool:
        """Whether this may be done to that resource.  With `notes` a refusal goes to the event log: not so
        where it only leaves something out, or something else may allow the same.
        """
        if self.rights.may(operation, resource_type, name):
            return True
        if notes:
            self._log.denied(self._context, self.rights, operation, resource_type, name)
        return False

    def may_on_cluster(self, operation: int, *, notes: bool = True) -> bool:
        """Whether this may be done to the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, notes=notes)
