"""Clocks, threads, sockets and randomness live in a few modules, and nowhere else."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.modules import source_files

# What is banned, and the modules that may use it all the same.
ALLOWED_MODULES: dict[str, frozenset[str]] = {
    "time": frozenset({"pykafka2.clock", "spark_connector.clock"}),
    "threading.Thread": frozenset(
        {
            "pykafka2.contrib.kombu.readers",  # kombu waits for a file descriptor, consumers poll
            "pykafka2.driver.read_ahead",
            "pykafka2.driver.thread_driver",
        }
    ),
    "threading.Timer": frozenset(),
    "concurrent.futures": frozenset(),
    "socket": frozenset(
        {
            "pykafka2.network.selector",  # the wake-up of systems without eventfd
            "pykafka2.network.tcp",
            "pykafka2.network.resolver",
            "pykafka2.testing.remote.http_client",
        }
    ),
    "selectors": frozenset({"pykafka2.network.selector"}),
    "random": frozenset({"pykafka2.clock"}),
    "pykafka2_c": frozenset({"pykafka2.native"}),
}
# `random.Random(seed)` is seeded, and as a type it is how entropy is passed in. Error classes do nothing.
ALLOWED_ATTRIBUTES = frozenset({"random.Random", "socket.EAI_AGAIN", "socket.gaierror"})
# The command line and the benchmarks measure real time. The simulation's batons are real threads, and its
# watchdog reads the real clock on purpose.
EXEMPT_PREFIXES = ("pykafka2.cli.", "pykafka2.testing.simulation.")


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else None
    return None


IMPORTS = re.compile(
    rf"^\s*(?:import|from)\b.*\b(?:{'|'.join({name.partition('.')[0] for name in ALLOWED_MODULES})})\b",
    re.MULTILINE,
)
"""Without a line like this nothing restricted is used, and most files need not be parsed."""


def violations(name: str, source: str) -> list[str]:
    if IMPORTS.search(source) is None:
        return []
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name.partition(".")[0]: alias.name
        if alias.asname
        else alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    found = []
    for node in ast.walk(tree):
        used: list[str] = []
        if isinstance(node, ast.Attribute):
            dotted = _dotted(node)
            first, _, rest = (dotted or "").partition(".")
            if first in imported:
                used = [f"{imported[first]}.{rest}"]
        elif isinstance(node, ast.ImportFrom) and node.module:
            used = [f"{node.module}.{alias.name}" for alias in node.names]
        for what in used:
            for banned, allowed in ALLOWED_MODULES.items():
                is_banned = what == banned or what.startswith(banned + ".")
                if is_banned and what not in ALLOWED_ATTRIBUTES and name not in allowed:
                    found.append(f"{name}:{node.lineno} uses {what}")
    return found


def test_only_allowed_modules_use_restricted_ones() -> None:
    found = [
        one
        for name, path in source_files().items()
        if not name.startswith(EXEMPT_PREFIXES)
        for one in violations(name, path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "import time\ntime.monotonic()",
        "from time import sleep",
        "import threading\nthreading.Thread()",
        "import socket\nsocket.socket()",
        "import random\nrandom.random()",
        "import selectors\nselectors.DefaultSelector()",
        "import time as t\nt.monotonic()",
        "import threading as _threading\n_threading.Thread()",
        "import threading\nthreading.Timer(1, print)",
        "from concurrent.futures import ThreadPoolExecutor",
        "import os, time\ntime.monotonic()",
        "def late():\n    from time import (\n        sleep,\n    )",
    ],
)
def test_the_lint_sees_a_planted_violation(planted: str) -> None:
    assert violations("pykafka2.producer.sending.sender", planted)


def test_every_allowed_module_uses_its_restricted_one() -> None:
    """A module that has gone, or does without by now, is taken off the list."""
    files = source_files()
    idle = {
        (name, banned)
        for banned, names in ALLOWED_MODULES.items()
        for name in names
        if name not in files
        or not any(f" uses {banned}" in one for one in violations("nobody", files[name].read_text()))
    }
    assert idle == set()


def test_the_lint_lets_seeded_randomness_pass() -> None:
    assert violations("pykafka2.backoff", "import random\nx = random.Random(7)") == []
