"""Damages between two starts of a query: conditions of exactly-once delivery that it then violates.

Neighbours: kill_plans.py names them, kill_campaign.py applies them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from pykafka2 import KafkaAdminClient
from tests.spark.kill_plans import LEDGER_DELETED, OFFSETS_LOST, ROLLED_BACK_BY

TIMEOUT = 120.0


def damage(what: str, checkpoint: Path, servers: str, ledger: str) -> None:
    """Violate a condition of a query that does not run."""
    if what in ROLLED_BACK_BY:
        roll_back(checkpoint, ROLLED_BACK_BY[what])
    elif what == OFFSETS_LOST:
        _remove(checkpoint / "offsets", _batches(checkpoint)[-1:])
    elif what == LEDGER_DELETED:
        delete_topic(servers, ledger)
    else:
        raise ValueError(what)


def roll_back(checkpoint: Path, batches: int) -> None:
    """Leave what a copy of the checkpoint had that was taken before its last batches were planned."""
    gone = _batches(checkpoint)[-batches:]
    for log in _logs(checkpoint):
        _remove(log, gone)


def in_order(folder: Path, *, reverse: bool = False) -> None:
    """Let Spark read the files of a folder by their names: it sorts them by modification time alone."""
    now = time.time()
    for number, file in enumerate(sorted(folder.glob("*.json"), reverse=reverse)):
        os.utime(file, (now + number, now + number))


def delete_topic(servers: str, topic: str) -> None:
    """Delete a topic and wait until it is not listed any more."""
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.delete_topics([topic])
        deadline = time.monotonic() + TIMEOUT
        while topic in admin.list_topics():
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {topic!r} is still there")
            time.sleep(0.1)


def _batches(checkpoint: Path) -> list[int]:
    """The numbers of the batches that were planned."""
    names = (file.name for file in (checkpoint / "offsets").iterdir())
    return sorted(int(name) for name in names if name.isdecimal())


def _logs(checkpoint: Path) -> Iterator[Path]:
    """The folders with one file for each batch."""
    yield checkpoint / "offsets"
    yield checkpoint / "commits"
    if (checkpoint / "sources").exists():
        yield from (checkpoint / "sources").iterdir()


def _remove(log: Path, batches: list[int]) -> None:
    """Remove the entries of batches, and their checksums."""
    for number in batches:
        for name in (f"{number}", f".{number}.crc"):
            (log / name).unlink(missing_ok=True)
