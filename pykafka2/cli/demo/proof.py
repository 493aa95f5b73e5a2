"""The demo's proof: what came back is what was sent, once each, in order, unchanged.

Fed with every acknowledged record and every record read; `verdict` compares.  Knows no client.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import attrs

from pykafka2.cli.demo.data import NUMBER_HEADER, DemoRecord, checksum_of
from pykafka2.types import ConsumerRecord

SHOWN = 5


@attrs.define
class Finding:
    """One kind of damage and the records it struck."""

    kind: str
    records: list[str] = attrs.field(factory=list)

    def __str__(self) -> str:
        more = len(self.records) - SHOWN
        shown = "; ".join(self.records[:SHOWN])
        return f"{self.kind} {len(self.records)}: {shown}" + (f"; and {more} more" if more > 0 else "")


@attrs.define
class Verdict:
    """Counts and findings; `is_clean` if every record came back once, in place and unchanged."""

    sent: int
    received: int
    lost: Finding
    duplicated: Finding
    reordered: Finding
    corrupted: Finding
    misplaced: Finding
    offsets: Finding

    @property
    def all_findings(self) -> list[Finding]:
        return [self.lost, self.duplicated, self.reordered, self.corrupted, self.misplaced, self.offsets]

    @property
    def findings(self) -> list[Finding]:
        """Those that found something."""
        return [finding for finding in self.all_findings if finding.records]

    @property
    def is_clean(self) -> bool:
        return not self.findings


@attrs.define
class Proof:
    """Collects what was sent, acknowledged and read."""

    sent: Sequence[DemoRecord]
    acknowledged: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    """Record number -> (partition, offset) of its acknowledgement."""
    received: dict[int, list[ConsumerRecord]] = attrs.field(factory=lambda: defaultdict(list))
    """Partition -> records in the order in which they were read."""

    def verdict(self, ranges: Mapping[int, tuple[int, int]]) -> Verdict:
        """Compare; `ranges` is partition -> (first offset, end offset) that this run should have written."""
        seen: dict[int, int] = {}
        verdict = Verdict(
            sent=len(self.sent),
            received=sum(map(len, self.received.values())),
            lost=Finding("lost"),
            duplicated=Finding("duplicated"),
            reordered=Finding("out of order"),
            corrupted=Finding("corrupted"),
            misplaced=Finding("not where the acknowledgement said"),
            offsets=Finding("offset gaps"),
        )
        for partition, records in sorted(self.received.items()):
            self._check_partition(partition, records, seen, verdict)
            self._check_offsets(partition, records, ranges.get(partition, (0, 0)), verdict)
        for number, record in enumerate(self.sent):
            if number not in seen:
                verdict.lost.records.append(f"record {number} (key {_text(record.key)})")
        return verdict

    def _check_partition(
        self, partition: int, records: list[ConsumerRecord], seen: dict[int, int], verdict: Verdict
    ) -> None:
        newest_of_key: dict[bytes | None, int] = {}
        for record in records:
            number = number_of(record)
            where = f"{record.topic}-{partition} offset {record.offset}"
            if number is None or not 0 <= number < len(self.sent):
                verdict.corrupted.records.append(f"{where}: no record of this run")
                continue
            name = f"record {number} (key {_text(self.sent[number].key)}, {where})"
            if number in seen:
                verdict.duplicated.records.append(f"{name}, first at offset {seen[number]}")
                continue
            seen[number] = record.offset
            if checksum_of(record.key, record.value, record.headers) != self.sent[number].checksum:
                verdict.corrupted.records.append(name)
            if newest_of_key.get(record.key, -1) > number:
                verdict.reordered.records.append(f"{name} after record {newest_of_key[record.key]}")
            newest_of_key[record.key] = max(number, newest_of_key.get(record.key, -1))
            place = self.acknowledged.get(number)
            if place is not None and place != (partition, record.offset):
                verdict.misplaced.records.append(f"{name}, acknowledged at {place[0]}/{place[1]}")

    @staticmethod
    def _check_offsets(
        partition: int, records: list[ConsumerRecord], limits: tuple[int, int], verdict: Verdict
    ) -> None:
        expected, end = limits
        for record in records:
            if record.offset != expected:
                verdict.offsets.records.append(
                    f"{record.topic}-{partition}: {expected} expected, {record.offset} read"
                )
            expected = record.offset + 1
        if expected != end:
            verdict.offsets.records.append(
                f"partition {partition}: ends at {expected}, the broker says {end}"
            )


def number_of(record: ConsumerRecord) -> int | None:
    """Return the number that the record carries in its headers."""
    for name, content in record.headers:
        if name == NUMBER_HEADER and content is not None and content.isdigit():
            return int(content)
    return None


def _text(key: bytes | None) -> str:
    return "none" if key is None else key.decode("utf-8", "backslashreplace")
