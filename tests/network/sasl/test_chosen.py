"""From options, in any client's spelling, to a mechanism and its first message."""

from __future__ import annotations

import os
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pykafka2.clock import SeededEntropy, SystemClock
from pykafka2.errors import ConfigurationError
from pykafka2.network.sasl import oauth_token
from pykafka2.network.sasl.chosen import GRACE, sasl_mechanism
from pykafka2.network.sasl.client_credentials import ClientCredentials
from pykafka2.network.sasl.mechanism import SaslMechanism
from pykafka2.network.sasl.oauthbearer import OAuthBearer
from pykafka2.network.script import Offload
from pykafka2.options import ClientOptions, OptionTable
from tests import token_providers
from tests.forks import in_child
from tests.web_tokens import unsigned

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def mechanism_of(clock: Any = None, **settings: Any) -> SaslMechanism | None:
    options = OptionTable(ClientOptions).parse({"security_protocol": "SASL_PLAINTEXT"} | settings, {})
    return sasl_mechanism(options, "tester", clock or SystemClock(), SeededEntropy(1))


def first_message(**settings: Any) -> bytes:
    mechanism = mechanism_of(**settings)
    assert mechanism is not None
    exchange = mechanism.exchange()
    step = next(exchange)
    while isinstance(step, Offload):
        step = exchange.send(step.work())
    return step


def test_without_sasl_there_is_none() -> None:
    assert mechanism_of(security_protocol="SSL") is None
    with pytest.warns(
        UserWarning, match="sasl_mechanism is ignored: security_protocol='PLAINTEXT' does not authenticate"
    ):
        assert mechanism_of(security_protocol="PLAINTEXT", sasl_mechanism="PLAIN") is None


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl_username": "ann", "sasl_password": "secret"},
        {"sasl_plain_username": "ann", "sasl_plain_password": "secret"},
        {"sasl.username": "ann", "sasl.password": "secret"},
        {"sasl.jaas.config": f'{PLAIN_MODULE} required username="ann" password="secret";'},
    ],
    ids=["ours", "kafka-python", "librdkafka", "Java"],
)
def test_user_and_password_in_any_spelling(settings: dict[str, str]) -> None:
    assert first_message(sasl_mechanism="plain", **settings) == b"\0ann\0secret"


def test_option_set_twice_is_rejected() -> None:
    with pytest.raises(Exception, match="sasl_username is set twice, once in sasl_jaas_config"):
        mechanism_of(
            sasl_mechanism="PLAIN",
            sasl_username="bob",
            sasl_jaas_config=f'{PLAIN_MODULE} required username="ann" password="secret";',
        )


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("sasl_username", {"sasl_username": "ann\udc80", "sasl_password": "hush"}),
        ("sasl_password", {"sasl_username": "ann", "sasl_password": "hush\udc80"}),
        (
            "sasl_password",
            {"sasl_jaas_config": f'{PLAIN_MODULE} required username="ann" password="hush\udc80";'},
        ),
        ("sasl_password", {"sasl_username": "ann", "sasl_password": "hush" * 10_000}),
        (
            "sasl_oauthbearer_client_secret",
            {
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": "https://login.example.org/token",
                "sasl_oauthbearer_client_id": "ann",
                "sasl_oauthbearer_client_secret": "hush\udc80",
            },
        ),
    ],
    ids=["user", "password", "JAAS", "long", "OAuth"],
)
def test_unencodable_credential_is_named_without_its_value(name: str, settings: dict[str, str]) -> None:
    """An environment variable that is not UTF-8 comes as such text."""
    with pytest.raises(
        ConfigurationError, match=f"{name}: it (is not valid Unicode|has 40000 bytes)"
    ) as refused:
        mechanism_of(**{"sasl_mechanism": "PLAIN", **settings})
    assert "hush" not in repr(refused.value)


def test_an_address_of_tokens_has_no_password() -> None:
    """It is shown in errors."""
    with pytest.raises(ConfigurationError, match="must not contain a user or a password") as refused:
        mechanism_of(
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url="https://ann:hush@login.example.org/token",
            sasl_oauthbearer_client_id="ann",
            sasl_oauthbearer_client_secret="x",
        )
    assert "hush" not in repr(refused.value)


@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_begins_with_the_user_and_a_nonce(name: str) -> None:
    message = first_message(sasl_mechanism=name, sasl_username="ann", sasl_password="secret")
    assert message.startswith(b"n,,n=ann,r=")
    message = first_message(
        sasl_mechanism=name, sasl_username="id", sasl_password="hmac", sasl_delegation_token=True
    )
    assert message.endswith(b",tokenauth=true")


