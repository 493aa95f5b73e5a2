"""The checksum of record batches: which modules it loads, and from where."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import PathFinder

import pytest

from pykafka2.records import batch

CHECK_VALUE = 0xE3069283
"""The CRC-32C of the digits 1 to 9."""

LOADS = """
import sys
from pykafka2.records.batch import crc32c
assert crc32c(b"123456789") == 0xE3069283
print(sorted({"argparse", "crc32c", "email", "importlib.metadata"} & set(sys.modules)))
import crc32c as package
assert package.crc32c(b"123456789") == 0xE3069283
assert package.crc32c is crc32c.__globals__["_checksum"]
"""


@pytest.mark.gate
def test_first_checksum_loads_only_the_extension_and_leaves_the_package_importable() -> None:
    done = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


def test_checksum_is_that_of_the_package_if_no_path_has_the_extension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A frozen application, whose modules are not files on the path."""
    import crc32c  # stays loaded for other tests

    monkeypatch.delitem(sys.modules, "crc32c._crc32c")
    monkeypatch.setattr(batch, "_checksum", None)
    monkeypatch.setattr(PathFinder, "find_spec", lambda *_: None)
    assert batch.crc32c(b"123456789") == CHECK_VALUE
    assert batch._checksum is crc32c.crc32c
