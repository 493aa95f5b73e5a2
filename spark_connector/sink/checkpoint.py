"""Reads the source offsets of the micro-batch that Spark is about to run from the query's checkpoint.

Spark passes no offsets to a sink.  But it writes them to `offsets/N` in the checkpoint before it plans
batch N, and passes the option checkpointLocation on.  They can be read from a file system that the driver has
mounted; they stay unknown elsewhere (hdfs://, s3://) and if the location comes from
spark.sql.streaming.checkpointLocation.

Only Kafka's offsets name the records of a batch.  Those of other sources can be mere counters: the file
source numbers its batches, so a checkpoint that was rolled back repeats the number with other files.

The driver's Python process.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import attrs

from spark_connector.offsets import from_spark, to_spark

LOCATION = "checkpointlocation"
OFFSETS = "offsets"
HEADER_LINES = 2
"""Version and metadata, which holds times and settings; a line for each source follows."""
BY_ID = b"v2"
"""The version whose lines begin with the id of the source, a name or number, in no fixed order. Spark writes
it for named sources, and if spark.sql.streaming.offsetLog.formatVersion is 2."""


@attrs.define(frozen=True)
class PlannedBatch:
    """The newest entry of the log of offsets.  digest: of the offsets of all sources."""

    number: int
    digest: str


def planned_batch(options: Mapping[str, str]) -> PlannedBatch | None:
    """Return the newest batch in the checkpoint that the options of a stream name.

    None if it cannot be read, or if a source is not Kafka.
    """
    location = next((value for name, value in options.items() if name.lower() == LOCATION), None)
    folder = _local(location) if location else None
    if folder is None:
        return None
    try:
        number = max(int(name) for name in os.listdir(folder / OFFSETS) if name.isdecimal())
        lines = (folder / OFFSETS / str(number)).read_bytes().splitlines()
    except (OSError, ValueError):
        return None
    sources = [_of_kafka(line) for line in _by_source(lines)]
    if not sources or None in sources:
        return None
    return PlannedBatch(number, hashlib.blake2b(json.dumps(sources).encode(), digest_size=8).hexdigest())


def _by_source(lines: list[bytes]) -> list[bytes]:
    """Return the offsets of each source, in an order that is the same for each entry of a query."""
    version, sources = lines[:1], lines[HEADER_LINES:]
    if version == [b"v1"]:
        return sources
    if version != [BY_ID] or any(b":" not in one for one in sources):
        return []
    by_id = dict(one.split(b":", 1) for one in sources)
    return [by_id[one] for one in sorted(by_id, key=lambda one: (int(one) if one.isdigit() else -1, one))]


def _of_kafka(offsets: bytes) -> dict[str, dict[str, int]] | None:
    """Return offsets of the form {"topic": {"0": 23}} in their fixed order; None for any other form."""
    try:
        return to_spark(from_spark(json.loads(offsets))) or None
    except (ValueError, AttributeError):
        return None


def _local(location: str) -> Path | None:
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(location) if not parts.scheme else None
