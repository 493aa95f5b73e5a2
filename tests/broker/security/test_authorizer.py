"""Rights of principals by Kafka's rules: a table of cases, and an independent implementation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.faults.engine import DeadOrigin
from pykafka2.broker.handlers import authorization
from pykafka2.broker.security.acls import NO_ACLS, Acl, AclFilter, network_of
from pykafka2.broker.security.authorizer import OPERATIONS_ON, Authorizer, Rights, Settings
from pykafka2.broker.security.principal import Caller, Principal
from pykafka2.broker.server.request_context import ReceivedRequest, RequestContext
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.acl_terms import Operation, PatternType, Permission, ResourceType
from pykafka2.protocol.messages.metadata import MetadataRequest

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL


def rule(
    name: str = "orders",
    operation: int = Operation.READ,
    permission: int = Permission.ALLOW,
    *,
    pattern: int = PatternType.LITERAL,
    principal: str = "User:ann",
    host: str = "*",
    resource_type: int = TOPIC,
) -> Acl:
    return Acl(resource_type, name, pattern, principal, host, operation, permission)


def rights(
    *rules: Acl, user: str = "ann", host: str = "10.0.0.1", settings: Settings | None = None
) -> Rights:
    authorizer = Authorizer(dict.fromkeys(rules, b""), settings or Settings())
    return authorizer.rights_of(Caller(Principal("User", user), host))


DENY, PREFIXED = Permission.DENY, PatternType.PREFIXED

CASES = {
    "no rule": ((), READ, False),
    "allowed": ((rule(),), READ, True),
    "another operation": ((rule(),), WRITE, False),
    "another topic": ((rule("others"),), READ, False),
    "another kind of resource": ((rule(resource_type=GROUP),), READ, False),
    "another user": ((rule(principal="User:bob"),), READ, False),
    "another kind of principal": ((rule(principal="Group:ann"),), READ, False),
    "everybody": ((rule(principal="User:*"),), READ, True),
    "a host": ((rule(host="10.0.0.1"),), READ, True),
    "another host": ((rule(host="10.0.0.2"),), READ, False),
    "all operations": ((rule(operation=ALL),), WRITE, True),
    "every topic": ((rule("*"),), READ, True),
    "a prefix": ((rule("ord", pattern=PREFIXED),), READ, True),
    "the whole name as a prefix": ((rule("orders", pattern=PREFIXED),), READ, True),
    "another prefix": ((rule("orx", pattern=PREFIXED),), READ, False),
    "a longer prefix": ((rule("orders2", pattern=PREFIXED),), READ, False),
    "a star as a prefix is a letter": ((rule("*", pattern=PREFIXED),), READ, False),
    "a literal is no prefix": ((rule("ord"),), READ, False),
    "reading implies describing": ((rule(),), DESCRIBE, True),
    "creating does not": ((rule(operation=Operation.CREATE),), DESCRIBE, False),
    "altering configs implies describing them": (
        (rule(operation=Operation.ALTER_CONFIGS),),
        Operation.DESCRIBE_CONFIGS,
        True,
    ),
    "describing implies nothing": ((rule(operation=DESCRIBE),), READ, False),
    "denied": ((rule(), rule(permission=DENY)), READ, False),
    "denied after a prefix allowed": ((rule("o", pattern=PREFIXED), rule(permission=DENY)), READ, False),
    "denied by a prefix": ((rule(), rule("o", permission=DENY, pattern=PREFIXED)), READ, False),
    "denied everywhere": ((rule(), rule("*", ALL, DENY, principal="User:*")), READ, False),
    "denied to others": ((rule(), rule(permission=DENY, principal="User:bob")), READ, True),
    "denied from elsewhere": ((rule(), rule(permission=DENY, host="10.0.0.2")), READ, True),
    "denying to read denies not to describe": (
        (rule(operation=DESCRIBE), rule(permission=DENY)),
        DESCRIBE,
        True,
    ),
}


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::1", "::1"),
        ("fe80::ab:1%eth0", "fe80:0:0:0:0:0:ab:1%eth0"),
        ("10.0.0.1", "10.0.0.1"),
        ("a-host-of-the-simulation", "a-host-of-the-simulation"),
    ],
)
def test_rule_with_an_address_in_javas_notation_matches(host: str, named: str) -> None:
    """Rules created for Kafka have that notation; otherwise what they deny would be allowed."""
    assert rights(rule(host=named), host=host).may(READ, TOPIC, "orders")
    assert not rights(rule(), rule(permission=DENY, host=named), host=host).may(READ, TOPIC, "orders")
    assert rights(rule(), rule(permission=DENY, host="0:0:0:0:0:0:0:2"), host=host).may(READ, TOPIC, "orders")


JAVAS = {
    "10.0.0.0/8": {"10.0.0.0", "10.255.255.255"},
    "10.1.2.3/8": {"10.0.0.0", "10.255.255.255"},
    "010.0.0.0/08": {"10.0.0.0", "10.255.255.255"},
    "10.0.0.0/0": {"10.0.0.0", "10.255.255.255", "11.0.0.1"},
    "10.0.0.0/32": {"10.0.0.0"},
    "::/0": {"::1", "fe80::1", "fe80::1%eth0"},
    "fe80::/10": {"fe80::1", "fe80::1%eth0"},
    "fe80::1%eth0/64": {"fe80::1", "fe80::1%eth0"},
}
"""Hosts in networks, as Kafka 4.4.0's CidrUtils responds."""

