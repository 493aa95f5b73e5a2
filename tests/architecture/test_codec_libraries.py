"""Codec libraries that can be missing are imported by one module, and named by the project's extras."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from pykafka2.compression import libraries
from tests.architecture.modules import source_files

ROOT = Path(__file__).parents[2]
MODULES = frozenset({"lz4", "zstandard", "cramjam", "snappy", "backports", "compression"})
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


IMPORTS = re.compile(rf"^\s*(?:import|from)\s.*\b(?:{'|'.join(MODULES)})\b", re.MULTILINE)
"""Without a line like this, a file need not be parsed."""


def imports(source: str) -> set[str]:
    """Return the top-level names of the codec libraries that this source imports."""
    found: set[str] = set()
    if IMPORTS.search(source) is None:
        return found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found & MODULES


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9._-]", one)[0] for one in requirements}


def test_the_check_finds_an_import() -> None:
    assert imports("def f():\n    import lz4.frame\n    from zstandard import x") == {"lz4", "zstandard"}


@pytest.mark.gate
def test_no_module_imports_a_codec_library_by_name() -> None:
    """Such an import fails where the library has no wheel; libraries.py chooses one that is there."""
    found = {name: imports(path.read_text()) for name, path in source_files().items()}
    assert {name: imported for name, imported in found.items() if imported} == {}


def test_every_codec_has_a_library_among_the_required_packages() -> None:
    required = names(PROJECT["dependencies"]) | {"zlib"}
    assert not required & {"lz4", "zstandard"}  # these need a C compiler on some platforms
    for codec, packages in libraries.CANDIDATES.items():
        assert required & {*packages}, codec


@pytest.mark.parametrize("extra", ["lz4", "fast", "test", "bench", "spark-local", "spark-test"])
def test_extras_install_the_preferred_lz4_library(extra: str) -> None:
    assert "lz4" in names(PROJECT["optional-dependencies"][extra])


@pytest.mark.parametrize("extra", ["fast", "test", "bench"])
def test_extras_install_the_preferred_zstd_library(extra: str) -> None:
    assert "zstandard" in names(PROJECT["optional-dependencies"][extra])


def test_required_packages_are_those_with_wheels_everywhere() -> None:
    """`nox -s wheels` checks each for wheels; another one, or a marker, can bring a compiler back."""
    required = {one.partition(";")[0].partition(">=")[0]: one for one in PROJECT["dependencies"]}
    assert set(required) == {"attrs", "backports.zstd", "cramjam", "crc32c", "python-snappy", "tqdm"}
    assert [one.partition(";")[2].strip() for one in required.values() if ";" in one] == [
        "python_version < '3.14'"  # the standard library has zstd from then on
    ]
    assert ";" in required["backports.zstd"]
