"""SCRAM users and client quotas (KIP-554, KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pykafka2.admin.arguments import texts
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.unavailable import not_yet
from pykafka2.admin.values import (
    QuotaEntity,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pykafka2.driver.pollable import AnyNode
from pykafka2.errors import IllegalArgument, KafkaError, ResourceNotFound, error_of

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.users import CredentialInfo, ScramCredentialUpsertion

Alteration = UserScramCredentialUpsertion | UserScramCredentialDeletion

SALT_BYTES = 24
MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""As requests number them."""
_NAMES = {number: name for name, number in MECHANISMS.items()}


class UsersAdmin:
    """The part of `KafkaAdminClient` that is about users and quotas.  Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def describe_user_scram_credentials(
        self,
        users: Iterable[str] | None = None,
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, tuple[ScramCredentialInfo, ...]]:
        """By which mechanisms each of these users (None: all there are) can log in; never a credential.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False), with `ResourceNotFound` for a user who
                has no credential.
            ClusterAuthorizationFailed: you lack DESCRIBE on the cluster.
            IllegalArgument: `users` are no names; nothing was sent.
        """
        from pykafka2.protocol.messages.users import DescribeUserScramCredentialsRequest, UserName

        asked = None if users is None else texts("users", users)
        if asked == []:
            return Outcomes({})
        names = None if asked is None else [UserName(name=one) for one in asked]
        response = self._cluster.request(DescribeUserScramCredentialsRequest(users=names), AnyNode(), timeout)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        found: dict[str, tuple[ScramCredentialInfo, ...]] = {}
        errors: dict[str, KafkaError] = {}
        for one in sorted(response.results, key=lambda one: one.user):
            if one.error_code:
                errors[one.user] = error_of(one.error_code, one.error_message)
            else:
                # Kafka has them in the order of a hash.
                told = sorted(one.credential_infos, key=lambda info: info.mechanism)
                found[one.user] = tuple(map(_info, told))
        outcomes = Outcomes(found, errors) if asked is None else Outcomes.of_all(sorted(asked), found, errors)
        return outcomes.checked("describe_user_scram_credentials", raise_errors)

    def alter_user_scram_credentials(
        self,
        alterations: Iterable[Alteration],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, None]:
        """Set and take away credentials, one outcome for each user; a user may be named once in a call.

        Passwords are hashed here, in the calling thread; what is sent in their place lets anybody log in who
        reads it, so use TLS.

        Raises:
            ItemsFailed: some were refused (unless `raise_errors` is False): `ResourceNotFound` for a
                credential that there is not, `UnacceptableCredential` for other iterations than brokers take
                (4096 to 16384), `ClusterAuthorizationFailed` where you lack ALTER on the cluster.
            IllegalArgument: a user named twice, without a name or a password, or by another mechanism than
                SCRAM-SHA-256 and SCRAM-SHA-512; nothing was sent.
        """
        from pykafka2.protocol.messages.users import AlterUserScramCredentialsRequest, ScramCredentialDeletion

        wanted = list(alterations)
        _check(wanted)
        if not wanted:
            return Outcomes({})
        request = AlterUserScramCredentialsRequest(
            deletions=[
                ScramCredentialDeletion(name=one.user, mechanism=MECHANISMS[one.mechanism])
                for one in wanted
                if isinstance(one, UserScramCredentialDeletion)
            ],
            upsertions=[self._hashed(one) for one in wanted if isinstance(one, UserScramCredentialUpsertion)],
        )
        response = self._cluster.request(request, AnyNode(), timeout)
        done: dict[str, None] = {}
        errors: dict[str, KafkaError] = {}
        for result in response.results:
            if result.error_code:
                errors[result.user] = error_of(result.error_code, result.error_message)
            else:
                done[result.user] = None
        asked = [one.user for one in wanted]
        return Outcomes.of_all(asked, done, errors).checked("alter_user_scram_credentials", raise_errors)

    def describe_scram_users(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, dict[str, int]]:
        """Each user's mechanisms with their iterations; never a credential.

        The short form of `describe_user_scram_credentials`: a user who has no credential has an empty dict.
        """
        outcomes = self.describe_user_scram_credentials(users, timeout=timeout, raise_errors=False)
        if any(not isinstance(error, ResourceNotFound) for error in outcomes.errors.values()):
            outcomes.checked("describe_scram_users", raise_errors=True)
        return {
            user: {} if user in outcomes.errors else {one.mechanism: one.iterations for one in outcomes[user]}
            for user in outcomes
        }

    def upsert_scram_user(
        self,
        user: str,
        password: str,
        *,
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = 8192,
        timeout: float | None = None,
    ) -> None:
        """Create a user or give it a new password; the password itself never leaves this process.

        Raises the error of `alter_user_scram_credentials` itself.
        """
        self._alter_one(UserScramCredentialUpsertion(user, password, mechanism, iterations), timeout)

    def delete_scram_user(
        self, user: str, *, mechanism: str = "SCRAM-SHA-512", timeout: float | None = None
    ) -> None:
        """Take away a user's credential for one mechanism; those for others stay.

        Raises:
            ResourceNotFound: the user has none for this mechanism.
        """
        self._alter_one(UserScramCredentialDeletion(user, mechanism), timeout)

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

    def _alter_one(self, alteration: Alteration, timeout: float | None) -> None:
        for error in self.alter_user_scram_credentials(
            [alteration], timeout=timeout, raise_errors=False
        ).errors.values():
            raise error

    def _hashed(self, one: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
        from pykafka2.network.sasl.scram_messages import salted_password
        from pykafka2.protocol.messages.users import ScramCredentialUpsertion

        salt = self._cluster.runtime.entropy.token_bytes(SALT_BYTES) if one.salt is None else one.salt
        return ScramCredentialUpsertion(
            name=one.user,
            mechanism=MECHANISMS[one.mechanism],
            iterations=one.iterations,
            salt=salt,
            salted_password=salted_password(one.mechanism, one.password, salt, one.iterations),
        )


def _check(wanted: list[Alteration]) -> None:
    """Raises `IllegalArgument` for what no broker would take, or hashing could not be done for."""
    from pykafka2.network.sasl.scram_messages import MAX_ITERATIONS, MIN_ITERATIONS

    seen = set()
    for one in wanted:
        if not isinstance(one, UserScramCredentialUpsertion | UserScramCredentialDeletion):
            raise IllegalArgument(
                f"alterations have a {type(one).__name__}: takes UserScramCredentialUpsertion and "
                "UserScramCredentialDeletion"
            )
        if not isinstance(one.user, str) or not one.user:
            raise IllegalArgument(f"user={one.user!r}: takes a name")
        if one.user in seen:
            raise IllegalArgument(f"user={one.user!r} is named twice; brokers take a user once in a request")
        seen.add(one.user)
        if one.mechanism not in MECHANISMS:
            raise IllegalArgument(f"mechanism={one.mechanism!r}: say one of {', '.join(MECHANISMS)}")
        if isinstance(one, UserScramCredentialDeletion):
            continue
        if not isinstance(one.password, str) or not one.password:
            raise IllegalArgument(f"the password of user {one.user!r} must be text, and not empty")
        if not _is_unicode(one.password):
            raise IllegalArgument(f"the password of user {one.user!r} must be Unicode text")
        if one.salt is not None and (not isinstance(one.salt, bytes | bytearray) or not one.salt):
            raise IllegalArgument(f"the salt of user {one.user!r} must be bytes, or None for random ones")
        if type(one.iterations) is not int or not MIN_ITERATIONS <= one.iterations <= MAX_ITERATIONS:
            raise IllegalArgument(
                f"iterations={one.iterations!r}: takes a number from {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _info(told: CredentialInfo) -> ScramCredentialInfo:
    name = _NAMES.get(told.mechanism, f"UNKNOWN({told.mechanism})")
    return ScramCredentialInfo(name, told.iterations)
