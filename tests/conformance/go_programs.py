"""Our own programs in Go, of the folders in `go`; built against modules that their go.sum pins."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "go"
BUILD_TIMEOUT = 600.0


def go_program(name: str, folder: Path) -> Path:
    """Build the program of this name into the folder."""
    program = folder / name
    command = ["go", "build", "-mod=readonly", "-o", str(program), "."]
    subprocess.run(command, cwd=SOURCES / name, check=True, timeout=BUILD_TIMEOUT)
    return program
