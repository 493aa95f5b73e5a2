"""How many bytes of replies wait until their clients read them, and how many may.

A connection above its bound is not read until some of its replies have left; so is one with any unsent
reply while all connections of its processor together are above theirs.  What a connection has to send is
never refused: a single reply may be larger than both.
"""

from __future__ import annotations

import attrs

MAX_UNSENT_BYTES = 1 << 20
"""Of one connection."""

MAX_ALL_UNSENT_BYTES = 64 << 20
"""Of all connections of a processor."""


@attrs.define
class AllUnsent:
    """The unsent bytes of all connections of one processor; belongs to its thread."""

    bytes: int = 0

    def is_too_much(self, of_connection: int) -> bool:
        """Whether a connection with so many unsent bytes has to get rid of some before it is read."""
        if of_connection >= MAX_UNSENT_BYTES:
            return True
        return of_connection > 0 and self.bytes >= MAX_ALL_UNSENT_BYTES
