"""Parses Java's credentials (`sasl.jaas.config`), a line of JAAS, into options.

Pure. No error message contains a value, since any of them can be a secret.
"""

from __future__ import annotations

import re
from typing import Any

_MODULES = {
    "PlainLoginModule": {"username": "sasl_username", "password": "sasl_password"},
    "ScramLoginModule": {
        "username": "sasl_username",
        "password": "sasl_password",
        "tokenauth": "sasl_delegation_token",
    },
    "OAuthBearerLoginModule": {
        "clientId": "sasl_oauthbearer_client_id",
        "clientSecret": "sasl_oauthbearer_client_secret",
        "scope": "sasl_oauthbearer_scope",
    },
}
_EXTENSION = "extension_"

_ENTRY = re.compile(r"\s*([\w.$]+)\s+(\w+)\s*((?:.|\n)*?)\s*;\s*")
_PAIR = re.compile(r"\s*([\w.]+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|([^\s;\"']+))")


FOR_MSK = "set sasl_mechanism='OAUTHBEARER' and a token provider that signs for MSK"
"""Instead of the classes for Java that Amazon MSK documents."""


class BadJaasConfig(ValueError):
    """The line is malformed, or names an unknown module or option."""


def parse_jaas_config(line: str) -> dict[str, Any]:
    """Return the options of a JAAS line, by field name.

    A line looks like `org.apache.kafka.common.security.plain.PlainLoginModule required username="…"
    password="…";`. Raise BadJaasConfig, which never contains a value.
    """
    entry = _ENTRY.fullmatch(line)
    if entry is None:
        raise BadJaasConfig('it has the form: module required name="value" ...;')
    module = entry[1].rpartition(".")[2]
    known = _MODULES.get(module)
    if module == "IAMLoginModule":
        raise BadJaasConfig(f"leave it out, and {FOR_MSK}")
    if known is None:
        raise BadJaasConfig(f"the module {module} is unknown; use one of {', '.join(_MODULES)}")
    found: dict[str, Any] = {}
    extensions: dict[str, str] = {}
    rest = entry[3]
    position = 0
    while position < len(rest):
        pair = _PAIR.match(rest, position)
        if pair is None:
            raise BadJaasConfig(f'after {len(found)} options of {module}, name="value" is expected')
        position = pair.end()
        name = pair[1]
        value = next(text for text in pair.groups()[1:] if text is not None)
        value = re.sub(r"\\(.)", r"\1", value)
        if name.startswith(_EXTENSION) and module == "OAuthBearerLoginModule":
            extensions[name.removeprefix(_EXTENSION)] = value
        elif name in known:
            found[known[name]] = value
        else:
            raise BadJaasConfig(f"{module} has no option {name}; it has {', '.join(known)}")
        if position < len(rest) and not rest[position].isspace():
            raise BadJaasConfig("options must be separated by blanks")
    if "sasl_delegation_token" in found:
        found["sasl_delegation_token"] = found["sasl_delegation_token"].lower() == "true"
    return found | ({"sasl_oauthbearer_extensions": extensions} if extensions else {})
