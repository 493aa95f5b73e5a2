"""The text files of a log directory: checkpoints, `partition.metadata` and `meta.properties`.

A checkpoint has a line with its version, a line with the number of entries, and a line for each entry
(Kafka's CheckpointFile).
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from pykafka2.broker.log.leader_epochs import EpochEntry
from pykafka2.errors import CorruptData

CHECKPOINT_VERSION = 0
METADATA_VERSION = 0
PROPERTIES_VERSION = 1
MAX_OFFSET = 2**63 - 1

T = TypeVar("T")


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> str:
    """Encode a checkpoint of offsets by topic and partition, such as `recovery-point-offset-checkpoint`."""
    return _checkpoint(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def decode_offsets(text: str, where: str) -> dict[tuple[str, int], int]:
    """Raise `CorruptData`. An empty file, which Kafka writes at its start, has no entries."""

    def entry(line: str) -> tuple[tuple[str, int], int]:
        topic, partition, offset = line.split(" ")
        if int(offset) > MAX_OFFSET:
            raise ValueError(offset)
        return (topic, int(partition)), int(offset)

    return dict(_entries(text, where, entry)) if text else {}


def encode_epochs(epochs: Iterable[EpochEntry]) -> str:
    """Encode `leader-epoch-checkpoint`."""
    return _checkpoint(f"{epoch} {start_offset}" for epoch, start_offset in epochs)


def decode_epochs(text: str, where: str) -> list[EpochEntry]:
    """Raise `CorruptData`, also for epochs or offsets that do not rise."""

    def entry(line: str) -> EpochEntry:
        epoch, start_offset = line.split(" ")
        return EpochEntry(int(epoch), int(start_offset))

    epochs = _entries(text, where, entry) if text else []
    for before, after in itertools.pairwise(epochs):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            raise CorruptData(f"{where}: epoch {after.epoch} does not follow epoch {before.epoch}")
    return epochs


def encode_topic_id(topic_id: UUID) -> str:
    """Encode `partition.metadata`."""
    return f"version: {METADATA_VERSION}\ntopic_id: {encode_uuid(topic_id)}"


def decode_topic_id(text: str, where: str) -> UUID:
    """Raise `CorruptData`."""
    fields = dict(line.partition(": ")[::2] for line in text.splitlines())
    if fields.get("version") != str(METADATA_VERSION):
        raise CorruptData(f"{where}: version {fields.get('version')} is not {METADATA_VERSION}")
    return decode_uuid(fields.get("topic_id", ""), where)


def encode_properties(properties: Mapping[str, str]) -> str:
    """Encode `meta.properties`."""
    lines = {"version": str(PROPERTIES_VERSION), **properties}
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def decode_properties(text: str, where: str) -> dict[str, str]:
    """Return the properties without the version. Raise `CorruptData` for another version."""
    lines = [line.strip() for line in text.splitlines()]
    properties = {
        name.strip(): value.strip()
        for name, _, value in (line.partition("=") for line in lines if line and line[0] not in "#!")
    }
    version = properties.pop("version", None)
    if version != str(PROPERTIES_VERSION):
        raise CorruptData(f"{where}: version {version} is not {PROPERTIES_VERSION}")
    return properties


def encode_uuid(value: UUID) -> str:
    """Encode as Kafka's Uuid: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def decode_uuid(text: str, where: str) -> UUID:
    """Raise `CorruptData`."""
    try:
        # Other characters are not skipped, so that a damaged id is not taken for another one.
        return UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except ValueError:
        raise CorruptData(f"{where}: {text!r} is not an id of 16 bytes in base64") from None


def _checkpoint(lines: Iterable[str]) -> str:
    entries = [*lines]
    return "".join(f"{line}\n" for line in [CHECKPOINT_VERSION, len(entries), *entries])


def _entries(text: str, where: str, entry: Callable[[str], T]) -> list[T]:
    lines = text.splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
        entries = [entry(line) for line in lines[2:]]
    except (ValueError, IndexError):
        raise CorruptData(f"{where}: not a checkpoint of version {CHECKPOINT_VERSION}") from None
    if version != CHECKPOINT_VERSION:
        raise CorruptData(f"{where}: version {version} is not {CHECKPOINT_VERSION}")
    if count != len(entries):
        raise CorruptData(f"{where}: {len(entries)} entries instead of {count}")
    return entries
