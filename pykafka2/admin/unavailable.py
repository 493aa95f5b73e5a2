"""Raises the error of declared calls that are not implemented yet."""

from __future__ import annotations

from typing import NoReturn

from pykafka2.errors import NotYetAvailable


def not_yet(what: str) -> NoReturn:
    raise NotYetAvailable(f"{what} is not implemented yet in this version of pykafka2")
