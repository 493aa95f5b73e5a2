"""The compiled twin of the code that runs for each record, if the package pykafka2-c is installed and fits.

The only module that imports the extension, which is picked once, at import. `PYKAFKA2_IMPLEMENTATION=python`
disables it; with `PYKAFKA2_IMPLEMENTATION=c` its absence is an ImportError. An extension that cannot be used
(another version, a broken file) is ignored with one warning.

The functions handle the usual case. For any other they return None or stop early, and the Python code
continues and raises its own errors, so both implementations have the same results and errors.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from pykafka2.types import ConsumerRecord, Headers

VARIABLE: Final = "PYKAFKA2_IMPLEMENTATION"
INTERFACE: Final = 1
"""The number of the functions' meaning; an extension with another one is not used."""

RECORD, DELIVERY, BATCH, ROUTE, QUEUE = range(5)
"""The classes whose slots the extension uses, for `bind`."""


class Compiled(Protocol):
    """The functions of the extension."""

    INTERFACE: int

    def bind(self, kind: int, cls: type, /) -> None:
        """Find the places of the slots in instances of a class. Raise TypeError if a slot is missing."""

    def murmur2(self, key: bytes, /) -> int:
        """Return the hash that Java takes modulo the number of partitions."""

    def decode_records(
        self,
        buffer: bytes,
        topic: str,
        partition: int,
        timestamp_type: int,
        leader_epoch: int,
        index: int,
        stop: int,
        position: int,
        base_offset: int,
        previous: int,
        last_offset: int,
        base_timestamp: int,
        has_create_time: bool,
        has_gaps: bool,
        first_offset: int,
        /,
    ) -> tuple[list[ConsumerRecord], int, int, int]:
        """Decode the records from `index` up to `stop`, and return those from first_offset on.

        Also return the index, the position and the previous offset for the next call. The index is less than
        `stop` if the Python code must decode the record there.
        """

    def decode_rows(
        self,
        buffer: bytes,
        offsets: list[int],
        timestamps: list[int],
        keys: list[bytes | None],
        values: list[bytes | None],
        headers: dict[int, Headers],
        index: int,
        stop: int,
        position: int,
        base_offset: int,
        previous: int,
        last_offset: int,
        base_timestamp: int,
        has_create_time: bool,
        has_gaps: bool,
        /,
    ) -> tuple[int, int, int, int, bool]:
        """Add records to lists, and the headers of those with some to a dict, as `decoder.decode_rows` does.

        Return the next index, where the last record begins and ends, its offset, and whether it has no
        headers.
        """

    def append_unlocked(self, batch: Any, row: Any, size_bytes: int, /) -> Any:
        """Append like `open_batch.append_unlocked`."""

    def swap_room(self, batch: Any, room_bytes: int, /) -> int:
        """Set `room_bytes` and return its former value; no append comes between."""

    def shortcut(
        self,
        open_batches: dict[str, Any],
        routes: dict[str, Any],
        metadata: object,
        wall_ns: Callable[[], int],
        keys_decide: bool,
        note_time: Callable[[Any, int], bool],
        no_headers: bytes,
        smallest_bytes: int,
        /,
    ) -> Callable[[str, Any, Any, Any], Any]:
        """Return a function of topic, value, key and on_delivery that appends a record to an open batch.

        It returns the Delivery, or None if nothing was appended. keys_decide: records with a key go to the
        partition of its murmur2 hash; otherwise the function refuses them.
        """

    def encode(self, fields: list[Any], /) -> tuple[bytes, int] | None:
        """Return the encoded rows of a batch and the latest timestamp."""


class _Probe:
    __slots__ = ("tail",)


def _load(wanted: str) -> Compiled | None:
    """Return the extension, or None. Raise ImportError if it is required and cannot be used."""
    if wanted not in ("", "c", "python"):
        raise ImportError(f"the environment variable {VARIABLE} is {wanted!r}; set it to python or c")
    if wanted == "python":
        return None
    reason = "it needs CPython"
    if sys.implementation.name == "cpython":
        try:
            import pykafka2_c  # type: ignore[import-not-found, unused-ignore]

            if pykafka2_c.INTERFACE == INTERFACE:
                pykafka2_c.bind(QUEUE, _Probe)
                return cast(Compiled, pykafka2_c)
            reason = "its version does not fit this pykafka2"
        except ModuleNotFoundError as error:
            is_absent = error.name == "pykafka2_c"
            if is_absent and not wanted:
                return None
            reason = "it is not installed" if is_absent else str(error)
        except Exception as error:  # a broken file, or a Python that it does not know
            reason = str(error)
    message = f"pykafka2-c cannot be used: {reason}. Run: pip install --upgrade 'pykafka2[c]'"
    if wanted:
        raise ImportError(message)
    warnings.warn(f"{message}. pykafka2 runs without it.", RuntimeWarning, stacklevel=2)
    return None


compiled: Final = _load(os.environ.get(VARIABLE, ""))
"""The extension; None if the Python code runs."""

implementation: Final = "python" if compiled is None else "c"
"""The implementation of the code that runs for each record: `python` or `c`."""
