"""How a signature that is promised but not yet filled answers: by name, and at once."""

from __future__ import annotations

from typing import NoReturn

from pykafka2.errors import NotYetAvailable


def not_yet(what: str) -> NoReturn:
    raise NotYetAvailable(f"{what} is not implemented yet in this version of pykafka2")
