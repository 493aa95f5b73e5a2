"""The names of the directories of logs: `orders-0`, and `orders-0.UUID-delete` of a renamed one.

The unique name makes room for a new log of the same name. Kafka's LocalLog.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from uuid import UUID

import attrs

METADATA_LOG: Final = "__cluster_metadata-0"
DELETE: Final = "-delete"
STRAY: Final = "-stray"
FUTURE: Final = "-future"
MAX_NAME: Final = 255
LOG_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]+)")
DELETED_NAME: Final = re.compile(r".+-[0-9]+\.[0-9a-f]{32}-delete")
FUTURE_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]+)\.[0-9a-f]{32}-future")
UNIQUE_BYTES: Final = 33
"""The length of ".UUID" in the name of a renamed directory."""


class LogName(NamedTuple):
    """The topic and partition of a log; its text is the name of the directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@attrs.frozen
class LogDirectoryName:
    """The name of a directory with a log, or with the copy of a log that moves."""

    log: LogName
    is_copy: bool


def parse_directory_name(name: str) -> LogDirectoryName | None:
    """Return the log that the name of a directory belongs to.

    None for the metadata log, and for any name that is not that of a log in use.
    """
    future = FUTURE_NAME.fullmatch(name)
    match = future or LOG_NAME.fullmatch(name)
    if match is None or name == METADATA_LOG:
        return None
    return LogDirectoryName(LogName(match[1], int(match[2])), is_copy=future is not None)


def is_deleted(name: str) -> bool:
    """Return whether a directory of this name has a deleted log."""
    return DELETED_NAME.fullmatch(name) is not None


def unique_name(name: str, unique: UUID, ending: str) -> str:
    """Return Kafka's name of a renamed directory, orders-0.UUID-delete, of at most 255 bytes.

    A long topic name is cut.
    """
    topic, _, partition = name.rpartition("-")
    ending = f"-{partition}.{unique.hex}{ending}"
    return topic[: MAX_NAME - len(ending)] + ending


def is_too_long_for_a_copy(name: LogName) -> bool:
    """Return whether the name of the copy's directory would be cut, so that its log would be unknown."""
    return len(str(name)) + UNIQUE_BYTES + len(FUTURE) > MAX_NAME
