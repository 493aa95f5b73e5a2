"""Damages one record of the log for `pykafka2 demo --sabotage`, unnoticed by the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from pykafka2.types import ConsumerRecord

if TYPE_CHECKING:
    from pykafka2.testing import KafkaCluster


def _lose(records: list[ConsumerRecord]) -> Sequence[ConsumerRecord]:
    del records[len(records) // 2]
    return records


def _duplicate(records: list[ConsumerRecord]) -> Sequence[ConsumerRecord]:
    records.append(records[len(records) // 2])
    return records


def _reorder(records: list[ConsumerRecord]) -> Sequence[ConsumerRecord]:
    """Swap two records of one key."""
    newest: dict[bytes | None, int] = {}
    for index, record in enumerate(records):
        if record.key in newest and index >= len(records) // 2:
            other = newest[record.key]
            records[index], records[other] = records[other], records[index]
            break
        newest[record.key] = index
    return records


def _corrupt(records: list[ConsumerRecord]) -> Sequence[ConsumerRecord]:
    index = len(records) // 2
    value = records[index].value or b"\0"
    records[index] = attrs.evolve(records[index], value=bytes([value[0] ^ 1]) + value[1:])
    return records


KINDS = {"lose": _lose, "duplicate": _duplicate, "reorder": _reorder, "corrupt": _corrupt}


def sabotage(cluster: KafkaCluster, kind: str, topic: str, partitions: int) -> str:
    """Damage the fullest partition; says what was done."""
    from pykafka2.testing.controls.tamper import tamper

    fullest = max(range(partitions), key=lambda index: cluster.partition(topic, index).high_watermark)
    tamper(cluster.running, topic, fullest, KINDS[kind])
    return f"{kind} one record of {topic}-{fullest}, in all replicas"
