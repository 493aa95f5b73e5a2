"""Selects the library of each codec: the first of its packages that can be imported.

Any thread. This is the only module that imports codec libraries, because lz4 and zstandard have no wheels on
some platforms. A library is imported at the first use of its codec.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, NamedTuple

from pykafka2 import lifecycle
from pykafka2.errors import CodecUnavailable


class Library(NamedTuple):
    """A package that implements a codec, and its imported module."""

    package: str
    module: Any


# By codec, the packages in order of preference, each with its module. Speeds are in docs/compatibility.md.
CANDIDATES: dict[str, dict[str, str]] = {
    "gzip": {"zlib": "zlib"},
    "snappy": {"python-snappy": "snappy", "cramjam": "cramjam"},
    "lz4": {"lz4": "lz4.frame", "cramjam": "cramjam"},
    "zstd": {
        "zstandard": "zstandard",
        "compression.zstd": "compression.zstd",
        "backports.zstd": "backports.zstd",
        "cramjam": "cramjam",
    },
}
if sys.hexversion < 0x030E0000:
    del CANDIDATES["zstd"]["compression.zstd"]

chosen: dict[str, Library] = {}
"""By codec, the library in use; a test can put another one here."""


def library(codec: str) -> Library:
    """Return the library of a codec, and import it at the first call.

    Raises:
        CodecUnavailable: none of its libraries can be imported.
    """
    found = chosen.get(codec)
    if found is None:
        with lifecycle.loading:
            found = chosen[codec] = _first(codec)
    return found


def _first(codec: str) -> Library:
    failures = []
    for package in CANDIDATES[codec]:
        try:
            return load(codec, package)
        except ImportError as error:
            failures.append(error)
    packages = " or ".join(CANDIDATES[codec])
    first = failures[0]
    raise CodecUnavailable(
        f"compression {codec} needs the package {packages}, and none can be imported: {first}"
    ) from first


def load(codec: str, package: str) -> Library:
    """Import one library of a codec; raise ImportError if that fails."""
    return Library(package, importlib.import_module(CANDIDATES[codec][package]))


def packages_in_use() -> dict[str, str | None]:
    """Import all libraries; return the package of each codec, or None if the codec is unavailable."""
    return {codec: _package(codec) for codec in CANDIDATES}


def _package(codec: str) -> str | None:
    try:
        return library(codec).package
    except CodecUnavailable:
        return None
