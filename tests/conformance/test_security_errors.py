"""Errors for a wrong security configuration: the same on the bundled broker and on Apache Kafka, at once.

Each mistake is an error of its own type, which names the broker and what to check, and no secret.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trustme

from pykafka2 import KafkaAdminClient, KafkaProducer
from pykafka2.errors import (
    IllegalSaslState,
    KafkaError,
    SaslAuthenticationFailed,
    TlsCertificateRejected,
    TlsClientCertificateRefused,
    TlsError,
    TlsHostNameMismatch,
    TlsNotSpoken,
    TokenExpired,
)
from tests.web_tokens import unsigned

from .brokers import eventually
from .secured_clusters import Secured, created_token

AT_ONCE = 20.0
"""Seconds; Apache Kafka and a loaded machine take their time, and an error that is not found at once takes
30.
"""
SECRET = "hush-hush"


@attrs.frozen
class Mistake:
    """`listener` is the port, the rest what a client takes it for."""

    listener: str
    error: type[KafkaError]
    words: str
    user: str | None = None
    options: dict[str, Any] = attrs.field(factory=dict)
    without: str = ""


def wrong_token(seconds: float) -> Callable[[], str]:
    return lambda: unsigned(sub="ann", iat=time.time() - 100, exp=time.time() + seconds)


OAUTH = {"sasl_mechanism": "OAUTHBEARER"}
NO_TLS, CREDENTIALS = "without TLS.*security_protocol", "check sasl_username and sasl_password"
AUTHENTICATE = "requires SASL authentication.*SCRAM-SHA-256.*sasl_mechanism"
MISTAKES = {
    "a wrong password, PLAIN": Mistake(
        "SASL_PLAINTEXT",
        SaslAuthenticationFailed,
        f"=PLAIN.*{CREDENTIALS}",
        "ann",
        {"sasl_mechanism": "PLAIN"},
    ),
    "a wrong password, SCRAM": Mistake(
        "SASL_PLAINTEXT", SaslAuthenticationFailed, f"=SCRAM-SHA-256.*{CREDENTIALS}", "ann"
    ),
    "a user that there is not": Mistake(
        "SASL_PLAINTEXT", SaslAuthenticationFailed, f"=SCRAM-SHA-256.*{CREDENTIALS}", "nobody"
    ),
    "an expired token": Mistake(
        "SASL_PLAINTEXT",
        TokenExpired,
        "=OAUTHBEARER.*expired .* ago.*check the provider",
        options={**OAUTH, "sasl_oauth_token_provider": wrong_token(-50)},
    ),
    "no web token": Mistake(
        "SASL_PLAINTEXT",
        SaslAuthenticationFailed,
        "=OAUTHBEARER.*invalid_token.*check the token provider",
        options={**OAUTH, "sasl_oauth_token_provider": lambda: SECRET},
    ),
    "another authority": Mistake(
        "SSL", TlsCertificateRejected, "not trusted.*ssl_cafile", options={"ssl_cafile": "OTHER"}
    ),
    "no authority": Mistake("SSL", TlsCertificateRejected, "ssl_cafile", without="ssl_cafile"),
    "another name": Mistake("SSL", TlsHostNameMismatch, r"127\.1.*for another host name"),
    "no certificate": Mistake("SSL", TlsClientCertificateRefused, "ssl_certfile", without="ssl_certfile"),
    "a stranger's certificate": Mistake(
        "SSL", TlsClientCertificateRefused, "ssl_certfile", options={"ssl_certfile": "OTHER"}
    ),
    "SASL to PLAINTEXT": Mistake(
        "PLAINTEXT",
        IllegalSaslState,
        "=SCRAM-SHA-256.*does not use SASL.*security_protocol",
        "ann",
        {"security_protocol": "SASL_PLAINTEXT"},
    ),
    "PLAINTEXT to SASL": Mistake(
        "SASL_PLAINTEXT", IllegalSaslState, AUTHENTICATE, options={"security_protocol": "PLAINTEXT"}
    ),
    "SSL to PLAINTEXT": Mistake("PLAINTEXT", TlsNotSpoken, NO_TLS, options={"security_protocol": "SSL"}),
    "SSL to SASL": Mistake("SASL_PLAINTEXT", TlsNotSpoken, NO_TLS, options={"security_protocol": "SSL"}),
    "SASL_SSL to SASL": Mistake(
        "SASL_PLAINTEXT", TlsNotSpoken, NO_TLS, "ann", {"security_protocol": "SASL_SSL"}
    ),
    "PLAINTEXT to SSL": Mistake(
        "SSL",
        TlsError,
        "speaks TLS on this port: set security_protocol",
        options={"security_protocol": "PLAINTEXT"},
    ),
    "SASL to SSL": Mistake(
        "SSL", TlsError, "speaks TLS on this port", "ann", {"security_protocol": "SASL_PLAINTEXT"}
    ),
}


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of an authority that no peer trusts here."""
    folder: Path = tmp_path_factory.mktemp("strangers")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("x").private_key_and_cert_chain_pem.write_to_path(folder / "client.pem")
    return {"ssl_cafile": str(folder / "ca.pem"), "ssl_certfile": str(folder / "client.pem")}


def options_of(mistake: Mistake, secured: Secured, strangers: dict[str, str], name: str) -> dict[str, Any]:
    options = secured.options(mistake.listener, mistake.user)
    if mistake.user is not None:
        options["sasl_password"] = SECRET
    options |= {key: strangers[key] if one == "OTHER" else one for key, one in mistake.options.items()}
    if options["security_protocol"] != "SSL":
        options.pop("ssl_certfile", None)
        options.pop("ssl_cafile", None)
    if name == "another name":
        # The same address, by which no certificate calls it.
        options["bootstrap_servers"] = options["bootstrap_servers"].replace("127.0.0.1", "127.1")
    options.pop(mistake.without, None)
    return options


@pytest.mark.parametrize("name", MISTAKES)
def test_misconfiguration_raises_its_error_at_once_with_advice(
    secured: Secured, strangers: dict[str, str], name: str
) -> None:
    mistake = MISTAKES[name]
    options = options_of(mistake, secured, strangers, name)
    began = time.monotonic()
    with (
        KafkaProducer(**options) as producer,
        pytest.raises(mistake.error, match=mistake.words) as refused,
    ):
        producer.send("behind-security", b"x")
    assert time.monotonic() - began < AT_ONCE
    assert type(refused.value) is mistake.error
    assert options["bootstrap_servers"] in str(refused.value)
    assert SECRET not in str(refused.value)


def test_expired_delegation_token_is_rejected_with_advice(secured: Secured) -> None:
    with KafkaAdminClient(**secured.options("SASL_PLAINTEXT", "ann")) as admin:
        token = created_token(admin)
        admin.expire_delegation_token(token.hmac)
        eventually(lambda: token.token_id not in {one.token_id for one in admin.describe_delegation_tokens()})
    options = secured.options("SASL_PLAINTEXT", "ann", sasl_delegation_token=True)
    options |= {"sasl_username": token.token_id, "sasl_password": token.password}
    with (
        KafkaProducer(**options) as producer,
        pytest.raises(SaslAuthenticationFailed, match="check that the delegation token has not expired"),
    ):
        producer.send("behind-security", b"x")
