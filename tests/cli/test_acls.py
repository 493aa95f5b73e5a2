"""`pykafka2 acls` as typed, on two brokers: in this process, in pipes and in a pseudo-terminal."""

from __future__ import annotations

import json

import pytest

from pykafka2.testing import KafkaCluster
from tests.cli.conftest import Admin
from tests.cli.typed import Terminal, in_terminal, pykafka2


def test_add_makes_an_acl_for_each_combination(admin: Admin) -> None:
    name, user = admin.name(), f"User:{admin.name('user')}"
    code, shown, errors = admin(
        *("acls", "add", "--principal", user, "--operation", "read,Describe"),
        *("--topic", name, "--group", "billing", "--host", "10.0.0.7"),
    )
    assert (code, errors) == (0, "")
    assert shown.splitlines() == [
        f"ALLOW {user} READ on LITERAL TOPIC {name} from 10.0.0.7: added",
        f"ALLOW {user} DESCRIBE on LITERAL TOPIC {name} from 10.0.0.7: added",
        f"ALLOW {user} READ on LITERAL GROUP billing from 10.0.0.7: added",
        f"ALLOW {user} DESCRIBE on LITERAL GROUP billing from 10.0.0.7: added",
    ]
    rows = admin.rows("acls", "list", "--principal", user, "--operation", "READ", "--topic", name)
    assert rows == [
        {
            "resource_type": "TOPIC",
            "resource_name": name,
            "pattern_type": "LITERAL",
            "principal": user,
            "host": "10.0.0.7",
            "operation": "READ",
            "permission": "ALLOW",
        }
    ]


def test_deny_on_a_prefix_is_found_by_match(admin: Admin) -> None:
    name, user = admin.name(), f"User:{admin.name('user')}"
    rows = admin.rows(
        *("acls", "add", "--principal", user, "--operation", "ALL", "--topic", name, "--prefixed", "--deny")
    )
    assert [(row["result"], row["permission"], row["pattern_type"]) for row in rows] == [
        ("added", "DENY", "PREFIXED")
    ]
    assert admin.rows("acls", "list", "--topic", f"{name}-7") == []
    (row,) = admin.rows("acls", "list", "--topic", f"{name}-7", "--pattern-type", "match")
    assert row["permission"] == "DENY"


@pytest.mark.parametrize("deny", [[], ["--deny"]])
def test_repeated_operations_add_up(admin: Admin, deny: list[str]) -> None:
    name, user = admin.name(), f"User:{admin.name('user')}"
    words = ("--operation", "READ", "--operation", "WRITE,READ", "--topic", name, *deny)
    rows = admin.rows("acls", "add", "--principal", user, *words)
    assert [row["operation"] for row in rows] == ["READ", "WRITE"]
    listed = admin.rows("acls", "list", "--principal", user, "--operation", "READ", "--operation", "WRITE")
    assert sorted((row["operation"], row["permission"]) for row in listed) == [
        ("READ", "DENY" if deny else "ALLOW"),
        ("WRITE", "DENY" if deny else "ALLOW"),
    ]


def test_delete_removes_matching_acls(admin: Admin) -> None:
    user = f"User:{admin.name('user')}"
    admin("acls", "add", "--principal", user, "--operation", "CREATE,ALTER", "--cluster")
    code, shown, errors = admin("acls", "delete", "--principal", user, "--dry-run")
    assert (code, errors) == (0, "Dry run: no ACL was deleted.\n")
    assert len(shown.splitlines()) == 3
    code, shown, _ = admin("acls", "delete", "--principal", user, "--operation", "ALTER")
    assert (code, shown) == (
        0,
        f"ALLOW {user} ALTER on LITERAL CLUSTER kafka-cluster from *: deleted\n",
    )
    assert [row["operation"] for row in admin.rows("acls", "list", "--principal", user)] == ["CREATE"]
    assert admin("acls", "delete", "--principal", "User:nobody-else")[2] == "No ACL matches.\n"


@pytest.mark.gate
def test_filters_of_permission_host_operation_and_resource_all_apply(admin: Admin) -> None:
    user = f"User:{admin.name('user')}"
    add = ("acls", "add", "--principal", user, "--operation", "READ,WRITE,ALTER", "--topic", "a", "--topic")
    assert admin(*add, "b", "--host", "10.0.0.7", "--host", "10.0.0.8")[0] == 0
    assert admin(*add, "b", "--host", "10.0.0.9", "--deny", "--prefixed")[0] == 0

    def found(*words: str) -> int:
        return len(admin.rows("acls", "list", "--principal", user, *words))

    assert found() == 18
    assert found("--permission", "deny") == 6
    assert found("--host", "10.0.0.7") == 6
    assert found("--operation", "READ,WRITE") == 12
    assert found("--topic", "a") == 9
    assert found("--topic", "a", "--pattern-type", "LITERAL") == 6
    assert found("--topic", "b", "--topic", "a", "--operation", "READ", "--operation", "ALTER") == 12
    words = ("--principal", user, "--permission", "DENY", "--host", "10.0.0.9", "--topic", "b")
    assert len(admin.rows("acls", "delete", *words)) == 3
    assert (found(), found("--permission", "DENY"), found("--topic", "b")) == (15, 3, 6)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["add", "--principal", "ann", "--operation", "READ", "--topic", "t"], "such as User:ann"),
        (["add", "--principal", "User:a", "--operation", "REED", "--topic", "t"], "did you mean READ?"),
        (["add", "--principal", "User:a", "--operation", "READ"], "--topic, --group, --transactional-id"),
        (["add", "--operation", "READ", "--topic", "t"], "--principal"),
        (
            ["add", "--principal", "User:a", "--operation", "ALL", "--cluster", "--prefixed"],
            "--prefixed cannot",
        ),
        (["list", "--permission", "permit"], "ALLOW"),
        (["delete"], "--all"),
        (["delete", "--all", "--topic", "t"], "--all"),
    ],
)
def test_wrong_argument_has_exit_code_2(admin: Admin, words: list[str], shown: str) -> None:
    code, out, errors = admin("acls", *words)
    assert (code, out) == (2, "")
    assert shown in errors


@pytest.mark.gate
def test_brokers_without_an_authorizer_are_named() -> None:
    with KafkaCluster(brokers=1) as cluster:
        ended = pykafka2("acls", "list", "-b", cluster.bootstrap_servers)
    assert ended.returncode == 1
    assert b"SecurityDisabled" in ended.stderr


@pytest.mark.gate
def test_typed_in_a_pipe_and_in_a_terminal(admin: Admin) -> None:
    user = f"User:{admin.name('user')}"
    admin("acls", "add", "--principal", user, "--operation", "READ", "--topic", "t")
    ended = pykafka2("acls", "list", "--principal", user, "-b", admin.servers, "--json")
    assert (ended.returncode, json.loads(ended.stdout)["operation"]) == (0, "READ")
    code, shown = in_terminal("acls", "list", "-b", admin.servers, "--principal", user)
    assert code == 0
    assert "RESOURCE" in shown


@pytest.mark.gate
def test_deletion_is_confirmed_in_a_terminal(admin: Admin) -> None:
    user = f"User:{admin.name('user')}"
    admin("acls", "add", "--principal", user, "--operation", "READ", "--topic", "t")
    terminal = Terminal("acls", "delete", "--principal", user, "-b", admin.servers)
    terminal.wait_for("Delete 1 ACL: ")
    terminal.wait_for("[y/N]")
    terminal.type("n\n")
    code, shown = terminal.end()
    assert code == 1
    assert "nothing was changed" in shown
    assert len(admin.rows("acls", "list", "--principal", user)) == 1
