"""`pykafka2 users` as typed, on two brokers: in this process, in pipes and in a pseudo-terminal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from pykafka2.testing import KafkaCluster, Listener
from tests.cli.conftest import Admin
from tests.cli.typed import Terminal, in_terminal, pykafka2


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """A file with a password."""
    path = tmp_path / "secret.txt"
    path.write_text("hush-hush\nsecond line\n")
    return str(path)


def test_add_list_alter_and_delete(admin: Admin, secret: str) -> None:
    user = admin.name("user")
    code, shown, errors = admin("users", "add", user, "--password-file", secret)
    assert (code, shown, errors) == (0, f"{user}: added\n", "")
    words = ("users", "add", user, "--password-file", secret, "--mechanism", "scram-sha-256")
    assert admin.rows(*words, "--iterations", "4096") == [
        {"user": user, "mechanism": "SCRAM-SHA-256", "result": "added", "error": None}
    ]
    assert admin("users", "alter", user, "--password-file", secret)[1] == f"{user}: altered\n"
    assert admin.rows("users", "list", user) == [
        {"user": user, "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": user, "mechanism": "SCRAM-SHA-512", "iterations": 8192},
    ]
    assert admin("users", "delete", user, "--mechanism", "SCRAM-SHA-256")[0] == 0
    assert [row["mechanism"] for row in admin.rows("users", "list", user)] == ["SCRAM-SHA-512"]


def test_missing_user_of_list_is_a_failure_and_the_others_are_shown(admin: Admin, secret: str) -> None:
    user = admin.name("user")
    assert admin("users", "add", user, "--password-file", secret)[0] == 0
    code, shown, errors = admin("users", "list", user, "no-such-user", "--json")
    assert (code, [json.loads(line)["user"] for line in shown.splitlines()]) == (1, [user])
    assert "no-such-user: ResourceNotFound" in errors


def test_delete_removes_all_mechanisms_and_names_missing_users(admin: Admin, secret: str) -> None:
    user = admin.name("user")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert admin("users", "add", user, "--password-file", secret, "--mechanism", mechanism)[0] == 0
    code, shown, errors = admin("users", "delete", user, "no-such-user")
    assert (code, shown) == (1, f"{user}: deleted\n")
    assert "no-such-user: ResourceNotFound" in errors
    assert user not in [row["user"] for row in admin.rows("users", "list")]


def test_add_of_a_user_and_alter_of_none_change_nothing(admin: Admin, secret: str) -> None:
    user = admin.name("user")
    code, _, errors = admin("users", "alter", user, "--password-file", secret)
    assert code == 1
    assert f"{user}: has no SCRAM-SHA-512 credential; use users add" in errors
    admin("users", "add", user, "--password-file", secret)
    code, _, errors = admin("users", "add", user, "--password-file", secret)
    assert code == 1
    assert "use users alter" in errors


def test_iterations_that_brokers_reject_are_a_failure(admin: Admin, secret: str) -> None:
    user = admin.name("user")
    code, shown, errors = admin("users", "add", user, "--password-file", secret, "--iterations", "20000")
    assert (code, shown) == (1, "")
    assert f"{user}: UnacceptableCredential" in errors


@pytest.mark.gate
@pytest.mark.parametrize("source", ["--password-stdin", "--password-file"])
def test_first_line_of_the_source_logs_in_and_is_never_shown(source: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.txt"
    file.write_bytes(b"hush-hush\r\nsecond line\n")
    listeners = {"PLAINTEXT": None, "SASL_PLAINTEXT": Listener(mechanisms=["SCRAM-SHA-512"])}
    with KafkaCluster(brokers=2, listeners=listeners, users={"admin": "x"}) as cluster:
        plain = cluster.bootstrap_servers_of("PLAINTEXT")
        ended = pykafka2(
            *("users", "add", "ann", "-b", plain, "-vv", source),
            *([str(file)] if source == "--password-file" else []),
            stdin=file.read_bytes(),
        )
        assert (ended.returncode, ended.stdout) == (0, b"ann: added\n")
        assert b"hush" not in ended.stdout + ended.stderr
        login = ("-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=SCRAM-SHA-512")
        ended = pykafka2(
            *("cluster", "brokers", "-b", cluster.bootstrap_servers_of("SASL_PLAINTEXT"), *login),
            *("-X", "sasl.username=ann", "-X", "sasl.password=hush-hush"),
        )
        assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    ("words", "stdin", "shown"),
    [
        (["add", "u"], "", "stdin is no terminal; use --password-stdin or --password-file"),
        (["add", "u", "--password-stdin"], "\n", "the password is empty"),
        (["add", "u", "--password-file", "/no/such/file"], "", "/no/such/file: No such file"),
        (["add", "u", "--password-file", "f", "--password-stdin"], "", "not allowed with"),
        (["add", "u", "--mechanism", "PLAIN"], "", "SCRAM-SHA-256"),
        (["add", "u", "--password", "hush"], "", "--password-file"),
        (["add", "u", "--iterations", "9", "--password-stdin"], "hush\n", "iterations=9 must be"),
        (["add", "", "--password-stdin"], "hush\n", "''"),
        (["delete"], "", "USER"),
    ],
)
def test_wrong_argument_has_exit_code_2(
    admin: Admin, monkeypatch: pytest.MonkeyPatch, words: list[str], stdin: str, shown: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    code, out, errors = admin("users", *words)
    assert (code, out) == (2, "")
    assert shown in errors


def test_password_that_is_not_utf_8_is_a_wrong_argument(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xffhush\n"), "utf-8"))
    code, _, errors = admin("users", "add", "u", "--password-stdin")
    assert (code, errors) == (2, "pykafka2 users: --password-stdin: it is not UTF-8 text\n")


@pytest.mark.gate
def test_password_is_read_twice_without_echo_in_a_terminal(admin: Admin) -> None:
    user = admin.name("user")
    terminal = Terminal("users", "add", user, "-b", admin.servers)
    terminal.wait_for(f"Password of {user}: ")
    terminal.type("hush-hush\n")
    terminal.wait_for("Again: ")
    terminal.type("hush-hush\n")
    code, shown = terminal.end()
    assert code == 0
    assert f"{user}: added" in shown
    assert "hush" not in shown


def test_passwords_that_differ_change_nothing(admin: Admin) -> None:
    user = admin.name("user")
    terminal = Terminal("users", "add", user, "-b", admin.servers)
    terminal.wait_for("Password of")
    terminal.type("one\n")
    terminal.wait_for("Again: ")
    terminal.type("two\n")
    code, shown = terminal.end()
    assert code == 2
    assert "the passwords differ; nothing was changed" in shown


@pytest.mark.gate
def test_typed_in_a_pipe_and_in_a_terminal(admin: Admin, secret: str) -> None:
    user = admin.name("user")
    admin("users", "add", user, "--password-file", secret)
    ended = pykafka2("users", "list", user, "-b", admin.servers, "--json")
    assert (ended.returncode, json.loads(ended.stdout)["user"]) == (0, user)
    code, shown = in_terminal("users", "list", "-b", admin.servers)
    assert code == 0
    assert user in shown
    terminal = Terminal("users", "delete", user, "-b", admin.servers)
    terminal.wait_for(f"Delete 1 user: {user}? [y/N]")
    terminal.type("y\n")
    assert terminal.end()[0] == 0
