"""Access rules (DescribeAcls, CreateAcls, DeleteAcls)."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.unavailable import not_yet
from pykafka2.admin.values import AclBinding


class AclsAdmin:
    """The part of `KafkaAdminClient` that is about access rules.  Timeouts are seconds; thread-safe."""

    def describe_acls(
        self,
        *,
        resource_type: str = "ANY",
        resource_name: str | None = None,
        principal: str | None = None,
        timeout: float | None = None,
    ) -> list[AclBinding]:
        """The rules that match; None and ANY match all."""
        not_yet("KafkaAdminClient.describe_acls")

    def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[AclBinding, None]:
        """Add rules; one that is there already stays as it is.  One outcome for each rule.

        Raises:
            ItemsFailed: some were refused (unless `raise_errors` is False), each with the broker's error.
        """
        not_yet("KafkaAdminClient.create_acls")

    def delete_acls(
        self, bindings: Iterable[AclBinding], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[AclBinding, None]:
        """Take these rules away, each matched in all its parts; one that is not there is no error.

        Raises as `create_acls`.
        """
        not_yet("KafkaAdminClient.delete_acls")
