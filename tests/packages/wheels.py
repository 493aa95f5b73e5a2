"""Checks that no required package needs a compiler: `python -m tests.packages.wheels` (`nox -s wheels`).

For each Python and platform, uv resolves the requirements with that platform's markers; then pip must find a
wheel of each resolved version.  Both are needed: pip evaluates markers for the Python that runs it, and uv
cannot resolve for a free-threaded build.  Nothing is installed.

The exit code is 0 if every required package has a wheel on every target, otherwise 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

ROOT = Path(__file__).parents[2]

PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.14t")
"""`t` means a free-threaded build."""

GLIBC = (28, 27, 24, 17, 12, 5)
"""Minor versions of glibc 2 whose wheels run on a system with 2.28; pip tries only the tags it gets."""

EXTRAS = ("cli", "spark")
"""Extras that also need no compiler, except on musl and on free-threaded builds."""


@attrs.frozen
class Platform:
    """A platform: its name in the table, its name for uv, and its wheel tags for pip."""

    name: str
    uv: str
    tags: tuple[str, ...]


def _linux(machine: str) -> tuple[Platform, Platform]:
    manylinux = tuple(f"manylinux_2_{minor}_{machine}" for minor in GLIBC)
    older = tuple(f"{tag}_{machine}" for tag in ("manylinux2014", "manylinux2010", "manylinux1"))
    musllinux = (f"musllinux_1_2_{machine}", f"musllinux_1_1_{machine}")
    return (
        Platform(f"manylinux {machine}", f"{machine}-manylinux_2_28", (*manylinux, *older)),
        Platform(f"musllinux {machine}", f"{machine}-unknown-linux-musl", musllinux),
    )


PLATFORMS = (
    *_linux("x86_64"),
    *_linux("aarch64"),
    Platform("macOS arm64", "aarch64-apple-darwin", ("macosx_14_0_arm64",)),
    Platform("macOS x86_64", "x86_64-apple-darwin", ("macosx_14_0_x86_64",)),
    Platform("Windows x86_64", "x86_64-pc-windows-msvc", ("win_amd64",)),
)


@attrs.frozen
class Outcome:
    """The result for one Python and platform: the resolved versions, and those without a wheel."""

    python: str
    platform: str
    pins: tuple[str, ...] = ()
    without_wheel: tuple[str, ...] = ()
    error: str = ""
    """The reason if the requirements could not be resolved."""

    @property
    def is_good(self) -> bool:
        return not self.without_wheel and not self.error

    def __str__(self) -> str:
        if self.error:
            return "not resolved"
        if self.without_wheel:
            return "no wheel: " + ", ".join(self.without_wheel)
        return f"{len(self.pins)} wheels"


@attrs.frozen
class Check:
    """Resolves requirements for a Python and a platform, and finds their wheels."""

    requirements: tuple[str, ...]
    sources: tuple[str, ...] = ()
    """Options for uv and pip that replace PyPI, such as `--no-index`."""

    def run(self, python: str, platform: Platform) -> Outcome:
        """Return the result for one Python and platform."""
        resolved = self._resolve(python, platform)
        if resolved.returncode:
            return Outcome(python, platform.name, error=resolved.stderr.strip())
        pins = tuple(resolved.stdout.split())
        with TemporaryDirectory() as folder:
            if not self._download(python, platform, pins, folder):
                return Outcome(python, platform.name, pins)
            # Find all that lack a wheel: pip stops at the first.
            lacking = tuple(pin for pin in pins if self._download(python, platform, [pin], folder))
        return Outcome(python, platform.name, pins, lacking)

    def has_only_wheels(self, python: str, platform: Platform) -> Outcome:
        """Resolve with wheels only and download nothing, for packages of many megabytes."""
        resolved = self._resolve(python, platform, "--only-binary", ":all:")
        if resolved.returncode:
            return Outcome(python, platform.name, error=resolved.stderr.strip())
        return Outcome(python, platform.name, tuple(resolved.stdout.split()))

    def _resolve(self, python: str, platform: Platform, *options: str) -> subprocess.CompletedProcess[str]:
        version = ("--python-version", python.removesuffix("t"), "--python-platform", platform.uv)
        # Builds packages without a wheel with this Python; otherwise uv searches one of the target's version.
        with_this = ("--python", sys.executable, "--no-python-downloads")
        plain = ("--quiet", "--no-config", "--no-header", "--no-annotate", *with_this)
        return subprocess.run(
            [sys.executable, "-m", "uv", "pip", "compile", *plain, *version, *self.sources, *options, "-"],
            input="\n".join(self.requirements),
            capture_output=True,
            text=True,
        )

    def _download(self, python: str, platform: Platform, pins: Sequence[str], folder: str) -> int:
        version = python.removesuffix("t")
        target = ["--implementation", "cp", "--python-version", version]
        target += ["--abi", f"cp{python.replace('.', '')}"]
        for tag in platform.tags:
            target += ["--platform", tag]
        plain = ("--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:")
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            *plain,
            *target,
            *self.sources,
            "-d",
            folder,
            *pins,
        ]
        return subprocess.run(command, capture_output=True).returncode


def project_requirements(extra: str | None = None) -> tuple[str, ...]:
    """Return the project's required packages, and those of an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    of_extra = project["optional-dependencies"][extra] if extra else []
    return (*project["dependencies"], *of_extra)


def table(outcomes: Iterable[Outcome]) -> str:
    """Return a row for each platform and a column for each Python."""
    cells: dict[str, dict[str, str]] = {}
    for outcome in outcomes:
        cells.setdefault(outcome.platform, {})[outcome.python] = str(outcome)
    pythons = list(dict.fromkeys(python for row in cells.values() for python in row))
    lines = [["", *pythons], ["---"] * (len(pythons) + 1)]
    lines += [[platform, *(row.get(python, "") for python in pythons)] for platform, row in cells.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(words: Sequence[str] | None = None) -> int:
    """Check the targets and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages.wheels", description=__doc__)
    parser.add_argument(
        "--python", action="append", choices=PYTHONS, help="only this Python; can be repeated"
    )
    parser.add_argument(
        "--platform",
        action="append",
        metavar="PART",
        help="only platforms whose name contains PART; can be repeated",
    )
    chosen = parser.parse_args(words)
    pythons = chosen.python or PYTHONS
    platforms = [one for one in PLATFORMS if any(part in one.name for part in chosen.platform or [""])]
    check = Check(project_requirements())
    with ThreadPoolExecutor(2) as pool:
        targets = [(python, platform) for platform in platforms for python in pythons]
        outcomes = list(pool.map(lambda target: check.run(*target), targets))
    print("Required: " + ", ".join(check.requirements))
    print(table(outcomes))
    for extra in EXTRAS:
        check = Check(project_requirements(extra))
        of_extra = [
            check.has_only_wheels(python, platform)
            for python, platform in targets
            if not python.endswith("t") and "musl" not in platform.name
        ]
        print(f"\nWith the extra {extra}, resolved only:")
        print(table(of_extra))
        outcomes += of_extra
    bad = [outcome for outcome in outcomes if not outcome.is_good]
    for outcome in bad:
        print(f"{outcome.python} on {outcome.platform}: {outcome}", outcome.error, file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
