"""Who asks for one request to be carried out, and what that one may do; what is denied is told to the log."""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.broker.security.authorizer import Rights
from pykafka2.protocol.acl_terms import CLUSTER_NAME, ResourceType

OnDenied = Callable[[Rights, int, int, str], None]
"""(whose rights, operation, resource type, name): what Kafka would write to its authorizer's log."""


class Asker:
    """The rights of who sent a request, asked while it is handled."""

    __slots__ = ("_on_denied", "rights")

    def __init__(self, rights: Rights, on_denied: OnDenied) -> None:
        self.rights = rights
        self._on_denied = on_denied

    def may(self, operation: int, resource_type: int, name: str, *, notes: bool = True) -> bool:
        """Whether this may be done to that resource.  With `notes` a refusal goes to the event log: not so
        where it only leaves something out, or something else may allow the same.
        """
        if self.rights.may(operation, resource_type, name):
            return True
        if notes:
            self._on_denied(self.rights, operation, resource_type, name)
        return False

    def may_on_cluster(self, operation: int, *, notes: bool = True) -> bool:
        """Whether this may be done to the cluster."""
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, notes=notes)
