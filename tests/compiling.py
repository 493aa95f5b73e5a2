"""Tests are compiled once: what pytest makes of a file is kept, and the processes of a run share the work.

To rewrite the asserts of all files takes longer than to collect them, and each worker of pytest-xdist needs
them all.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def keep_bytecode() -> None:
    """Set whatever the environment has: also for the Pythons that tests start, each of which would compile
    the package again. PYTHONPYCACHEPREFIX sets the folder, if it is not beside the sources.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class SharedCompiling:
    """A pytest plugin of a worker: it imports its share of the files first.

    When it then collects all of them, the others have been compiled by the other workers.
    """

    def __init__(
        self, number: int, workers: int, ignored: Sequence[str], is_left_out: Callable[[Path], bool]
    ) -> None:
        self._number = number
        self._workers = workers
        self._ignored = ignored
        self._is_left_out = is_left_out

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        folders = [path for path in map(Path, session.config.args) if path.is_dir()]
        paths = sorted({path.resolve() for folder in folders for path in folder.rglob("test_*.py")})
        for path in paths[self._number :: self._workers]:
            parts = path.relative_to(ROOT).with_suffix("").parts
            if not set(parts) & set(self._ignored) and not self._is_left_out(path):
                _import(".".join(parts))


def _import(name: str) -> None:
    """Errors in a file are reported when it is collected, which compiles it again."""
    with (
        warnings.catch_warnings(action="error"),
        contextlib.suppress(Exception, pytest.skip.Exception),
    ):
        import_module(name)
