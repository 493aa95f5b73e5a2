"""Importing pykafka2 is cheap: what is heavy loads at first use.

The times are rows of `benchmarks/imports.py` (10 ms and 120 ms beyond bare Python); a test asserts ten times
as much, because machines differ.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = [
    "numpy",
    "pyarrow",
    "ssl",
    "asyncio",
    "zstandard",
    "importlib.metadata",
    "lz4",
    "snappy",
    "crc32c",
    "tqdm",
]
CLIENTS = "from pykafka2 import KafkaProducer, KafkaConsumer"


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("statement", ["import pykafka2", CLIENTS])
def test_import_loads_no_heavy_module(statement: str) -> None:
    # A site-packages .pth file may load importlib.* by itself, so what bare Python has does not count.
    new = f"(set(sys.modules) - before) & {set(HEAVY)!r}"
    code = f"import sys; before = set(sys.modules); {statement}; print(sorted({new}))"
    assert _python(code) == "[]"


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(("statement", "limit"), [("import pykafka2", 0.010), (CLIENTS, 0.120)])
def test_the_import_is_quick(statement: str, limit: float) -> None:
    # Processor time, as other processes may have the cores.
    code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
    assert min(float(_python(code)) for _ in range(3)) < 10 * limit
