"""Providers of OAUTHBEARER tokens that tests name by import path; workers of Spark import them, too."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.web_tokens import unsigned

CALLS = "PYKAFKA2_TEST_TOKEN_CALLS"
"""Environment variable: a folder in which each call leaves a file with the number of its process."""


def alice() -> str:
    """Return a token of an hour."""
    _note()
    return unsigned(sub="alice", exp=int(time.time()) + 3600)


def opaque() -> tuple[str, float]:
    _note()
    return "opaque", time.time() + 3600


def with_config(config: str) -> tuple[str, float]:
    """Return a token like confluent-kafka's callback."""
    _note()
    return config, time.time() + 3600


def noted(config: str) -> str:
    """Return the token in the config, and note the call in the folder in front of it."""
    folder, token = config.split(" ")
    _note(folder)
    return token


async def awaited() -> str:
    return "never"


class Provider:
    """An object with a method token()."""

    def token(self) -> str:
        return alice()


class Unhashable(Provider):
    """Like a dataclass with fields that can change."""

    __hash__ = None  # type: ignore[assignment]


provider = Provider()
unhashable = Unhashable()
NOT_CALLABLE = 7


def calls(folder: Path) -> list[int]:
    """Return the process of each call."""
    return [int(path.read_text()) for path in folder.iterdir()]


def _note(folder: str | None = None) -> None:
    folder = folder or os.environ.get(CALLS)
    if folder:
        Path(folder, f"{os.getpid()}-{time.monotonic_ns()}").write_text(str(os.getpid()))
