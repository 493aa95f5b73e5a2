"""Clocks, threads, sockets and randomness live in a few modules, and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.architecture.modules import source_files

# What is banned, and the modules that may use it all the same.
ALLOWED_MODULES: dict[str, frozenset[str]] = {
    "time": frozenset({"pykafka2.clock"}),
    "threading.Thread": frozenset({"pykafka2.driver.thread_driver", "pykafka2.broker.server.threads"}),
    "socket": frozenset(
        {
            "pykafka2.network.tcp",
            "pykafka2.network.tls",
            "pykafka2.network.resolver",
            "pykafka2.network.selector",
            "pykafka2.testing.remote.http_client",
        }
    ),
    "selectors": frozenset({"pykafka2.network.selector"}),
    "random": frozenset({"pykafka2.clock"}),
}
# `random.Random(seed)` is seeded, and as a type it is how entropy is handed in.
ALLOWED_ATTRIBUTES = frozenset({"random.Random"})
# The command line and the benchmarks measure real time; the simulation's batons are real threads, and its
# watchdog looks at real time on purpose.
EXEMPT_PREFIXES = ("pykafka2.cli.", "pykafka2.testing.simulation.")


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return f"{base}.{node.attr}" if base else None
    return None


def violations(name: str, source: str) -> list[str]:
    tree = ast.parse(source)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    found = []
    for node in ast.walk(tree):
        used: list[str] = []
        if isinstance(node, ast.Attribute):
            dotted = _dotted(node)
            if dotted and dotted.split(".")[0] in imported:
                used = [dotted]
        elif isinstance(node, ast.ImportFrom) and node.module:
            used = [f"{node.module}.{alias.name}" for alias in node.names]
        for what in used:
            for banned, allowed in ALLOWED_MODULES.items():
                is_banned = what == banned or what.startswith(banned + ".")
                if is_banned and what not in ALLOWED_ATTRIBUTES and name not in allowed:
                    found.append(f"{name}:{node.lineno} uses {what}")
    return found


@pytest.mark.parametrize("name", [n for n in source_files() if not n.startswith(EXEMPT_PREFIXES)])
def test_only_the_allowed_modules_use_what_is_restricted(name: str) -> None:
    path: Path = source_files()[name]
    assert violations(name, path.read_text()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "import time\ntime.monotonic()",
        "from time import sleep",
        "import threading\nthreading.Thread()",
        "import socket\nsocket.socket()",
        "import random\nrandom.random()",
        "import selectors\nselectors.DefaultSelector()",
    ],
)
def test_the_lint_sees_a_planted_violation(planted: str) -> None:
    assert violations("pykafka2.producer.sender", planted)


def test_the_lint_lets_seeded_randomness_pass() -> None:
    assert violations("pykafka2.backoff", "import random\nx = random.Random(7)") == []
