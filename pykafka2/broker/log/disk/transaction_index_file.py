"""The transaction index of a segment: its aborted transactions. Kafka's TransactionIndex.

The file is missing as long as there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pykafka2.broker.log.disk.file_system import FileSystem
from pykafka2.broker.log.disk.index_files import decode_transaction_index, encode_transaction_index
from pykafka2.broker.log.transaction_index import AbortedTransaction


class TransactionIndexFile:
    """The aborted transactions in a file, in the order of their markers. All methods raise `OSError`."""

    __slots__ = ("_files", "path", "size_bytes")

    def __init__(self, files: FileSystem, path: str) -> None:
        """Describe a missing file; `open` finds an existing one."""
        self._files = files
        self.path = path
        self.size_bytes = 0

    def open(self) -> None:
        """Take over what is in the file."""
        self.size_bytes = self._files.size(self.path) if self._files.exists(self.path) else 0

    def read(self) -> list[AbortedTransaction]:
        """Return all entries. Raise `CorruptData`."""
        if not self.size_bytes:
            return []
        return decode_transaction_index(self._files.read(self.path), self.path)

    def append(self, aborted: AbortedTransaction) -> None:
        file = self._files.open(self.path, creates=not self.size_bytes)
        data = encode_transaction_index([aborted])
        file.write(self.size_bytes, data)
        file.close()
        self.size_bytes += len(data)

    def replace(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Replace all entries."""
        data = encode_transaction_index(aborted)
        if data:
            self._files.replace(self.path, data)
        elif self.size_bytes:
            self._files.remove(self.path)
        self.size_bytes = len(data)

    def later_flush(self) -> Callable[[], None]:
        """Return a function that flushes the file from any thread."""
        file = self._files.open(self.path)
        flush = file.later_flush()
        file.close()
        return flush
