"""`pykafka2 broker` with several listeners, users, secrets and advertised addresses."""

from __future__ import annotations

import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pykafka2.cli.broker.listeners import parsed_listeners, parsed_users
from pykafka2.cli.main import main
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import Listener
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import log_in
from tests.cli.test_broker_command import broker


@pytest.mark.gate
@pytest.mark.slow
def test_the_command_has_several_listeners() -> None:
    options = (
        "--brokers=1",
        "--listener=PLAINTEXT://:0",
        "--listener=EXTERNAL=SASL_PLAINTEXT://127.0.0.1:0",
        "--listener=SASL_SSL://:0",
        "--advertised-listener=EXTERNAL://kafka.test:19092",
        "--user=ann:ann:secret",
    )
    with broker(*options) as (process, addresses):
        assert process.stdout is not None
        lines = dict(process.stdout.readline().strip().split("=", 1) for _ in range(4))
        assert lines["listener.PLAINTEXT"] == addresses[0]
        with open(lines["ssl.ca"], encoding="utf-8") as file:
            assert "BEGIN CERTIFICATE" in file.read()
        with RawClient(lines["listener.EXTERNAL"]) as wire:
            assert log_in(wire, "ann", password="ann:secret").error_code == 0
            (node,) = wire.call(MetadataRequest(topics=[]), 12).brokers
            assert (node.host, node.port) == ("kafka.test", 19092)


def test_each_broker_takes_the_next_port() -> None:
    found = parsed_listeners(["A=SSL://[::1]:9092", "PLAINTEXT://:0"], ["A://a.test:1"], 2)
    assert found == {
        "A": Listener("SSL", "::1", [9092, 9093], "a.test", [1, 2]),
        "PLAINTEXT": Listener(None, None, [0, 0]),
    }
    assert parsed_listeners([], [], 2) is None


@pytest.mark.parametrize(
    "text",
    [
        "PLAINTEXT",
        "PLAINTEXT:9092",
        "://:9092",
        "A=://:1",
        "A://host",
        "A://h:x",
        "A://:65535",
        "a b://h:1:2",
    ],
)
def test_a_listener_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--listener"):
        parsed_listeners([text], [], 2)


def test_contradictory_listeners_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError, match="A is set twice"):
        parsed_listeners(["A=SSL://:1", "A=SSL://:2"], [], 1)
    with pytest.raises(ConfigurationError, match="use the name of a listener: A"):
        parsed_listeners(["A=SSL://:1"], ["B://h:1"], 1)
    assert main(["broker", "--listener", "PLAINTEXT://:0", "--port", "9092"]) != 0
    assert "--port cannot be combined with --listener" in capsys.readouterr().err


def test_a_password_is_in_no_error() -> None:
    assert parsed_users(["ann:a:b"]) == {"ann": "a:b"}
    with pytest.raises(ConfigurationError) as refused:
        parsed_users([":canary"])
    assert "canary" not in str(refused.value)


def test_listeners_with_overlapping_ports_are_rejected_by_name() -> None:
    """Each broker takes the next port, so that those of two listeners may meet."""
    texts = ["PLAINTEXT://:9092", "SASL_PLAINTEXT://:9093"]
    with pytest.raises(
        ConfigurationError,
        match=r"SASL_PLAINTEXT://:9093: .*9093 to 9095.* PLAINTEXT, 9092 to 9094.*--bro",
    ):
        parsed_listeners(texts, [], 3)
    assert list(parsed_listeners(texts, [], 1) or ()) == ["PLAINTEXT", "SASL_PLAINTEXT"]
    assert len(parsed_listeners(["A=SSL://:0", "B=SSL://:0"], [], 3) or ()) == 2


# ---------------------------------------------------------------------- secrets

USERS, TOKEN_KEY, ADMIN_TOKEN = (
    "PYKAFKA2_BROKER_USERS",
    "PYKAFKA2_BROKER_TOKEN_KEY",
    "PYKAFKA2_BROKER_ADMIN_TOKEN",
)


class Made(Exception):
    """A cluster would be made."""


