"""Runs benchmarks one after the other: `python -m benchmarks.every [--figures FILE] NAME ...`.

The output of each is printed and written to the file. A benchmark that fails or misses a target does not stop
the others; their names are printed at the end, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path


def run(modules: Iterable[str], figures: Path) -> list[str]:
    """Run these modules; return those with an exit status other than 0, each with its status."""
    failed = []
    with figures.open("w", buffering=1, encoding="utf-8") as kept:
        for module in modules:
            status = _run_one(module, lambda line: _tell(line, kept.write))
            if status:
                failed.append(f"{module} ({status})")
        if failed:
            _tell(f"failed or missed a target: {', '.join(failed)}\n", kept.write)
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
        prog="python -m benchmarks.every",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="module in benchmarks, such as cluster")
    parser.add_argument(
        "--figures",
        type=Path,
        default=Path("figures.log"),
        metavar="FILE",
        help="write the output to this file (default figures.log)",
    )
    arguments = parser.parse_args()
    return 1 if run([f"benchmarks.{name}" for name in arguments.names], arguments.figures) else 0


if __name__ == "__main__":
    sys.exit(main())
