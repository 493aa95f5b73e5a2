"""`pykafka2 quotas` as typed, on two brokers: in this process, in pipes and in a pseudo-terminal."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pykafka2.admin.quotas import OF_ADDRESSES, OF_CLIENTS
from pykafka2.cli.admin import quotas
from tests.cli.conftest import Admin
from tests.cli.typed import Terminal, pykafka2


def test_quotas_of_two_entities_are_set_listed_and_reset(admin: Admin) -> None:
    user, app = admin.name("user"), admin.name("app")
    rates = ("producer_byte_rate=1000000", "consumer_byte_rate=20")
    code, shown, errors = admin("quotas", "set", "--user", user, *rates)
    assert (code, errors) == (0, "")
    assert shown == f"user '{user}': set, quotas producer_byte_rate, consumer_byte_rate\n"
    words = ("quotas", "set", "--user", user, "--client-id", app, "request_percentage=12.5")
    assert admin.rows(*words) == [
        {
            "user": user,
            "client_id": app,
            "ip": None,
            "result": "set",
            "error": None,
            "quotas": ["request_percentage"],
        }
    ]
    own = {"user": user, "client_id": None, "ip": None}
    rows = [
        {**own, "quota": "consumer_byte_rate", "value": 20},
        {**own, "quota": "producer_byte_rate", "value": 1000000},
    ]
    assert admin.rows("quotas", "list", "--user", user, "--strict") == rows
    both = {**own, "client_id": app, "quota": "request_percentage", "value": 12.5}
    assert admin.rows("quotas", "list", "--user", user) == [*rows, both]
    code, shown, _ = admin("quotas", "reset", "--user", user, "consumer_byte_rate")
    assert (code, shown) == (0, f"user '{user}': reset, quota consumer_byte_rate\n")
    assert admin("quotas", "reset", "--user", user, "--all")[0] == 0
    assert admin.rows("quotas", "list", "--user", user) == [both]
    assert admin("quotas", "reset", "--user", user, "--all") == (
        0,
        "",
        f"No quota is set for user '{user}'.\n",
    )


def test_defaults_are_entities_of_their_own(admin: Admin) -> None:
    code, shown, _ = admin("quotas", "set", "--client-defaults", "controller_mutation_rate=7")
    assert (code, shown) == (0, "default client id: set, quota controller_mutation_rate\n")
    assert admin("quotas", "set", "--ip-defaults", "connection_creation_rate=1000")[0] == 0
    (row,) = admin.rows("quotas", "list", "--client-defaults")
    assert (row["client_id"], row["quota"], row["value"]) == ("<default>", "controller_mutation_rate", 7)
    (row,) = admin.rows("quotas", "list", "--ip-defaults")
    assert (row["ip"], row["value"]) == ("<default>", 1000)
    assert admin("quotas", "reset", "--client-defaults", "--all")[0] == 0
    assert admin("quotas", "reset", "--ip-defaults", "--all")[0] == 0
    assert admin.rows("quotas", "list", "--client-defaults") == []


def test_dry_run_of_quotas_changes_nothing(admin: Admin) -> None:
    user = admin.name("user")
    words = ("quotas", "set", "--user", user, "producer_byte_rate=5", "--dry-run")
    assert admin(*words) == (0, f"user '{user}': valid, quota producer_byte_rate\n", "")
    assert admin.rows("quotas", "list", "--user", user) == []
    admin("quotas", "set", "--user", user, "producer_byte_rate=5")
    assert admin("quotas", "reset", "--user", user, "--all", "--dry-run")[0] == 0
    assert len(admin.rows("quotas", "list", "--user", user)) == 1


def test_quota_that_the_broker_rejects_is_a_failure(admin: Admin) -> None:
    code, shown, errors = admin("quotas", "set", "--ip", "no-address", "connection_creation_rate=5", "--json")
    assert code == 1
    assert json.loads(shown)["result"] == "failed"
    assert "IP address 'no-address': InvalidRequest" in errors


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["set", "producer_byte_rate=5"], "no entity is named"),
        (["set", "--user", "ann", "producer_byte_rate"], "write QUOTA=NUMBER"),
        (["set", "--user", "ann", "producer_byte_rate=0"], "must be a number above 0"),
        (["set", "--user", "ann", "producer_byte_rate=nan"], "`quotas reset` removes a quota"),
        (["set", "--user", "ann", "producer_rate=5"], "user 'ann' has no quota 'producer_rate'"),
        (["reset", "--ip-defaults", "producer_byte_rate"], "default IP address has no quota"),
        (["set", "--client-id", "", "request_percentage=5"], "--client-id is empty; use --client-defaults"),
        (["set", "--user", "ann", "request_percentage=5", "request_percentage=6"], "set twice"),
        (["set", "--user", "ann", "--user-defaults", "request_percentage=5"], "cannot be combined"),
        (
            ["set", "--user", "ann", "--ip", "127.0.0.1", "request_percentage=5"],
            "cannot be combined with a user",
        ),
        (["reset", "--user", "ann"], "use --all"),
        (["reset", "--user", "ann", "--all", "request_percentage"], "use --all"),
        (["list", "--strict"], "--strict needs an entity"),
        (["lst"], "did you mean list?"),
    ],
)
def test_wrong_argument_of_quotas_has_exit_code_2(admin: Admin, words: list[str], shown: str) -> None:
    code, out, errors = admin("quotas", *words)
    assert (code, out) == (2, "")
    assert shown in errors
    assert "QuotaEntity" not in errors
    assert "None" not in errors


def test_reset_of_all_quotas_in_a_terminal_asks_unless_it_changes_nothing(
    admin: Admin, terminal_input: Callable[[str], None]
) -> None:
    user = admin.name("user")
    admin("quotas", "set", "--user", user, "producer_byte_rate=5")
    words = ("quotas", "reset", "--user", user, "--all")
    terminal_input("")
    assert admin(*words, "--dry-run") == (0, f"user '{user}': valid, quota producer_byte_rate\n", "")
    code, _, errors = admin(*words)
    assert (code, f"Remove producer_byte_rate of: user '{user}'? [y/N]" in errors) == (1, True)


@pytest.mark.gate
def test_quotas_are_sorted_and_whole_numbers_have_no_fraction(admin: Admin) -> None:
    last, first = admin.name("z-user"), admin.name("a-user")
    for user in (last, first):
        assert admin("quotas", "set", "--user", user, "producer_byte_rate=1000000")[0] == 0
    users = [row["user"] for row in admin.rows("quotas", "list")]
    assert [user for user in users if user in (last, first)] == [first, last]
    shown = admin("quotas", "list", "--user", first)[1].splitlines()[1]
    assert shown.split() == [first, "producer_byte_rate", "1000000"]
    for user in (last, first):
        admin("quotas", "reset", "--user", user, "--all")


@pytest.mark.gate
def test_quotas_typed_in_a_pipe_and_in_a_terminal(admin: Admin) -> None:
    user = admin.name("user")
    ended = pykafka2("quotas", "set", "--user", user, "producer_byte_rate=5", "-b", admin.servers)
    assert ended.returncode == 0, ended.stderr
    terminal = Terminal("quotas", "reset", "--user", user, "--all", "-b", admin.servers)
    terminal.wait_for(f"Remove producer_byte_rate of: user '{user}'? [y/N]")
    terminal.type("\n")
    assert terminal.end()[0] == 1
    assert len(admin.rows("quotas", "list", "--user", user)) == 1


def test_quotas_of_the_command_line_are_those_of_the_client() -> None:
    assert (quotas.OF_CLIENTS, quotas.OF_ADDRESSES) == (OF_CLIENTS, OF_ADDRESSES)