@pytest.fixture
def arguments_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that returns the arguments of the cluster that the command would make."""

    def arguments_of(*words: str, **variables: str) -> dict[str, Any]:
        def make(**arguments: Any) -> None:
            made.update(arguments)
            raise Made

        made: dict[str, Any] = {}
        monkeypatch.setattr("pykafka2.testing.cluster.KafkaCluster", make)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(Made):
            main(["broker", *words])
        return made

    return arguments_of


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Files with two users and with a key."""
    texts = {
        "users": "ann:ann:canary\n\nben:two words \n",
        "key": "canary of the key\nnot this line\n",
        "spaced": " a key \r\n",
        "empty": "\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text.encode())
    return {name: str(tmp_path / name) for name in [*texts, "missing"]}


def test_users_of_options_file_and_variable_add_up(arguments_of: Any, files: dict[str, str]) -> None:
    found = arguments_of("--user", "cid:c", "--user-file", files["users"], **{USERS: "dan:d\neve:e\n"})
    assert found["users"] == {"cid": "c", "ann": "ann:canary", "ben": "two words ", "dan": "d", "eve": "e"}
    assert arguments_of(**{USERS: ""})["users"] is None


def test_token_key_can_come_from_a_file_or_a_variable(arguments_of: Any, files: dict[str, str]) -> None:
    assert arguments_of()["token_key"] is None
    assert arguments_of(**{TOKEN_KEY: ""})["token_key"] is None
    assert arguments_of(**{TOKEN_KEY: "of the variable"})["token_key"] == "of the variable"
    assert arguments_of("--token-key-file", files["key"])["token_key"] == "canary of the key"
    assert arguments_of("--token-key-file", files["spaced"])["token_key"] == " a key "
    assert arguments_of("--token-key", "typed")["token_key"] == "typed"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--token-key-file", "missing"], "--token-key-file {missing}: No such file or directory"),
        (["--admin-token-file", "empty"], "--admin-token-file {empty}: the first line is empty"),
        (["--user-file", "missing"], "--user-file {missing}: No such file or directory"),
        (["--user", "ann:x", "--user-file", "users"], "user ann: is set twice"),
        (["--token-key", "typed", "--token-key-file", "key"], "not allowed with argument --token-key"),
        (["--admin-token", "typed", "--admin-token-file", "key"], "not allowed with argument --admin-token"),
        (["--user-file", "key"], "--user-file {key}, line 1, user: write name:password"),
    ],
)
def test_wrong_secret_is_refused_without_showing_it(
    words: list[str], shown: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["broker", *(files.get(word, word) for word in words), "--admin-port", "0"])
    except SystemExit as ended:
        code = int(ended.code or 0)
    error = capsys.readouterr().err
    assert code == 2
    assert shown.format(**files) in error
    assert "canary" not in error


@pytest.mark.parametrize("option", ["--token-key-file", "--admin-token-file", "--user-file"])
def test_secret_of_a_file_that_is_too_large_is_refused(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pykafka2.cli.common.secrets.MAX_CHARACTERS", 8)
    monkeypatch.setattr("pykafka2.testing.cluster.KafkaCluster", None)  # so that no broker starts
    path = tmp_path / "file"
    path.write_text("ann:canary")
    assert main(["broker", option, str(path), "--admin-port", "0"]) == 2
    error = capsys.readouterr().err
    assert f"{option} {path}: more than 8 characters" in error
    assert "canary" not in error


@pytest.mark.gate
@pytest.mark.slow
def test_secrets_of_files_and_variables_are_used_and_not_shown(tmp_path: Path) -> None:
    users, token = tmp_path / "users", tmp_path / "token"
    users.write_text("ann:canary-of-ann\n")
    token.write_text("canary-of-admin\n")
    options = ["--brokers=1", "--listener=SASL_PLAINTEXT://:0", "--user-file", str(users)]
    options += ["--admin-port=0", "--admin-host=localhost"]
    for more, variables in [
        (["--admin-token-file", str(token)], {USERS: "ben:canary-of-ben"}),
        ([], {USERS: "ben:canary-of-ben", ADMIN_TOKEN: "canary-of-admin"}),
    ]:
        environment = {**os.environ, **variables}
        with broker(*options, *more, environment=environment, is_forked=False) as (process, addresses):
            assert process.stdout is not None
            shown = [process.stdout.readline() for _ in range(2)]
            words = Path(f"/proc/{process.pid}/cmdline").read_text() if os.path.exists("/proc") else ""
            assert "canary" not in "".join(shown) + words
            for name in ("ann", "ben"):
                with RawClient(addresses[0]) as wire:
                    assert log_in(wire, name, password=f"canary-of-{name}").error_code == 0
            url = shown[1].strip().removeprefix("admin=")
            assert url.startswith("http://localhost:")
            request = urllib.request.Request(
                f"{url}/topics", b"{}", {"Authorization": "Bearer canary-of-admin"}
            )
            with urllib.request.urlopen(request, timeout=30) as response:
                assert response.status == 200