NOT_NETWORKS = [
    "10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "a/8", "fe80::1/129", "10.0.0.0/255.0.0.0", "/8", " 10.0.0.0/8",
    "10.0.0.0/8 ", "*/8", "256.0.0.0/8", "::ffff:10.0.0.0/104", "10.0.0.0/8/8", "10.0.0.0/+8", "10.0.0.0/-1",
]  # fmt: skip


@pytest.mark.parametrize("network", [*JAVAS, *NOT_NETWORKS])
def test_acl_for_a_network_matches_its_hosts_as_in_kafka_4_4(network: str) -> None:
    hosts = ["10.0.0.0", "10.255.255.255", "11.0.0.1", "::1", "fe80::1", "fe80::1%eth0", "localhost"]
    allowed = {host for host in hosts if rights(rule(host=network), host=host).may(READ, TOPIC, "orders")}
    assert allowed == JAVAS.get(network, set())
    as_text = Settings(matches_networks=False)
    assert not any(
        rights(rule(host=network), host=host, settings=as_text).may(READ, TOPIC, "orders") for host in hosts
    )
    if network in JAVAS:
        network_of(network)
    else:
        with pytest.raises(ValueError, match="network"):
            network_of(network)


@pytest.mark.parametrize("case", CASES)
def test_acls_of_a_principal_decide_on_an_operation(case: str) -> None:
    rules, operation, expected = CASES[case]
    assert rights(*rules).may(operation, TOPIC, "orders") is expected
    assert rights(*reversed(rules)).may(operation, TOPIC, "orders") is expected


def test_super_users_pass_despite_deny_rules() -> None:
    settings = Settings.of("User:root; User:CN=ann,O=acme", allows_if_none_found=False)
    denied = rule("*", ALL, DENY, principal="User:*")
    assert rights(denied, user="root", settings=settings).may(WRITE, TOPIC, "orders")
    assert rights(denied, user="CN=ann,O=acme", settings=settings).may(WRITE, TOPIC, "orders")
    assert not rights(denied, settings=settings).may(WRITE, TOPIC, "orders")


def test_super_user_without_a_principal_type_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="'root' is not a principal"):
        Settings.of("User:ann;root", allows_if_none_found=False)


def test_resource_without_acls_is_open_if_the_broker_allows_it() -> None:
    settings = Settings(allows_if_none_found=True)
    bobs = rule(principal="User:bob", operation=WRITE)
    assert rights(settings=settings).may(READ, TOPIC, "orders")
    assert rights(bobs, settings=settings).may(READ, TOPIC, "others")
    # Any rule on the resource counts, also for another user and operation.
    assert not rights(bobs, settings=settings).may(READ, TOPIC, "orders")


