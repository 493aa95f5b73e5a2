"""Benchmarks one after the other: `python -m benchmarks.every [--figures FILE] NAME ...`.

What each prints is shown and written to the file.  One that misses a target, or breaks, does not keep the
others from running: all of them are named at the end, and make the exit status 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path


def run(modules: Iterable[str], figures: Path) -> list[str]:
    """Run these modules; the names of those that ended with a status other than 0, each with it."""
    failed = []
    with figures.open("w", buffering=1, encoding="utf-8") as kept:
        for module in modules:
            status = _run_one(module, lambda line: _tell(line, kept.write))
            if status:
                failed.append(f"{module} ({status})")
        if failed:
            _tell(f"missed a target or broke: {', '.join(failed)}\n", kept.write)
    return failed


def _run_one(module: str, tell: Callable[[str], object]) -> int:
    tell(f"--- python -m {module}\n")
    command = [sys.executable, "-m", module]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            tell(line)
    return running.returncode


def _tell(line: str, keep: Callable[[str], object]) -> None:
    print(line, end="", flush=True)
    keep(line)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as cluster, for benchmarks.cluster")
    parser.add_argument("--figures", type=Path, default=Path("figures.log"), help="default: figures.log")
    arguments = parser.parse_args()
    return 1 if run([f"benchmarks.{name}" for name in arguments.names], arguments.figures) else 0


if __name__ == "__main__":
    sys.exit(main())
