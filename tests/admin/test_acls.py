"""Access rules by the admin client: made, described, taken away, refused, against the bundled cluster."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from pykafka2 import KafkaAdminClient, errors
from pykafka2.admin.outcomes import ItemsFailed, Outcomes
from pykafka2.admin.values import AclBinding
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster, Simulation

READ = AclBinding("TOPIC", "orders", "LITERAL", "User:ann", "*", "READ", "ALLOW")
ALL_READ = attrs.evolve(READ, resource_name="*")
PREFIXED = attrs.evolve(READ, resource_name="or", pattern_type="PREFIXED", operation="WRITE")
DENIED = attrs.evolve(READ, principal="User:bob", host="10.0.0.1", permission="DENY")
GROUP = attrs.evolve(READ, resource_type="GROUP", resource_name="readers")
RULES = [READ, ALL_READ, PREFIXED, DENIED, GROUP]


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    return simulation.cluster(brokers=3, topics=["orders"], config=config)


@pytest.fixture
def admin(simulation: Simulation, cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        yield admin


def test_rules_are_made_once_and_taken_away_one_by_one(
    admin: KafkaAdminClient, cluster: KafkaCluster
) -> None:
    assert list(admin.create_acls([*RULES, READ])) == RULES
    admin.create_acls(RULES)
    assert len(cluster.acls.rules()) == len(RULES)
    assert set(admin.describe_acls()) == set(RULES)
    assert list(admin.delete_acls([READ, READ, attrs.evolve(READ, principal="User:nobody")])) == [
        READ,
        attrs.evolve(READ, principal="User:nobody"),
    ]
    assert set(admin.describe_acls()) == {ALL_READ, PREFIXED, DENIED, GROUP}
    assert dict(admin.create_acls([])) == dict(admin.delete_acls([])) == {}


def test_describe_acls_filters_by_each_field(admin: KafkaAdminClient) -> None:
    admin.create_acls(RULES)
    assert admin.describe_acls(resource_type="GROUP") == [GROUP]
    assert admin.describe_acls(resource_name="orders", principal="User:ann") == [READ]
    matching = admin.describe_acls(resource_type="TOPIC", resource_name="orders", pattern_type="MATCH")
    assert set(matching) == {READ, ALL_READ, PREFIXED, DENIED}
    assert admin.describe_acls(pattern_type="PREFIXED") == [PREFIXED]
    assert admin.describe_acls(operation="WRITE") == [PREFIXED]
    assert admin.describe_acls(permission="DENY", host="10.0.0.1") == [DENIED]
    assert admin.describe_acls(principal="User:nobody") == []


def test_a_rule_that_the_broker_refuses_is_named_and_the_others_are_made(admin: KafkaAdminClient) -> None:
    nameless = attrs.evolve(READ, principal="ann")
    with pytest.raises(ItemsFailed, match="no colon") as failed:
        admin.create_acls([nameless, READ])
    assert isinstance(failed.value.outcomes.errors[nameless], errors.InvalidRequest)
    assert admin.describe_acls() == [READ]
    outcomes = admin.create_acls([nameless, READ], raise_errors=False)
    assert list(outcomes.errors) == [nameless]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"operation": "RAED"}, "operation='RAED' is not valid; use one of ALL, READ"),
        ({"operation": "ANY"}, "operation='ANY' is not valid; use one of ALL"),
        ({"resource_type": "topic"}, "resource_type='topic' is not valid; use one of TOPIC"),
        ({"pattern_type": "MATCH"}, "pattern_type='MATCH' is not valid; use one of LITERAL, PREFIXED"),
        ({"permission": "PERMIT"}, "permission='PERMIT' is not valid; use one of DENY, ALLOW"),
    ],
)
def test_a_word_that_is_none_of_kafkas_is_refused_before_anything_is_sent(
    admin: KafkaAdminClient, cluster: KafkaCluster, changed: dict[str, str], words: str
) -> None:
    for call in (admin.create_acls, admin.delete_acls):
        with pytest.raises(errors.IllegalArgument, match=words):
            call([READ, attrs.evolve(READ, **changed)])
    cluster.history.never("CreateAcls")
    cluster.history.never("DeleteAcls")
    with pytest.raises(
        errors.IllegalArgument, match="resource_type='QUEUE' is not valid; use one of ANY, TOPIC"
    ):
        admin.describe_acls(resource_type="QUEUE")


@pytest.mark.parametrize("part", ["resource_name", "principal", "host"])
def test_a_rule_with_a_part_missing_takes_no_others_away(
    admin: KafkaAdminClient, cluster: KafkaCluster, part: str
) -> None:
    """In a filter a part that is null stands for all."""
    admin.create_acls(RULES)
    missing = attrs.evolve(READ, **{part: None})
    for call in (admin.create_acls, admin.delete_acls):
        with pytest.raises(errors.IllegalArgument, match=f"{part}=None of an ACL must be a str"):
            call([missing])
    assert len(cluster.acls.rules()) == len(RULES)


def test_invalid_list_of_acls_is_rejected(admin: KafkaAdminClient) -> None:
    for call in (admin.create_acls, admin.delete_acls):
        for invalid, words in (
            (READ, "bindings must be a list"),
            ([("TOPIC", "orders")], "bindings must contain AclBinding values, not tuple"),
        ):
            with pytest.raises(errors.IllegalArgument, match=words):
                call(invalid)  # type: ignore[arg-type]


def test_an_item_has_one_outcome_and_a_failure_counts() -> None:
    outcomes = Outcomes({"a": 1, "b": 2}, {"b": errors.InvalidRequest("no")})
    assert (list(outcomes), len(outcomes)) == (["a", "b"], 2)


def test_control_characters_in_item_names_are_escaped_in_errors() -> None:
    """Users that are described without having been named, say."""
    named = Outcomes({}, {"ann\nERROR \x1b[31m" + "x" * 30_000: errors.ResourceNotFound("no")})
    with pytest.raises(ItemsFailed) as failed:
        named.checked("describe", raise_errors=True)
    assert str(failed.value).isprintable()
    assert len(str(failed.value)) < 2_000


def test_acl_calls_without_an_authorizer_raise_security_disabled(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1)
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        with pytest.raises(errors.SecurityDisabled, match="No Authorizer"):
            admin.describe_acls()
        outcomes = admin.create_acls([READ], raise_errors=False)
        assert isinstance(outcomes.errors[READ], errors.SecurityDisabled)
        assert isinstance(admin.delete_acls([READ], raise_errors=False).errors[READ], errors.SecurityDisabled)


def test_every_refused_rule_is_named_and_every_other_is_made(admin: KafkaAdminClient) -> None:
    nameless = [attrs.evolve(READ, principal=name) for name in ("ann", "bob")]
    outcomes = admin.create_acls([nameless[0], READ, nameless[1], GROUP], raise_errors=False)
    assert list(outcomes.errors) == nameless
    assert set(admin.describe_acls()) == {READ, GROUP}
    with pytest.raises(errors.IllegalArgument, match="host=None"):
        admin.delete_acls([READ, attrs.evolve(GROUP, host=None)])  # type: ignore[arg-type]
    assert set(admin.describe_acls()) == {READ, GROUP}
