"""The events of a simulation, as one hash and, on demand, as readable lines.

Every wake-up, every chunk of bytes and every time goes into the hash, so two runs with the same hash did the
same in the same order.  Used only under the baton.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque

_TIME = struct.Struct("<d")

# Turns are gathered and hashed together: the same bytes in the same order, a third of the cost.
MOST_GATHERED = 4096

# Enough to see what led to a failure; a whole run is kept only for a replay.
RECENT_LINES = 400


class Trace:
    """Hashes events as they come, and keeps the recent ones (`keep_all`: all of them) as text."""

    def __init__(self, *, keep_all: bool = False) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._lines: deque[tuple[float, str]] = deque(maxlen=None if keep_all else RECENT_LINES)
        self._keep_all = keep_all
        self._gathered: list[bytes] = []
        self._names: dict[str, bytes] = {}
        self.events = 0

    def turned(self, now: float, name: str) -> None:
        """Record a turn of a loop, timer or actor.  Hot: once per turn, so it is hashed but not kept."""
        self.events += 1
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = name.encode()
        self._gathered += (_TIME.pack(now), known)
        if not self.events % MOST_GATHERED:
            self._hash_gathered()

    def carried(self, now: float, what: str, data: bytes | memoryview) -> None:
        """Record bytes that enter the network."""
        self.events += 1
        # The caller's buffer may be used again, so these bytes are hashed at once.
        self._gathered += (_TIME.pack(now), what.encode())
        self._hash_gathered()
        self._hash.update(data)
        if self._keep_all:
            self._lines.append((now, f"{what} {len(data)} bytes"))

    def note(self, now: float, text: str) -> None:
        """Record an event as a line: a connection, a fault, an election, a failure."""
        self.events += 1
        self._gathered += (_TIME.pack(now), text.encode())
        self._lines.append((now, text))

    def _hash_gathered(self) -> None:
        self._hash.update(b"".join(self._gathered))
        self._gathered.clear()

    @property
    def digest(self) -> str:
        """The hash so far, in hexadecimal."""
        self._hash_gathered()
        return self._hash.hexdigest()

    def lines(self) -> list[str]:
        """Return the kept lines, oldest first, each with its virtual time."""
        return [f"{at:12.6f}  {text}" for at, text in self._lines]
