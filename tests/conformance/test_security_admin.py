"""The admin client's calls about users, delegation tokens and rules: the same on both, field by field.

Each scenario notes what every call came to, a value or an error with the broker's words; times are noted by
their distances, ids and HMACs by their lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import attrs
import pytest

from pykafka2 import (
    AclBinding,
    DelegationToken,
    KafkaAdminClient,
    KafkaProducer,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pykafka2.admin.outcomes import Outcomes
from pykafka2.errors import ClusterAuthorizationFailed, KafkaError

from .brokers import eventually
from .real_kafka import RESTRICTED_USER, SASL_USER
from .secured_clusters import Secured

HOUR = 3600.0
TOPIC = "behind-rules"


class Talk:
    """The admin clients of one cluster's users; `notes` is what they were answered."""

    def __init__(self, secured: Secured, stack: ExitStack) -> None:
        self.secured = secured
        self.notes: list[tuple[str, Any]] = []
        self._stack = stack
        self._admins: dict[str | None, KafkaAdminClient] = {}

    def admin(self, user: str | None = SASL_USER) -> KafkaAdminClient:
        """The error for a user who has logged in; for anonymous over plaintext."""
        if user not in self._admins:
            options = self.secured.options("SASL_PLAINTEXT" if user else "PLAINTEXT", user)
            self._admins[user] = self._stack.enter_context(KafkaAdminClient(**options))
        return self._admins[user]

    def note(self, label: str, call: Callable[[], Any]) -> Any:
        """The outcome of a call; its value, or None if it raised."""
        try:
            answer = call()
        except KafkaError as error:
            self.notes.append((label, words_of(error)))
            return None
        self.notes.append((label, shown(answer)))
        return answer


def words_of(error: KafkaError) -> str:
    """If the user is not authorized, Kafka shows its Java objects."""
    kind = type(error).__name__
    return kind if isinstance(error, ClusterAuthorizationFailed) else f"{kind}: {error}"


def shown(answer: Any) -> Any:
    if isinstance(answer, Outcomes):
        return {
            str(key): words_of(answer.errors[key]) if key in answer.errors else shown(answer[key])
            for key in answer
        }
    if isinstance(answer, DelegationToken):
        begin = answer.issue_time_ms
        return attrs.asdict(answer) | {
            "token_id": len(answer.token_id),
            "hmac": len(answer.hmac),
            "issue_time_ms": "now",
            "expiry_time_ms": round(answer.expiry_time_ms - begin, -4),
            "max_time_ms": answer.max_time_ms - begin,
        }
    if isinstance(answer, list | tuple):
        return [shown(one) for one in answer]
    return answer if answer is None or isinstance(answer, bool | int | str | dict) else str(answer)


# ---------------------------------------------------------------------- scenarios


def scram_users(talk: Talk) -> None:
    admin, eve = talk.admin(), talk.admin(RESTRICTED_USER)
    set_to, gone = UserScramCredentialUpsertion, UserScramCredentialDeletion

    def alter(label: str, *alterations: Any, by: KafkaAdminClient = admin) -> None:
        talk.note(label, lambda: by.alter_user_scram_credentials(alterations, raise_errors=False))

    def describe(label: str, *users: str, by: KafkaAdminClient = admin) -> None:
        requested = list(users) or None
        talk.note(label, lambda: by.describe_user_scram_credentials(requested, raise_errors=False))

    alter("two users", set_to("carl", "c", "SCRAM-SHA-256", 4096), set_to("dora", "d"))
    eventually(lambda: len(admin.describe_scram_users(["carl", "dora"])["dora"]) == 1)
    describe("described", "carl", "dora", "nobody")
    talk.note("in short", lambda: admin.describe_scram_users(["dora"]))
    alter("a second mechanism", set_to("carl", "c", "SCRAM-SHA-512", 4096))
    eventually(lambda: len(admin.describe_scram_users(["carl"])["carl"]) == 2)
    describe("both mechanisms", "carl")
    alter("too many iterations", set_to("carl", "c", iterations=16385), set_to("erik", "e", "SCRAM-SHA-256"))
    alter("by one who may not", set_to("fred", "f"), by=eve)
    describe("by one who may not look", "carl", by=eve)
    alter("some are not there", gone("dora", "SCRAM-SHA-256"), gone("erik", "SCRAM-SHA-256"), gone("nobody"))
    alter("the rest", gone("carl"), gone("dora"))
    alter("the last", gone("carl", "SCRAM-SHA-256"))
    eventually(lambda: not admin.describe_scram_users(["carl"])["carl"])
    describe("gone", "carl", "dora", "erik")
    talk.note("the short forms", lambda: admin.delete_scram_user("carl"))


