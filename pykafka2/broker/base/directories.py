"""Ids of log directories, as brokers report them to the controller (KIP-858). Kafka's DirectoryId."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

UNASSIGNED: Final = bytes(16)
"""The directory of a replica whose broker has not placed it yet."""
LOST: Final = bytes(15) + b"\1"
"""The directory of a replica in a directory without an id that has failed."""
MIGRATING: Final = bytes(15) + b"\2"
"""The directory of a replica from before directories had ids."""


def is_online(directory: bytes, online: Collection[bytes]) -> bool:
    """Return whether a directory works; a broker without directories has not reported them."""
    return directory in (UNASSIGNED, MIGRATING) or not online or directory in online