class Provider:
    """Options as kafka-python names them."""

    def token(self) -> str:
        return "abc"

    def extensions(self) -> dict[str, str]:
        return {"traceId": "7"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl_oauth_token_provider": lambda: "abc"}, b"auth=Bearer abc\x01"),
        ({"sasl_oauth_token_provider": Provider()}, b"auth=Bearer abc\x01traceId=7\x01"),
        (
            {"oauth_cb": lambda config: (config, 9e9), "sasl_oauthbearer_config": "said"},
            b"auth=Bearer said\x01",
        ),
        (
            {"sasl_oauth_token_provider": lambda: "abc", "sasl_oauthbearer_extensions": "a=b, c=d"},
            b"auth=Bearer abc\x01a=b\x01c=d\x01",
        ),
    ],
)
def test_tokens_of_any_provider(settings: dict[str, Any], message: bytes) -> None:
    assert first_message(sasl_mechanism="OAUTHBEARER", **settings) == b"n,,\x01" + message + b"\x01"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process whose clients share no token yet; the folder in which providers note their calls."""
    monkeypatch.setattr(oauth_token, "_shared", {})
    monkeypatch.setenv(token_providers.CALLS, str(tmp_path))
    return tmp_path


ENDPOINT = {
    "sasl_oauthbearer_token_endpoint_url": "https://login.example.org/token",
    "sasl_oauthbearer_client_id": "client",
    "sasl_oauthbearer_client_secret": "hush",
}


def tokens_of(**settings: Any) -> oauth_token.TokenCache:
    mechanism = mechanism_of(sasl_mechanism="OAUTHBEARER", **settings)
    assert isinstance(mechanism, OAuthBearer)
    return mechanism.tokens


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl_oauth_token_provider": "tests.token_providers:opaque"},
        {"sasl.oauth.token.provider": "tests.token_providers:provider"},
        {"sasl.oauth.token.provider": "tests.token_providers:provider.token"},
        {"sasl.oauth.token.provider": "tests.token_providers:unhashable"},
        {"oauth_cb": "tests.token_providers:with_config", "sasl_oauthbearer_config": "abc"},
    ],
)
def test_provider_named_by_import_path_is_called_once_for_all_clients(
    settings: dict[str, str], folder: Path
) -> None:
    first, second = (first_message(sasl_mechanism="OAUTHBEARER", **settings) for _ in range(2))
    assert first == second
    assert b"auth=Bearer " in first
    assert len(token_providers.calls(folder)) == 1


def test_clients_with_equal_settings_share_tokens_and_others_do_not(folder: Path) -> None:
    path = {"sasl_oauth_token_provider": "tests.token_providers:opaque"}
    variants: list[dict[str, Any]] = [
        path,
        {"sasl_oauth_token_provider": "tests.token_providers:alice"},
        {**path, "sasl_oauthbearer_extensions": "a=b"},
        {**path, "sasl_login_read_timeout_ms": 5000},
        ENDPOINT,
        {**ENDPOINT, "sasl_oauthbearer_token_endpoint_url": "https://login.example.org/other"},
        {**ENDPOINT, "sasl_oauthbearer_client_id": "other"},
        {**ENDPOINT, "sasl_oauthbearer_client_secret": "other"},
        {**ENDPOINT, "sasl_oauthbearer_scope": "kafka"},
        {**ENDPOINT, "https_ca_location": "ca.pem"},
        *(
            {"oauth_cb": "tests.token_providers:with_config", "sasl_oauthbearer_config": config}
            for config in ("abc", "def")
        ),
    ]
    first = [tokens_of(**settings) for settings in variants]
    assert len({id(one) for one in first}) == len(variants)
    assert [id(tokens_of(**settings)) for settings in variants] == [id(one) for one in first]


def test_callable_of_the_caller_stays_with_its_client(folder: Path) -> None:
    for settings in (
        {"sasl_oauth_token_provider": token_providers.opaque},
        {"oauth_cb": lambda _: ("a", 9e9)},
    ):
        assert tokens_of(**settings) is not tokens_of(**settings)


def test_timeout_of_an_endpoint_is_retriable_and_that_of_a_provider_is_not(folder: Path) -> None:
    """An authority can be restarting, but a callable that hangs is a bug."""
    path = "tests.token_providers:opaque"
    assert tokens_of(**ENDPOINT).overdue().retriable
    for provider in (path, token_providers.opaque):
        assert not tokens_of(sasl_oauth_token_provider=provider).overdue().retriable


def test_named_provider_is_shown_by_its_path_alone() -> None:
    """The repr of the object can contain its secret."""
    options = OptionTable(ClientOptions).parse(
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": "tests.token_providers:provider",
        },
        {},
    )
    assert "'tests.token_providers:provider'" in repr(options)
    assert "Provider object" not in repr(options)


def test_client_waits_for_a_token_that_another_client_requests(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever became of the client that was created first: its runtime can be closed."""
    is_called, goes_on = threading.Event(), threading.Event()

    def slow() -> tuple[str, float]:
        is_called.set()
        assert goes_on.wait(30)
        return token_providers.opaque()

    monkeypatch.setattr(token_providers, "slow", slow, raising=False)
    options = OptionTable(ClientOptions).parse(
        {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": "tests.token_providers:slow",
        },
        {},
    )
    first, second = (
        sasl_mechanism(options, "tester", SystemClock(), SeededEntropy(1), wait=lambda *_: False)
        for _ in range(2)
    )
    assert isinstance(first, OAuthBearer)
    assert isinstance(second, OAuthBearer)
    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(first.tokens.current)]
        assert is_called.wait(30)
        calls.append(threads.submit(second.tokens.current))
        threading.Timer(0.05, goes_on.set).start()
        assert [call.result(30).value for call in calls] == ["opaque"] * 2
    assert len(token_providers.calls(folder)) == 1