def in_order(tokens: Iterable[DelegationToken]) -> list[DelegationToken]:
    """Apache Kafka's answers have the order of the tokens' ids, which are drawn."""
    return sorted(tokens, key=lambda one: (one.owner, one.max_time_ms - one.issue_time_ms))


def delegation_tokens(talk: Talk) -> None:
    ann, eve = talk.admin(), talk.admin(RESTRICTED_USER)
    create = {
        "own": lambda: ann.create_delegation_token(renewers=[f"User:{RESTRICTED_USER}"], max_lifetime=HOUR),
        "for another": lambda: ann.create_delegation_token(owner=f"User:{RESTRICTED_USER}"),
        "for another, without a right": lambda: eve.create_delegation_token(owner=f"User:{SASL_USER}"),
        "over plaintext": lambda: talk.admin(None).create_delegation_token(),
        "a renewer who is no user": lambda: ann.create_delegation_token(renewers=["Group:x"]),
        "longer than may be": lambda: ann.create_delegation_token(max_lifetime=1000 * 24 * HOUR),
    }
    made = {label: talk.note(label, call) for label, call in create.items()}
    own, others = made["own"], made["for another"]
    eventually(lambda: len(ann.describe_delegation_tokens()) == 3)
    talk.note("all that one may see", lambda: in_order(ann.describe_delegation_tokens()))
    talk.note("another's view", lambda: in_order(eve.describe_delegation_tokens()))
    talk.note("of one owner", lambda: in_order(ann.describe_delegation_tokens([f"User:{RESTRICTED_USER}"])))
    talk.note("of an unknown user", lambda: ann.describe_delegation_tokens(["User:nobody"]))

    def left(label: str, token: DelegationToken, call: Callable[[], int | None]) -> None:
        """A new end, by how far it is from the token's beginning."""

        def distance() -> int | None:
            end = call()
            return None if end is None else round(end - token.issue_time_ms, -4)

        talk.note(label, distance)

    left("renewed", own, lambda: ann.renew_delegation_token(own.hmac, period=HOUR / 2))
    left("renewed by a renewer", own, lambda: eve.renew_delegation_token(own.hmac))
    left("renewed by a stranger", own, lambda: talk.admin(None).renew_delegation_token(own.hmac))
    left("what there is not", own, lambda: ann.renew_delegation_token(b"nothing"))
    left("expires soon", own, lambda: eve.expire_delegation_token(own.hmac, after=HOUR / 6))
    send_by_token(talk, "logged in by a token", own)
    ask_by_token(talk, own)
    left("ended", own, lambda: ann.expire_delegation_token(own.hmac))
    left("another's, by its owner", others, lambda: eve.expire_delegation_token(others.hmac))
    eventually(lambda: len(ann.describe_delegation_tokens()) == 1)
    left("ended twice", own, lambda: ann.expire_delegation_token(own.hmac))
    send_by_token(talk, "logged in by one that was ended", own)


def token_options(talk: Talk, token: DelegationToken) -> dict[str, Any]:
    options = talk.secured.options("SASL_PLAINTEXT", SASL_USER, sasl_delegation_token=True)
    return options | {"sasl_username": token.token_id, "sasl_password": token.password}


def send_by_token(talk: Talk, label: str, token: DelegationToken) -> None:
    with KafkaProducer(**token_options(talk, token)) as producer:

        def send() -> str:
            try:
                return str(producer.send(TOPIC, b"x").result(20).topic)
            except KafkaError as error:
                return str(error).replace(talk.secured.addresses["SASL_PLAINTEXT"], "BROKER")

        talk.note(label, send)