def test_authorised_operations_are_bits() -> None:
    granted = rights(rule(), rule(operation=Operation.ALTER_CONFIGS))
    expected = (READ, DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    assert granted.operations(TOPIC, "orders") == sum(1 << one for one in expected)
    assert granted.operations(TOPIC, "others") == 0


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ((), False),
        ((rule(operation=WRITE),), True),
        ((rule("*", WRITE),), True),
        ((rule(operation=ALL),), True),
        ((rule(operation=READ),), False),
        ((rule(operation=WRITE, permission=DENY),), False),
        ((rule(operation=WRITE), rule(operation=WRITE, permission=DENY)), False),
        ((rule(operation=WRITE), rule("others", WRITE, DENY)), True),
        ((rule(operation=WRITE), rule("o", WRITE, DENY, pattern=PREFIXED)), False),
        ((rule("or", WRITE, pattern=PREFIXED), rule("o", WRITE, DENY, pattern=PREFIXED)), False),
        ((rule("o", WRITE, pattern=PREFIXED), rule("or", WRITE, DENY, pattern=PREFIXED)), True),
        ((rule("*", WRITE), rule("o", WRITE, DENY, pattern=PREFIXED)), True),
        ((rule(operation=WRITE), rule("*", WRITE, DENY)), False),
        ((rule(operation=WRITE), rule("*", WRITE, DENY, principal="User:bob")), True),
        ((rule(operation=WRITE, resource_type=GROUP),), False),
    ],
)
def test_write_on_any_topic_is_allowed_or_denied_as_in_kafka(rules: tuple[Acl, ...], expected: bool) -> None:
    assert rights(*rules).may_any(WRITE, TOPIC) is expected


# ---------------------------------------------------------------------- against a naive one

NAMES = ("", "o", "or", "orders", "ord", "*", "x")
PRINCIPALS = ("User:ann", "User:bob", "User:*")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")

some_rules = st.lists(
    st.builds(
        Acl,
        st.sampled_from((TOPIC, GROUP)),
        st.sampled_from(NAMES[1:]),
        st.sampled_from((PatternType.LITERAL, PREFIXED)),
        st.sampled_from(PRINCIPALS),
        st.sampled_from(HOSTS),
        st.sampled_from([one for one in Operation if one not in (Operation.UNKNOWN, Operation.ANY)]),
        st.sampled_from((Permission.ALLOW, DENY)),
    ),
    max_size=8,
)


def naive(rules: list[Acl], request: tuple[str, str, int, int, str], allows_if_none: bool) -> bool:
    """Decide as Kafka's documentation describes, without an index of the rules."""
    principal, host, operation, resource_type, name = request

    def is_on_it(one: Acl) -> bool:
        if one.resource_type != resource_type:
            return False
        if one.pattern_type == PREFIXED:
            return name[: len(one.resource_name)] == one.resource_name
        return one.resource_name in ("*", name)

    def is_mine(one: Acl) -> bool:
        return one.principal in ("User:*", principal) and one.host in ("*", host)

    on_it = [one for one in rules if is_on_it(one)]
    if not on_it:
        return allows_if_none
    names = {Operation(operation).name, "ALL"}
    if any(
        is_mine(one) and one.permission == DENY and Operation(one.operation).name in names for one in on_it
    ):
        return False
    if operation == DESCRIBE:
        names |= {"READ", "WRITE", "DELETE", "ALTER"}
    if operation == Operation.DESCRIBE_CONFIGS:
        names |= {"ALTER_CONFIGS"}
    allowing = [one for one in on_it if is_mine(one) and one.permission == Permission.ALLOW]
    return any(Operation(one.operation).name in names for one in allowing)


@pytest.mark.gate
@given(some_rules, st.sampled_from(NAMES), st.sampled_from(("ann", "bob")), st.booleans())
def test_every_decision_is_that_of_a_naive_implementation(
    rules: list[Acl], name: str, user: str, allows_if_none: bool
) -> None:
    settings = Settings(allows_if_none_found=allows_if_none)
    may = rights(*rules, user=user, settings=settings)
    for resource_type in (TOPIC, GROUP):
        for operation in OPERATIONS_ON[TOPIC]:
            request = (f"User:{user}", "10.0.0.1", operation, resource_type, name)
            expected = naive(rules, request, allows_if_none)
            assert may.may(operation, resource_type, name) is expected
            assert may.may(operation, resource_type, name) is expected, "the cached decision"