class VirtualClock:
    """The time of a simulation."""

    def __getattr__(self, name: str) -> Any:
        return getattr(SystemClock(), name)


def test_clients_of_simulations_share_no_token(folder: Path) -> None:
    """Each simulation has a time of its own, so tokens of others would expire early or late."""
    path = "tests.token_providers:opaque"
    first, second = (
        mechanism_of(VirtualClock(), sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=path)
        for _ in range(2)
    )
    assert isinstance(first, OAuthBearer)
    assert isinstance(second, OAuthBearer)
    assert first.tokens is not second.tokens


def test_process_keeps_the_tokens_of_the_settings_used_last(folder: Path) -> None:
    def of(number: int) -> oauth_token.TokenCache:
        return tokens_of(**ENDPOINT, sasl_oauthbearer_scope=str(number))

    first, second = of(0), of(1)
    for number in range(2, oauth_token.MOST_SHARED):
        of(number)
    assert of(0) is first
    of(oauth_token.MOST_SHARED)
    assert of(0) is first
    assert of(1) is not second


def test_child_of_a_fork_requests_a_token_of_its_own(folder: Path) -> None:
    settings = {"sasl_oauth_token_provider": "tests.token_providers:opaque"}
    tokens = tokens_of(**settings)
    tokens.current()

    def is_requested_once() -> bool:
        first, second = (tokens_of(**settings).current() for _ in range(2))
        return first is second

    with oauth_token._shared_lock:  # as another thread can hold it
        assert in_child(is_requested_once)
    mine, other = sorted(token_providers.calls(folder), key=lambda process: process != os.getpid())
    assert mine == os.getpid() != other
    assert tokens_of(**settings) is tokens


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("tests.token_providers", "write an import path as module:function"),
        (":alice", "write an import path as module:function"),
        ("..token_providers:alice", "write an import path as module:function"),
        ("json:__name__", "'json:__name__' is a str"),
        ("tests.token_providers:", "write an import path as module:function"),
        ("no.such.module:alice", "the import of 'no.such.module:alice' failed: ModuleNotFoundError"),
        ("tests.token_providers:bob", "AttributeError"),
        ("tests.token_providers:awaited", "it is async"),
        ("tests.token_providers:NOT_CALLABLE", "must be callable"),
        ("tests.token_providers:Provider", r"pass an object: Provider\(\)"),
    ],
)
def test_import_path_that_names_no_provider_raises(path: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        tokens_of(sasl_oauth_token_provider=path)


@pytest.mark.parametrize("name", ["sasl_oauth_token_provider", "oauth_cb"])
def test_token_in_place_of_its_provider_is_not_shown(name: str) -> None:
    canary = unsigned(sub="canary")
    with pytest.raises(
        ConfigurationError, match=rf"{name}=\[hidden\] is not valid.*module:function"
    ) as raised:
        tokens_of(**{name: canary})
    assert canary not in "".join(traceback.format_exception(raised.value))


def test_provider_module_that_ends_the_program_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script without `if __name__ == "__main__"` does this."""
    (tmp_path / "token_script.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match="the import of 'token_script:token' failed: SystemExit: 3"):
        tokens_of(sasl_oauth_token_provider="token_script:token")


def test_provider_module_that_raises_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_that_raises.py").write_text("raise RuntimeError('no region')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ConfigurationError, match="import of 'module_that_raises:alice' failed: RuntimeError: no region"
    ):
        tokens_of(sasl_oauth_token_provider="module_that_raises:alice")


def test_the_credentials_of_a_client_are_for_the_authority() -> None:
    mechanism = mechanism_of(
        **{
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": "https://login.example.org/token",
            "sasl.oauthbearer.client.id": "client",
            "sasl.oauthbearer.client.secret": "hush",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "a=b",
            "sasl.login.read.timeout.ms": 2500,
            "https.ca.location": "ca.pem",
        }
    )
    assert isinstance(mechanism, OAuthBearer)
    source = mechanism.tokens._source
    assert isinstance(source, ClientCredentials)
    said = (source.url, source.client_id, source.client_secret, source.scope, source.timeout, source.ca_file)
    assert said == ("https://login.example.org/token", "client", "hush", "kafka", 2.5 + GRACE, "ca.pem")
    assert mechanism.tokens.seconds == 2.5
    assert source.extensions == {"a": "b"}


def test_repr_of_options_and_mechanism_has_no_secret() -> None:
    options = OptionTable(ClientOptions).parse(
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_jaas_config": f'{PLAIN_MODULE} required username="ann" password="canary";',
            "sasl_oauthbearer_client_secret": "canary",
            "ssl_password": "canary",
            "ssl_certificate_pem": "x",
            "ssl_key_pem": "canary",
        },
        {},
    )
    assert options.sasl_password == "canary"
    assert "canary" not in repr(options)
    mechanism = sasl_mechanism(options, "tester", SystemClock(), SeededEntropy(1))
    assert "canary" not in repr(mechanism)
