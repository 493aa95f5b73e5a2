"""Principals of clients with a certificate: the subject as text, and the rules that map it.

The rules are those of ssl.principal.mapping.rules (KIP-371). The subject is written like Java's
X500Principal.getName() (RFC 2253): the last attribute first, "CN=alice,OU=tests,O=example". Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import attrs

from pykafka2.errors import ConfigurationError

Subject = Iterable[Iterable[tuple[str, str]]]
"""The format of `ssl.SSLSocket.getpeercert()["subject"]`: sets of attributes, in the certificate's order."""

_SHORT_NAMES = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
# Attributes without a name in RFC 2253 are written by number, with the value as DER in hexadecimal. `ssl`
# does not expose the string type of an attribute: these are the usual ones.
_IA5_STRING, _PRINTABLE_STRING, _UTF8_STRING = 0x16, 0x13, 0x0C
_NUMBERS = {
    "businessCategory": ("2.5.4.15", _UTF8_STRING),
    "description": ("2.5.4.13", _UTF8_STRING),
    "dnQualifier": ("2.5.4.46", _PRINTABLE_STRING),
    "emailAddress": ("1.2.840.113549.1.9.1", _IA5_STRING),
    "generationQualifier": ("2.5.4.44", _UTF8_STRING),
    "givenName": ("2.5.4.42", _UTF8_STRING),
    "initials": ("2.5.4.43", _UTF8_STRING),
    "jurisdictionCountryName": ("1.3.6.1.4.1.311.60.2.1.3", _PRINTABLE_STRING),
    "jurisdictionLocalityName": ("1.3.6.1.4.1.311.60.2.1.1", _UTF8_STRING),
    "jurisdictionStateOrProvinceName": ("1.3.6.1.4.1.311.60.2.1.2", _UTF8_STRING),
    "name": ("2.5.4.41", _UTF8_STRING),
    "organizationIdentifier": ("2.5.4.97", _UTF8_STRING),
    "postalCode": ("2.5.4.17", _UTF8_STRING),
    "pseudonym": ("2.5.4.65", _UTF8_STRING),
    "serialNumber": ("2.5.4.5", _PRINTABLE_STRING),
    "surname": ("2.5.4.4", _UTF8_STRING),
    "title": ("2.5.4.12", _UTF8_STRING),
}


def distinguished_name(subject: Subject) -> str:
    """Return the subject of a certificate as one string."""
    sets = ["+".join(_attribute(name, value) for name, value in group) for group in subject]
    return ",".join(reversed(sets))


def _attribute(name: str, value: str) -> str:
    short = _SHORT_NAMES.get(name)
    if short is not None:
        return f"{short}={_escaped(value)}"
    number, tag = _NUMBERS.get(name, (name, _UTF8_STRING))
    data = value.encode()
    return f"{number}=#{(bytes([tag]) + _der_length(len(data)) + data).hex()}"


def _der_length(size: int) -> bytes:
    if size < 0x80:
        return bytes([size])
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(digits)]) + digits


def _escaped(value: str) -> str:
    text = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(text) > 1 else text


@attrs.define(frozen=True)
class Rule:
    """One rule, RULE:pattern/replacement/, with L or U for lower or upper case."""

    pattern: re.Pattern[str]
    replacement: str
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the principal's name, or None if the rule does not match."""
        if not self.pattern.fullmatch(name):
            return None
        result = self.pattern.sub(self.replacement, name, count=1)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result


_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_REFERENCE = re.compile(r"\$(\d)")


class PrincipalMapping:
    """Maps the subject of a certificate to the principal's name by the first matching rule."""

    def __init__(self, text: str = "DEFAULT") -> None:
        self._rules: list[Rule | None] = []
        at = 0
        while at < len(text):
            found = _RULE.match(text, at)
            if found is None:
                raise ConfigurationError(
                    f"ssl.principal.mapping.rules={text!r} is invalid from {text[at:]!r} on; a rule is "
                    "DEFAULT or RULE:pattern/replacement/, followed by L or U for lower or upper case"
                )
            self._rules.append(None if found[1] else _rule(found[2], found[3], found[4]))
            at = found.end()

    def name_of(self, subject: Subject) -> str | None:
        """Return the principal's name, or None if no rule matches; the connection is then refused."""
        name = distinguished_name(subject)
        for rule in self._rules or [None]:
            mapped = name if rule is None else rule.apply(name)
            if mapped is not None:
                return mapped
        return None


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    try:
        compiled = re.compile(pattern)
        template = _REFERENCE.sub(r"\\g<\1>", replacement.replace("\\", "\\\\"))
        rule = Rule(compiled, template, case)
        _check_references(compiled, _REFERENCE.findall(replacement))
    except re.error as error:
        raise ConfigurationError(
            f"ssl.principal.mapping.rules: invalid pattern {pattern!r}: {error}"
        ) from None
    return rule


def _check_references(pattern: re.Pattern[str], numbers: Sequence[str]) -> None:
    for number in numbers:
        if int(number) > pattern.groups:
            raise ConfigurationError(
                f"ssl.principal.mapping.rules: ${number} in the replacement, but {pattern.pattern!r} has "
                f"{pattern.groups} groups"
            )