def ask_by_token(talk: Talk, token: DelegationToken) -> None:
    """A user who authenticated with a token cannot create another one."""
    with KafkaAdminClient(**token_options(talk, token)) as admin:
        talk.note("a token by a token", admin.create_delegation_token)
        talk.note("described by a token", lambda: len(admin.describe_delegation_tokens()))


def rules(talk: Talk) -> None:
    ann, eve = talk.admin(), talk.admin(RESTRICTED_USER)
    read = AclBinding("TOPIC", "orders", "LITERAL", "User:carl", "*", "READ", "ALLOW")
    by_label = {
        "one": [read],
        "the same again, and others": [
            read,
            attrs.evolve(read, resource_name="ord", pattern_type="PREFIXED", permission="DENY"),
            attrs.evolve(read, resource_name="*", operation="ALL", host="127.0.0.1"),
            attrs.evolve(read, resource_type="GROUP", principal="User:*"),
            AclBinding("CLUSTER", "kafka-cluster", "LITERAL", "User:carl", "*", "CREATE", "ALLOW"),
            AclBinding("TRANSACTIONAL_ID", "t", "LITERAL", "User:carl", "*", "WRITE", "ALLOW"),
            AclBinding("DELEGATION_TOKEN", "id", "LITERAL", "User:carl", "*", "DESCRIBE", "ALLOW"),
            AclBinding("USER", "User:dora", "LITERAL", "User:carl", "*", "CREATE_TOKENS", "ALLOW"),
        ],
        "what cannot be": [
            attrs.evolve(read, resource_name=""),
            attrs.evolve(read, principal="carl"),
            attrs.evolve(read, resource_type="CLUSTER"),
            attrs.evolve(read, resource_type="GROUP", operation="WRITE"),
            attrs.evolve(read, host=""),
        ],
    }
    for label, bindings in by_label.items():
        talk.note(label, lambda bindings=bindings: ann.create_acls(bindings, raise_errors=False))
    talk.note("by one who may not", lambda: eve.create_acls([read], raise_errors=False))
    eventually(lambda: len(ann.describe_acls(principal="User:carl")) == 8)
    filters: dict[str, dict[str, Any]] = {
        "carl's": {"principal": "User:carl"},
        "a name": {"resource_type": "TOPIC", "resource_name": "orders"},
        "what matches a name": {
            "resource_type": "TOPIC",
            "resource_name": "orders",
            "pattern_type": "MATCH",
        },
        "prefixed": {"pattern_type": "PREFIXED"},
        "denials": {"permission": "DENY"},
        "a host": {"host": "127.0.0.1"},
        "an operation": {"operation": "CREATE_TOKENS"},
        "nothing": {"principal": "User:nobody"},
    }
    for label, requested in filters.items():
        talk.note(label, lambda requested=requested: ann.describe_acls(**requested))
    talk.note("described by one who may not", lambda: eve.describe_acls())
    talk.note("deleted by one who may not", lambda: eve.delete_acls([read], raise_errors=False))
    there_not = attrs.evolve(read, resource_name="nothing")
    talk.note("deleted", lambda: ann.delete_acls([read, there_not], raise_errors=False))
    eventually(lambda: len(ann.describe_acls(principal="User:carl")) == 7)
    talk.note("the others", lambda: ann.delete_acls(ann.describe_acls()))
    eventually(lambda: not ann.describe_acls())


SCENARIOS = {one.__name__: one for one in (scram_users, delegation_tokens, rules)}


@pytest.mark.parametrize("name", SCENARIOS)
def test_admin_calls_come_to_the_same(bundled_secured: Secured, apache_secured: Secured, name: str) -> None:
    notes = []
    for secured in (apache_secured, bundled_secured):
        with ExitStack() as stack:
            talk = Talk(secured, stack)
            with_topic(talk)
            SCENARIOS[name](talk)
        notes.append(talk.notes)
    theirs, ours = notes
    assert [label for label, _ in ours] == [label for label, _ in theirs]
    differing = [(one, other) for one, other in zip(theirs, ours, strict=True) if one != other]
    assert not differing, "\n".join(f"Apache: {one}\nours:   {other}" for one, other in differing)


def with_topic(talk: Talk) -> None:
    admin = talk.admin()
    if TOPIC not in admin.list_topics():
        admin.create_topics([TOPIC])
