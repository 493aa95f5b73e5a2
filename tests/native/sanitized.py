"""Tests, compares and counts with an extension that checks memory and arithmetic (ASan, UBSan).

    python -m tests.native.sanitized --batches 3000 --records 20000

Builds the extension in a temporary folder with gcc. An access outside of an object, a use after it was freed
or an undefined operation ends a process with a report; then the exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCE = Path(__file__).parents[2] / "native" / "pykafka2_c.c"
CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")


def build(folder: Path) -> None:
    """Build the extension."""
    include = f"-I{sysconfig.get_path('include')}"
    target = str(folder / "pykafka2_c.abi3.so")
    warnings = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-missing-field-initializers")
    command = ["gcc", "-g", "-O1", "-shared", "-fPIC", *CHECKS, *warnings, include, str(SOURCE), "-o", target]
    subprocess.run(command, check=True)


def library(name: str) -> str:
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.native.sanitized", description=__doc__)
    parser.add_argument("--batches", type=int, default=3000)
    parser.add_argument("--records", type=int, default=20_000)
    options = parser.parse_args(words)
    with TemporaryDirectory() as folder:
        build(Path(folder))
        environment = {
            **os.environ,
            "PYTHONPATH": folder,
            "PYTHONMALLOC": "malloc",  # so that each object is an allocation of its own
            "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "PYKAFKA2_IMPLEMENTATION": "python",
        }
        here = (
            "import pykafka2_c, sys; assert pykafka2_c.__file__.startswith(sys.argv[1]), pykafka2_c.__file__"
        )
        for command in (
            ["-c", here, folder],
            [
                "-m",
                "pytest",
                "-q",
                "-n",
                "0",
                "-m",
                "",
                str(SOURCE.parents[1] / "tests/native/test_bounds.py"),
            ],
            ["-m", "tests.native.differential", "--batches", str(options.batches), "--seed", "7"],
            ["-m", "tests.native.counts", "--records", str(options.records)],
        ):
            if subprocess.run([sys.executable, *command], env=environment).returncode:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
