"""What clients have called things, as logs and timelines show it: they may call them anything."""

from __future__ import annotations

from typing import Final

from pykafka2.foreign_text import printable

MAX_SHOWN: Final = 256
"""Characters of a name; Kafka's longest string has 32,767."""


def shown(name: str) -> str:
    """A name of a client's choice, cut and without anything that a terminal or a log would act upon."""
    return printable(name if len(name) <= MAX_SHOWN else f"{name[:MAX_SHOWN]}...")