# ---------------------------------------------------------------------- filters

ALL_KINDS = (
    rule("orders"),
    rule("ord", pattern=PREFIXED),
    rule("*"),
    rule("orders", principal="User:bob", host="10.0.0.1", operation=WRITE, permission=DENY),
    rule("orders", resource_type=GROUP),
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), {0, 1, 2, 3, 4}),
        (AclFilter(resource_type=GROUP), {4}),
        (AclFilter(resource_name="orders"), {0, 3, 4}),
        (AclFilter(resource_name="orders", pattern_type=PatternType.MATCH), {0, 1, 2, 3, 4}),
        (AclFilter(resource_name="or", pattern_type=PatternType.MATCH), {2}),
        (AclFilter(resource_name="orders", pattern_type=PatternType.LITERAL), {0, 3, 4}),
        (AclFilter(resource_name="ord", pattern_type=PREFIXED), {1}),
        (AclFilter(resource_name="orders", pattern_type=PREFIXED), set()),
        (AclFilter(pattern_type=PREFIXED), {1}),
        (AclFilter(resource_name="*", pattern_type=PatternType.LITERAL), {2}),
        (AclFilter(principal="User:bob"), {3}),
        (AclFilter(principal="User:*"), set()),
        (AclFilter(host="10.0.0.1"), {3}),
        (AclFilter(operation=WRITE), {3}),
        (AclFilter(operation=ALL), set()),
        (AclFilter(permission=DENY), {3}),
        (AclFilter(resource_type=TOPIC, operation=READ), {0, 1, 2}),
    ],
)
def test_acl_filter_matches(wanted: AclFilter, expected: set[int]) -> None:
    assert {number for number, one in enumerate(ALL_KINDS) if wanted.matches(one)} == expected


def test_decisions_on_long_names_are_not_cached() -> None:
    """Requests can have names of 32 KiB, and many decisions are cached."""
    granted = rights(rule("a", pattern=PREFIXED))
    for _ in range(2):
        assert granted.may(READ, TOPIC, "a" * 249)
        assert granted.may(READ, GROUP, "a" * 32_767) is False
        assert granted.may(READ, TOPIC, "a" * 32_767)
    assert [name for _, _, name in granted.decided] == ["a" * 249]


def test_decisions_of_all_callers_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of names of a thousand principals or addresses would take gigabytes."""
    monkeypatch.setattr("pykafka2.broker.security.authorizer.MAX_DECISIONS", 100)
    monkeypatch.setattr("pykafka2.broker.security.authorizer.MAX_CALLERS", 4)
    authorizer = Authorizer({rule("t7"): b""}, Settings())
    callers = [Caller(Principal("User", "ann"), f"10.0.0.{number}") for number in range(10)]
    known = []  # open connections keep their rights after the authorizer has dropped them
    for caller in callers:
        known.append(authorizer.rights_of(caller))
        for number in range(50):
            for one in known:
                assert one.may(READ, TOPIC, f"t{number}") is (number == 7)
                assert sum(len(each.decided) for each in known) <= 100
    assert sum(len(each.decided) for each in known) > 20


def test_gate_keeps_the_rights_of_a_limited_number_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorization, "MAX_CALLERS", 3)
    unused: Any = None
    gate = authorization.Gate(0, BrokerConfig(None, made={}), unused, unused)
    request = ReceivedRequest(MetadataRequest(topics=[]), 12, 1, "app", 10, 0.0)
    callers = [Caller(Principal("User", f"user-{number}")) for number in range(8)]
    for caller in [*callers, *callers[:2]]:
        access = gate.access(RequestContext(DeadOrigin("peer", caller), request), NO_ACLS)
        assert access.rights.principal == str(caller.principal)
        assert len(gate._rights) <= 3
