"""SCRAM users and client quotas (KIP-554, KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.unavailable import not_yet
from pykafka2.admin.values import QuotaEntity


class UsersAdmin:
    """The part of `KafkaAdminClient` that is about users and quotas.  Timeouts are seconds; thread-safe."""

    def describe_scram_users(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, dict[str, int]]:
        """Each user's mechanisms with their iterations; never a credential."""
        not_yet("KafkaAdminClient.describe_scram_users")

    def upsert_scram_user(
        self,
        user: str,
        password: str,
        *,
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = 8192,
        timeout: float | None = None,
    ) -> None:
        """Create a user or give it a new password; the password itself never leaves this process."""
        not_yet("KafkaAdminClient.upsert_scram_user")

    def delete_scram_user(
        self, user: str, *, mechanism: str = "SCRAM-SHA-512", timeout: float | None = None
    ) -> None:
        """Take away a user's credential for one mechanism; those for others stay.

        Raises:
            ResourceNotFound: the user has none for this mechanism.
        """
        not_yet("KafkaAdminClient.delete_scram_user")

    def describe_client_quotas(self, *, timeout: float | None = None) -> dict[QuotaEntity, dict[str, float]]:
        """All quotas: `producer_byte_rate`, `consumer_byte_rate`, `request_percentage` ..."""
        not_yet("KafkaAdminClient.describe_client_quotas")

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[QuotaEntity, None]:
        """Set quotas; None takes one away."""
        not_yet("KafkaAdminClient.alter_client_quotas")
