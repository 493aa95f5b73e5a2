"""Certificates' subjects as Java writes them, and ssl.principal.mapping.rules (examples of KIP-371)."""

from __future__ import annotations

import pytest

from pykafka2.broker.security.principal_mapping import PrincipalMapping, distinguished_name
from pykafka2.errors import ConfigurationError


def subject(**attributes: str) -> list[list[tuple[str, str]]]:
    return [[one] for one in attributes.items()]


DUKE = subject(
    countryName="US",
    stateOrProvinceName="CA",
    localityName="Unknown",
    organizationName="Unknown",
    organizationalUnitName="ServiceUsers",
    commonName="kafka-Duke",
)


def test_distinguished_name_starts_with_the_last_attribute() -> None:
    assert distinguished_name(DUKE) == "CN=kafka-Duke,OU=ServiceUsers,O=Unknown,L=Unknown,ST=CA,C=US"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a,b", "CN=a\\,b"),
        ('a+"b"', 'CN=a\\+\\"b\\"'),
        ("<a>;\\", "CN=\\<a\\>\\;\\\\"),
        ("#a", "CN=\\#a"),
        (" a ", "CN=\\ a\\ "),
        ("Zo\u00eb", "CN=Zo\u00eb"),
        ("a,OU=admins", "CN=a\\,OU=admins"),
    ],
)
def test_special_characters_in_a_distinguished_name_are_escaped(value: str, written: str) -> None:
    assert distinguished_name(subject(commonName=value)) == written


def test_attributes_without_a_short_name_are_written_as_oids() -> None:
    assert distinguished_name(subject(emailAddress="a@b")) == "1.2.840.113549.1.9.1=#1603614062"
    assert distinguished_name([[("commonName", "a"), ("userId", "b")]]) == "CN=a+UID=b"
    assert distinguished_name(subject(serialNumber="7")) == "2.5.4.5=#130137"
    assert distinguished_name(subject(givenName="Zo\u00eb")) == "2.5.4.42=#0c045a6fc3ab"
    assert distinguished_name([[("1.2.3.4", "a")]]) == "1.2.3.4=#0c0161"


@pytest.mark.parametrize(
    ("size", "length"), [(127, "7f"), (128, "8180"), (255, "81ff"), (256, "820100"), (65_536, "83010000")]
)
def test_long_value_has_its_length_in_der(size: int, length: str) -> None:
    assert distinguished_name([[("1.2.3.4", "a" * size)]]) == f"1.2.3.4=#0c{length}{'61' * size}"


RULES = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?), *OU=(.*?),.*$/$1@$2/U,DEFAULT"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", "CN=kafka-Duke,OU=ServiceUsers,O=Unknown,L=Unknown,ST=CA,C=US"),
        ("", "CN=kafka-Duke,OU=ServiceUsers,O=Unknown,L=Unknown,ST=CA,C=US"),
        (RULES, "kafka-Duke"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/L", "kafka-duke@serviceusers"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U , DEFAULT", "KAFKA-DUKE@SERVICEUSERS"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.-]*).*$/$1/L,DEFAULT", "kafka-duke"),
        ("RULE:CN=nobody/x/,RULE:^CN=kafka-(.*?),.*$/a\\b$1/", "a\\bDuke"),
        ("RULE:CN=nobody/x/", None),
    ],
)
def test_first_matching_rule_sets_the_principal(rules: str, expected: str | None) -> None:
    assert PrincipalMapping(rules).name_of(DUKE) == expected


@pytest.mark.parametrize(
    "rules", ["deny", "RULE:", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "RULE:a/$1/", "DEFAULT RULE:a/b/"]
)
def test_invalid_mapping_rule_is_rejected(rules: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
