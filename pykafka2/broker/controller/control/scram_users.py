"""SCRAM credentials of users: the controller's part of AlterUserScramCredentials.

A function over the active controller, one event of its queue (Kafka's ScramControlManager): all valid changes
of a request are written at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.metadata.records import scram_records
from pykafka2.broker.security.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
)
from pykafka2.errors import (
    BrokerError,
    DuplicateResource,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from pykafka2.protocol.messages.metadata_records import RemoveUserScramCredentialRecord
from pykafka2.protocol.struct import MetadataRecord


@attrs.define(frozen=True)
class Upsertion:
    """A credential to be stored; the client has salted and hashed the password."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes = attrs.field(repr=False)
    salted_password: bytes = attrs.field(repr=False)


def alter_scram_users(
    controller: Controller, deletions: Iterable[tuple[str, int]], upsertions: Iterable[Upsertion]
) -> dict[str, BrokerError | None]:
    """Delete and set credentials. Return the error of each user, None if it succeeded.

    A user can be named once. `deletions` are names and mechanisms.
    """
    known = controller.state.scram_users
    outcome: dict[str, BrokerError | None] = {}
    changed: dict[str, MetadataRecord] = {}
    for user, number in deletions:
        error = _named_before(outcome, user) or _bad_name(user, number)
        if error is None and _mechanism(number) not in known.get(user, {}):
            error = ResourceNotFound("Attempt to delete a user credential that does not exist")
        if error is None:
            changed[user] = RemoveUserScramCredentialRecord(name=user, mechanism=number)
        _note(outcome, changed, user, error)
    for new in upsertions:
        error = _named_before(outcome, new.user) or _bad_name(new.user, new.mechanism) or _bad_iterations(new)
        if error is None:
            kind = ScramMechanism(new.mechanism)
            made = ScramCredential.of_salted_password(
                kind.sasl_name, new.salted_password, new.salt, new.iterations
            )
            [changed[new.user]] = scram_records(new.user, {kind: made})
        _note(outcome, changed, new.user, error)
    if changed:
        controller.write(list(changed.values()))
    return outcome


def _note(
    outcome: dict[str, BrokerError | None],
    changed: dict[str, MetadataRecord],
    user: str,
    error: BrokerError | None,
) -> None:
    """Keep a user's first error; a second entry for a user cancels the change of the first."""
    if error is not None:
        changed.pop(user, None)
    if outcome.get(user) is None:
        outcome[user] = error


def _named_before(outcome: dict[str, BrokerError | None], user: str) -> BrokerError | None:
    if user in outcome:
        return DuplicateResource("A user credential cannot be altered twice in the same request")
    return None


def _bad_name(user: str, number: int) -> BrokerError | None:
    if not user:
        return UnacceptableCredential("Username must not be empty")
    if _mechanism(number) is ScramMechanism.UNKNOWN:
        return UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    return None


def _bad_iterations(new: Upsertion) -> BrokerError | None:
    if new.iterations < MIN_ITERATIONS:
        return UnacceptableCredential("Too few iterations")
    if new.iterations > MAX_ITERATIONS:
        return UnacceptableCredential("Too many iterations")
    return None


def _mechanism(number: int) -> ScramMechanism:
    try:
        return ScramMechanism(number)
    except ValueError:
        return ScramMechanism.UNKNOWN
