"""`pykafka2 tokens` as typed, on a broker with users."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykafka2 import KafkaProducer
from pykafka2.testing import QUICK, KafkaCluster
from tests.cli.conftest import Admin
from tests.cli.typed import Terminal, pykafka2

USERS = {"ann": "ann-secret", "bob": "bob-secret"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {**QUICK, "delegation.token.secret.key": "key"}
    with KafkaCluster(brokers=1, listeners=["SASL_PLAINTEXT"], users=USERS, config=config) as cluster:
        yield cluster


@pytest.fixture
def ann(cluster: KafkaCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Admin:
    """The command with ann's options."""
    return _of("ann", cluster, capsys, tmp_path)


@pytest.fixture
def bob(cluster: KafkaCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Admin:
    """The command with bob's options."""
    return _of("bob", cluster, capsys, tmp_path)


class _User(Admin):
    words: tuple[str, ...] = ()

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Run the command with the user's options."""
        return super().__call__(*words, *self.words)


def _of(user: str, cluster: KafkaCluster, capsys: pytest.CaptureFixture[str], folder: Path) -> _User:
    config = folder / f"{user}.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username={user}\nsasl.password={USERS[user]}\n"
    )
    admin = _User(cluster.bootstrap_servers, capsys)
    admin.words = ("--config", str(config))
    return admin


def ids(admin: Admin, *owners: str) -> list[str]:
    return [row["token_id"] for row in admin.rows("tokens", "list", *owners)]


@pytest.mark.gate
def test_created_token_lets_its_owner_log_in(cluster: KafkaCluster, ann: Admin) -> None:
    renewers = ["User:bob", "User:eve"]
    options = [word for one in renewers for word in ("--renewer", one)]
    (token,) = ann.rows("tokens", "create", *options, "--max-lifetime", "2h")
    assert (token["owner"], token["requester"], token["renewers"]) == ("User:ann", "User:ann", renewers)
    assert token["max_time"] == token["issue_time"] + 7_200_000
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=token["token_id"],
        sasl_password=token["hmac"],
        sasl_delegation_token=True,
    ) as producer:
        assert producer.partitions_for("orders")
    assert ann("tokens", "expire", token["token_id"])[0] == 0


@pytest.mark.gate
def test_hmac_goes_to_a_file_of_the_owner_alone_and_is_never_listed(ann: Admin, tmp_path: Path) -> None:
    path = tmp_path / "token.secret"
    code, shown, errors = ann("tokens", "create", "--hmac-file", str(path))
    hmac = path.read_text().strip()
    assert (code, errors, len(hmac)) == (0, "", 88)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    code, listed, _ = ann("tokens", "list")
    assert (code, "User:ann" in listed) == (0, True)
    assert hmac not in shown + listed
    code, _, errors = ann("tokens", "create", "--hmac-file", str(path))
    assert (code, "File exists" in errors) == (1, True), "an existing file stays"
    assert path.read_text().strip() == hmac
    for token_id in ids(ann):
        ann("tokens", "expire", token_id)


def test_two_tokens_are_listed_renewed_and_expired(ann: Admin, bob: Admin) -> None:
    (first,) = ann.rows("tokens", "create", "--renewer", "User:bob")
    (second,) = bob.rows("tokens", "create")
    assert ids(ann, "User:ann") == [first["token_id"]]
    assert ids(bob) == [first["token_id"], second["token_id"]], "a renewer sees a token, too"
    code, shown, errors = bob(
        "tokens", "renew", first["token_id"], "no-such-token", "--period", "1d", "--json"
    )
    renewed, missing = map(json.loads, shown.splitlines())
    assert (code, renewed["result"], missing["result"]) == (1, "renewed", "failed")
    assert first["issue_time"] < renewed["expiry_time"] <= first["max_time"]
    assert "no-such-token: DelegationTokenNotFound" in errors
    code, shown, _ = bob("tokens", "expire", second["token_id"], "--after", "1h")
    assert (code, shown.startswith(f"{second['token_id']}: expired, expiry time 20")) == (0, True)
    code, shown, _ = bob("tokens", "expire", first["token_id"], second["token_id"])
    assert (code, shown) == (0, f"{first['token_id']}: expired\n{second['token_id']}: expired\n")
    assert ids(ann) == ids(bob) == []


def test_expiring_in_a_terminal_needs_a_yes(ann: Admin, terminal_input: Callable[[str], None]) -> None:
    terminal_input("\n")
    code, _, errors = ann("tokens", "expire", "no-such-token")
    assert (code, "Expire 1 token: no-such-token? [y/N]" in errors) == (1, True)
    assert "not confirmed" in errors
    terminal_input("yes\n")
    assert "DelegationTokenNotFound" in ann("tokens", "expire", "no-such-token")[2]


def test_unauthenticated_client_gets_no_token_and_no_file(
    servers: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    anonymous, file = Admin(servers, capsys), tmp_path / "token.secret"
    for options in ([], ["--hmac-file", str(file)]):
        code, shown, errors = anonymous("tokens", "create", *options)
        assert (code, shown) == (1, "")
        assert "DelegationToken" in errors
    assert not file.exists()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["create", "--owner", "ann"], "write it as 'User:name'"),
        (["create", "--max-lifetime", "soon"], "use a duration such as 90s"),
        (["renew", "x", "--period", "0"], "use a duration such as 90s"),
        (["list", "ann"], "write it as 'User:name'"),
        (["renew"], "TOKEN_ID"),
        (["exipre", "x"], "did you mean expire?"),
    ],
)
def test_wrong_argument_of_tokens_has_exit_code_2(ann: Admin, words: list[str], shown: str) -> None:
    code, out, errors = ann("tokens", *words)
    assert (code, out) == (2, "")
    assert shown in errors


@pytest.mark.gate
def test_tokens_typed_in_a_pipe_and_in_a_terminal(cluster: KafkaCluster, tmp_path: Path) -> None:
    config = tmp_path / "ann.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username=ann\nsasl.password={USERS['ann']}\n"
    )
    options = ("-b", cluster.bootstrap_servers, "--config", str(config))
    ended = pykafka2("tokens", "create", "--json", "-vv", *options)
    token = json.loads(ended.stdout)
    assert token["hmac"].encode() not in ended.stderr
    terminal = Terminal("tokens", "expire", token["token_id"], *options)
    terminal.wait_for("Expire 1 token")
    terminal.type("y\n")
    assert terminal.end()[0] == 0
