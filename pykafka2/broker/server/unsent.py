"""Limits of response bytes that wait for clients to read them.

A connection above its limit is not read until some of its responses are sent. If all connections of a
processor together are above theirs, connections with unsent responses are not read. A response itself is
never rejected: a single one can be larger than both limits.
"""

from __future__ import annotations

import attrs

MAX_UNSENT_BYTES = 1 << 20
"""Limit of one connection."""

MAX_ALL_UNSENT_BYTES = 64 << 20
"""Limit of all connections of a processor."""


@attrs.define
class AllUnsent:
    """The unsent bytes of all connections of one processor; belongs to its thread."""

    bytes: int = 0

    def is_too_much(self, of_connection: int) -> bool:
        """Return whether a connection with this many unsent bytes must send some before it is read."""
        if of_connection >= MAX_UNSENT_BYTES:
            return True
        return of_connection > 0 and self.bytes >= MAX_ALL_UNSENT_BYTES
