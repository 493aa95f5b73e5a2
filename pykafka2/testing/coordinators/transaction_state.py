"""A transaction as its coordinator sees it: one value per transactional id, each change one record.

Values are immutable: `transactions.py` derives the next one, its record is appended, replay puts it in place.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import attrs

from pykafka2.errors import IllegalTransition
from pykafka2.protocol.messages.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from pykafka2.testing.coordinators.replay import Result

NO_ID: Final = -1
NO_EPOCH: Final = -1
MAX_EPOCH: Final = 2**15 - 1

Place = tuple[str, int]


class TransactionState(IntEnum):
    """Where a transaction stands; the number is the log's."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """Kafka's name, such as PrepareCommit."""
        return self.name.title().replace("_", "")


_E, _O, _PC, _PA, _CC, _CA = TransactionState

LEGAL_MOVES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _E: frozenset({_E, _O, _PA}),
    _O: frozenset({_O, _PC, _PA}),
    _PC: frozenset({_CC}),
    _PA: frozenset({_CA}),
    # From here on an abort without partitions is a producer of KIP-890 that fences itself.
    _CC: frozenset({_E, _O, _PA}),
    _CA: frozenset({_E, _O, _PA}),
}

OTHER_STATES: Final = frozenset({"Dead", "PrepareEpochFence"})
"""Names that filters know although nothing is ever seen in these states."""


@attrs.define(frozen=True)
class Transaction:
    """A transactional id's producer and transaction; milliseconds as in the log."""

    id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    updated_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[Place] = frozenset()
    started_ms: int = -1
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    version: int = 0
    """The transaction version that the client spoke when it last changed (KIP-890: 2)."""

    @property
    def is_exhausted(self) -> bool:
        """Whether the epoch is the last that a client may use (rule 40)."""
        return self.epoch >= MAX_EPOCH - 1

    @property
    def is_ending(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    def move(self, state: TransactionState, updated_ms: int, **changes: object) -> Transaction:
        """The next value; IllegalTransition where the table has no such move."""
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(self.state.title, state.title)
        # Kafka notes the id before each change, which tells a rotation's retry apart.
        said = {"previous_producer_id": self.producer_id, **changes}
        return attrs.evolve(self, state=state, updated_ms=updated_ms, **said)  # type: ignore[arg-type]

    def initialized(
        self, timeout_ms: int, updated_ms: int, epoch: int, producer_id: int | None = None
    ) -> Transaction:
        """Ready for a producer's first transaction under this epoch."""
        return self.move(
            TransactionState.EMPTY,
            updated_ms,
            producer_id=self.producer_id if producer_id is None else producer_id,
            epoch=epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            started_ms=-1,
        )

    def with_partitions(self, places: frozenset[Place], updated_ms: int, version: int) -> Transaction:
        is_ongoing = self.state is TransactionState.ONGOING
        return self.move(
            TransactionState.ONGOING,
            updated_ms,
            partitions=(self.partitions if is_ongoing else frozenset()) | places,
            started_ms=self.started_ms if is_ongoing else updated_ms,
            version=version,
        )

    def ending(
        self, commits: bool, updated_ms: int, version: int, epoch: int, next_producer_id: int = NO_ID
    ) -> Transaction:
        """Decided; markers are to be written under `epoch`."""
        is_ongoing = self.state is TransactionState.ONGOING
        return self.move(
            TransactionState.PREPARE_COMMIT if commits else TransactionState.PREPARE_ABORT,
            updated_ms,
            epoch=epoch,
            partitions=self.partitions if is_ongoing else frozenset(),
            started_ms=self.started_ms if is_ongoing else updated_ms,
            next_producer_id=next_producer_id,
            version=version,
        )

    def completed(self, updated_ms: int) -> Transaction:
        """All markers are written; a rotated producer id takes over here."""
        commits = self.state is TransactionState.PREPARE_COMMIT
        rotates = self.version >= 2 and self.next_producer_id != NO_ID
        return self.move(
            TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT,
            updated_ms,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            epoch=0 if rotates else self.epoch,
            next_producer_id=NO_ID,
            partitions=frozenset(),
        )

    def write(self, out: Result, transaction_version: int) -> None:
        """Its record; flexible, with what KIP-890 added, since transaction.version 1."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            topics.setdefault(topic, []).append(partition)
        is_flexible = transaction_version >= 1
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id if is_flexible else NO_ID,
            next_producer_id=self.next_producer_id if is_flexible else NO_ID,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=int(self.state),
            transaction_partitions=None
            if self.state is TransactionState.EMPTY
            else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()],
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
            client_transaction_version=self.version if is_flexible else 0,
        )
        out.write(TransactionLogKey(transactional_id=self.id), value, int(is_flexible))

    @classmethod
    def from_record(cls, transactional_id: str, value: TransactionLogValue) -> Transaction:
        return cls(
            transactional_id,
            value.producer_id,
            value.producer_epoch,
            value.transaction_timeout_ms,
            value.transaction_last_update_timestamp_ms,
            TransactionState(value.transaction_status),
            frozenset(
                (topic.topic, partition)
                for topic in value.transaction_partitions or ()
                for partition in topic.partition_ids
            ),
            value.transaction_start_timestamp_ms,
            value.previous_producer_id,
            value.next_producer_id,
            value.client_transaction_version,
        )
