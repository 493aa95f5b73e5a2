"""SCRAM users and client quotas (KIP-554, KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pykafka2.admin.arguments import texts
from pykafka2.admin.outcomes import Outcomes, error_to_retry
from pykafka2.admin.quotas import alter_request, describe_request, entity_of
from pykafka2.admin.values import (
    QuotaEntity,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pykafka2.driver.pollable import AnyNode, ToController
from pykafka2.errors import IllegalArgument, KafkaError, ResourceNotFound, error_of

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.users import CredentialInfo, ScramCredentialUpsertion

Alteration = UserScramCredentialUpsertion | UserScramCredentialDeletion
"""A change of one credential of a user."""

SALT_BYTES = 24
MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The mechanisms' numbers in requests."""
_NAMES = {number: name for name, number in MECHANISMS.items()}


class UsersAdmin:
    """The user and quota calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def describe_user_scram_credentials(
        self,
        users: Iterable[str] | None = None,
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, tuple[ScramCredentialInfo, ...]]:
        """Return the SCRAM mechanisms of each user (None: all users); never a credential.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False), with `ResourceNotFound` for a user
                without a credential.
            ClusterAuthorizationFailed: the principal lacks DESCRIBE on the cluster.
            IllegalArgument: `users` is not a list of names; no request was sent.
        """
        from pykafka2.protocol.messages.users import DescribeUserScramCredentialsRequest, UserName

        names = None if users is None else texts("users", users)
        if names == []:
            return Outcomes({})
        filters = None if names is None else [UserName(name=name) for name in names]
        response = self._cluster.request(
            DescribeUserScramCredentialsRequest(users=filters), AnyNode(), timeout
        )
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        found: dict[str, tuple[ScramCredentialInfo, ...]] = {}
        errors: dict[str, KafkaError] = {}
        for result in sorted(response.results, key=lambda result: result.user):
            if result.error_code:
                errors[result.user] = error_of(result.error_code, result.error_message)
            else:
                # Kafka returns them in hash order.
                infos = sorted(result.credential_infos, key=lambda info: info.mechanism)
                found[result.user] = tuple(map(_info, infos))
        outcomes = Outcomes(found, errors) if names is None else Outcomes.of_all(sorted(names), found, errors)
        return outcomes.checked("describe_user_scram_credentials", raise_errors)

    def alter_user_scram_credentials(
        self,
        alterations: Iterable[Alteration],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, None]:
        """Set and delete credentials; return an outcome for each user. Each user can occur once per call.

        Passwords are hashed on the calling thread. The hash that is sent is enough to log in, so use TLS.

        Raises:
            ItemsFailed: some were rejected (unless `raise_errors` is False): `ResourceNotFound` for a missing
                credential, `UnacceptableCredential` for iterations outside 4096 to 16384,
                `ClusterAuthorizationFailed` if the principal lacks ALTER on the cluster.
            IllegalArgument: a duplicate user, an empty name or password, or a mechanism other than
                SCRAM-SHA-256 and SCRAM-SHA-512; no request was sent.
        """
        from pykafka2.protocol.messages.users import AlterUserScramCredentialsRequest, ScramCredentialDeletion

        changes = list(alterations)
        _check(changes)
        if not changes:
            return Outcomes({})
        request = AlterUserScramCredentialsRequest(
            deletions=[
                ScramCredentialDeletion(name=change.user, mechanism=MECHANISMS[change.mechanism])
                for change in changes
                if isinstance(change, UserScramCredentialDeletion)
            ],
            upsertions=[
                self._hashed(change) for change in changes if isinstance(change, UserScramCredentialUpsertion)
            ],
        )
        response = self._cluster.request(
            request, ToController(), timeout, lambda response: error_to_retry(response.results)
        )
        done: dict[str, None] = {}
        errors: dict[str, KafkaError] = {}
        for result in response.results:
            if result.error_code:
                errors[result.user] = error_of(result.error_code, result.error_message)
            else:
                done[result.user] = None
        users = [change.user for change in changes]
        return Outcomes.of_all(users, done, errors).checked("alter_user_scram_credentials", raise_errors)

    def describe_scram_users(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, dict[str, int]]:
        """Return each user's mechanisms with their iterations; never a credential.

        The short form of `describe_user_scram_credentials`: a user without a credential has an empty dict.
        """
        outcomes = self.describe_user_scram_credentials(users, timeout=timeout, raise_errors=False)
        if any(not isinstance(error, ResourceNotFound) for error in outcomes.errors.values()):
            outcomes.checked("describe_scram_users", raise_errors=True)
        return {
            user: {}
            if user in outcomes.errors
            else {info.mechanism: info.iterations for info in outcomes[user]}
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
        """Create a user or set its password; the password is hashed and never sent.

        Raise the user's error of `alter_user_scram_credentials` itself.
        """
        self._alter_one(UserScramCredentialUpsertion(user, password, mechanism, iterations), timeout)

    def delete_scram_user(
        self, user: str, *, mechanism: str = "SCRAM-SHA-512", timeout: float | None = None
    ) -> None:
        """Delete a user's credential for one mechanism; those for others stay.

        Raises:
            ResourceNotFound: the user has no credential for this mechanism.
        """
        self._alter_one(UserScramCredentialDeletion(user, mechanism), timeout)

    def describe_client_quotas(
        self, matching: QuotaEntity | None = None, *, strict: bool = False, timeout: float | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return the quotas of all entities, or of those that match: `producer_byte_rate` and others.

        `QuotaEntity(user="ann")` matches the entities of this user, with any client id or none, and with
        `strict` only the one without a client id. A name can be `QuotaEntity.DEFAULT` or `QuotaEntity.ANY`.

        Raises:
            ClusterAuthorizationFailed: the principal lacks DESCRIBE_CONFIGS on the cluster.
            IllegalArgument: `matching` is empty, or combines an IP address with a user or client id; no
                request was sent.
        """
        response = self._cluster.request(describe_request(matching, strict=strict), AnyNode(), timeout)
        if response.error_code:
            raise error_of(response.error_code, response.error_message)
        return {
            entity_of({part.entity_type: part.entity_name for part in entry.entity}): {
                value.key: value.value for value in sorted(entry.values, key=lambda value: value.key)
            }
            for entry in response.entries or ()
        }

    def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        timeout: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> Outcomes[QuotaEntity, None]:
        """Set quotas; None as a value removes one. Quotas that are not named stay.

        Users and client ids can have `producer_byte_rate`, `consumer_byte_rate` (bytes per second),
        `request_percentage` (of one request handler thread) and `controller_mutation_rate` (partitions per
        second), IP addresses `connection_creation_rate` (connections per second).

        Raises:
            ItemsFailed: some were rejected (unless `raise_errors` is False): `InvalidRequest` for a value
                that the broker rejects, `ClusterAuthorizationFailed` if the principal lacks ALTER_CONFIGS on
                the cluster.
            IllegalArgument: an entity is empty, a quota is unknown, or a value is not a number above 0; no
                request was sent.
        """
        request = alter_request(changes, validate_only=validate_only)
        if not request.entries:
            return Outcomes({})
        response = self._cluster.request(request, AnyNode(), timeout)
        done: dict[QuotaEntity, None] = {}
        errors: dict[QuotaEntity, KafkaError] = {}
        for entry in response.entries:
            entity = entity_of({part.entity_type: part.entity_name for part in entry.entity})
            if entry.error_code:
                errors[entity] = error_of(entry.error_code, entry.error_message)
            else:
                done[entity] = None
        return Outcomes.of_all(changes, done, errors).checked("alter_client_quotas", raise_errors)

    def _alter_one(self, alteration: Alteration, timeout: float | None) -> None:
        for error in self.alter_user_scram_credentials(
            [alteration], timeout=timeout, raise_errors=False
        ).errors.values():
            raise error

    def _hashed(self, upsertion: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
        from pykafka2.network.sasl.scram_messages import salted_password
        from pykafka2.protocol.messages.users import ScramCredentialUpsertion

        salt = upsertion.salt
        if salt is None:
            salt = self._cluster.runtime.entropy.token_bytes(SALT_BYTES)
        return ScramCredentialUpsertion(
            name=upsertion.user,
            mechanism=MECHANISMS[upsertion.mechanism],
            iterations=upsertion.iterations,
            salt=salt,
            salted_password=salted_password(
                upsertion.mechanism, upsertion.password, salt, upsertion.iterations
            ),
        )


def _check(changes: list[Alteration]) -> None:
    """Raise IllegalArgument for a change that cannot be hashed or that every broker rejects."""
    from pykafka2.network.sasl.scram_messages import MAX_ITERATIONS, MIN_ITERATIONS

    seen = set()
    for change in changes:
        if not isinstance(change, UserScramCredentialUpsertion | UserScramCredentialDeletion):
            raise IllegalArgument(
                f"alterations must contain UserScramCredentialUpsertion or UserScramCredentialDeletion, "
                f"not {type(change).__name__}"
            )
        if not isinstance(change.user, str) or not change.user:
            raise IllegalArgument(f"user={change.user!r} must be a str that is not empty")
        if change.user in seen:
            raise IllegalArgument(
                f"user={change.user!r} occurs twice; brokers accept a user once per request"
            )
        seen.add(change.user)
        if isinstance(change, UserScramCredentialUpsertion) and change.password in MECHANISMS:
            # kafka-python's order; the error below would show the password.
            raise IllegalArgument(
                f"user {change.user!r}: the mechanism comes after the password; write "
                "UserScramCredentialUpsertion(user, password, mechanism)"
            )
        if change.mechanism not in MECHANISMS:
            raise IllegalArgument(
                f"mechanism={change.mechanism!r} is not valid; use one of {', '.join(MECHANISMS)}"
            )
        if isinstance(change, UserScramCredentialDeletion):
            continue
        if not isinstance(change.password, str) or not change.password:
            raise IllegalArgument(f"the password of user {change.user!r} must be a str that is not empty")
        if not _is_unicode(change.password):
            raise IllegalArgument(f"the password of user {change.user!r} must be valid Unicode text")
        if change.salt is not None and (not isinstance(change.salt, bytes | bytearray) or not change.salt):
            raise IllegalArgument(
                f"the salt of user {change.user!r} must be bytes, or None for a random salt"
            )
        if type(change.iterations) is not int or not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
            raise IllegalArgument(
                f"iterations={change.iterations!r} must be an int from {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _info(info: CredentialInfo) -> ScramCredentialInfo:
    name = _NAMES.get(info.mechanism, f"UNKNOWN({info.mechanism})")
    return ScramCredentialInfo(name, info.iterations)
