"""Where the bundled broker answers otherwise than Apache Kafka 4.3.1, and why.

Every entry's `row` is the start of a row of the table in docs/fidelity.md; an entry that no longer applies
fails the stage, so that the table stays true.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Known:
    """One difference: regular expressions for scenario (whole), step and path (part)."""

    scenario: str
    step: str
    path: str
    row: str


KNOWN: tuple[Known, ...] = ()
