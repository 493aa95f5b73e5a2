"""Unsigned JSON web tokens, for tests of OAUTHBEARER."""

from __future__ import annotations

import base64
import json


def unsigned(signature: str = "", **claims: object) -> str:
    """A token with these claims and the algorithm `none`."""
    header, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    )
    return f"{header}.{body}.{signature}"
