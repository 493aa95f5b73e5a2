"""Java's line of credentials, read into options."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.jaas import BadJaasConfig, parse_jaas_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (
            f'{PLAIN} required username="ann" password="a b=\\"c\\";";',
            {"sasl_username": "ann", "sasl_password": 'a b="c";'},
        ),
        (
            f"{PLAIN} required\n  username='ann'\n  password=plain ;\n",
            {"sasl_username": "ann", "sasl_password": "plain"},
        ),
        ("kafkashaded." + PLAIN + " required;", {}),
        (
            f'{SCRAM} required username="id" password="hmac" tokenauth="true";',
            {"sasl_username": "id", "sasl_password": "hmac", "sasl_delegation_token": True},
        ),
        (
            f'{OAUTH} required clientId="c" clientSecret="s" scope="a b" '
            'extension_logicalCluster="l" extension_p="q";',
            {
                "sasl_oauthbearer_client_id": "c",
                "sasl_oauthbearer_client_secret": "s",
                "sasl_oauthbearer_scope": "a b",
                "sasl_oauthbearer_extensions": {"logicalCluster": "l", "p": "q"},
            },
        ),
    ],
)
def test_a_line_stands_for_options(line: str, options: dict[str, Any]) -> None:
    assert parse_jaas_config(line) == options


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "it has the form"),
        (f'{PLAIN} required username="ann" password="hush"', "it has the form"),
        (
            'com.sun.security.auth.module.Krb5LoginModule required keyTab="hush";',
            "the module Krb5LoginModule",
        ),
        (f'{PLAIN} required user="hush";', "PlainLoginModule has no option user; it has username, password"),
        (f'{PLAIN} required username="ann"password="hush";', "options must be separated by blanks"),
        (f'{PLAIN} required username="ann" hush;', "after 1 options of PlainLoginModule"),
        (f'{PLAIN} required username="hush;', "after 0 options of PlainLoginModule"),
    ],
)
def test_unreadable_jaas_config_raises_without_its_values(line: str, words: str) -> None:
    with pytest.raises(BadJaasConfig, match=words) as refused:
        parse_jaas_config(line)
    assert "hush" not in str(refused.value)
