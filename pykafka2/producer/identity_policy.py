"""What an answer means for the producer's identity: its id, its epoch, and the numbers of its batches.

Pure decisions, as tables; outcomes.py carries them out on batches, sequences.py on numbers, identity.py on
the producer.  A producer has one policy for its life: without idempotence nothing is numbered; with it the
producer may raise its epoch by itself.  Inside a transaction it may not, as the coordinator owns the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import ClassVar

from pykafka2.errors import (
    ClusterAuthorizationFailed,
    CorruptData,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
)

Identity = tuple[int, int]
"""A producer id and its epoch."""

NOBODY: Identity = (-1, -1)

LAST_EPOCH = 2**15 - 2


class Verdict(Enum):
    """What becomes of a batch, and of the identity it was sent under."""

    WRITTEN = "an earlier attempt is in the log"
    RETRY = "it is sent again as it is"
    RENUMBER = "it and what is unfinished behind it are sent again, numbered anew under the next identity"
    FAIL = "it has failed; its numbers are a hole for what follows"
    FATAL = "it has failed, and so has the producer"


class IdentityPolicy:
    """The policy of a producer without idempotence, and what the others have in common.

    `TABLE` says what errors mean for a batch in its turn, and for one that is not: behind an unfinished one
    of its partition, or sent under numbers that are gone by now.  Errors that it lacks say it themselves.
    """

    TABLE: ClassVar[Mapping[type[KafkaError], tuple[Verdict, Verdict]]] = {}
    is_transactional: ClassVar[bool] = False

    def verdict(self, error: KafkaError, *, is_in_turn: bool) -> Verdict:
        """What the failed attempt means."""
        row = self.TABLE.get(type(error))
        if row is not None:
            in_turn, otherwise = row
            return in_turn if is_in_turn else otherwise
        # An answer that cannot be read does not say that the batch was refused.
        return Verdict.RETRY if error.retriable or isinstance(error, CorruptData) else Verdict.FAIL

    def next_identity(self, identity: Identity) -> Identity:
        """Who the producer is after a hole in its numbers; the same one: only somebody else can tell.

        `NOBODY`: a broker has to be asked for a new id.
        """
        return identity


class IdempotentPolicy(IdentityPolicy):
    """Idempotence without transactions: a hole is left behind by raising the epoch (KIP-360)."""

    TABLE = {  # noqa: RUF012
        # It was written longer ago than the broker remembers offsets for.
        DuplicateSequenceNumber: (Verdict.WRITTEN, Verdict.WRITTEN),
        # The broker does not have what came before: it lost it, or it was given up.  Behind an unfinished
        # batch that is what must happen.
        OutOfOrderSequenceNumber: (Verdict.RENUMBER, Verdict.RETRY),
        UnknownProducerId: (Verdict.RENUMBER, Verdict.RETRY),
        # The broker knows a later epoch: ours, raised for another partition, unless it is a fence.
        InvalidProducerEpoch: (Verdict.RENUMBER, Verdict.RETRY),
        # Somebody else took the id over.
        ProducerFenced: (Verdict.FATAL, Verdict.FATAL),
        InvalidProducerIdMapping: (Verdict.FATAL, Verdict.FATAL),
    }

    def next_identity(self, identity: Identity) -> Identity:
        producer_id, epoch = identity
        return (producer_id, epoch + 1) if epoch < LAST_EPOCH else NOBODY


class TransactionalPolicy(IdentityPolicy):
    """Transactions: the coordinator alone gives ids and epochs, so a hole ends the transaction.

    Nothing is numbered anew inside one: what was refused for its number may be in the log, or its
    predecessors may be missing there, and the commit must not hide that.  The next epoch comes when the
    transaction was aborted (transaction_manager.py).
    """

    is_transactional = True
    TABLE = {  # noqa: RUF012
        DuplicateSequenceNumber: (Verdict.WRITTEN, Verdict.WRITTEN),
        # Behind an unfinished batch that is what must happen; in its turn, the broker lost what came before.
        OutOfOrderSequenceNumber: (Verdict.FAIL, Verdict.RETRY),
        UnknownProducerId: (Verdict.FAIL, Verdict.RETRY),
        # The coordinator gave up this transaction, and may let the producer go on with the next.
        InvalidProducerEpoch: (Verdict.FAIL, Verdict.FAIL),
        InvalidProducerIdMapping: (Verdict.FAIL, Verdict.FAIL),
        ProducerFenced: (Verdict.FATAL, Verdict.FATAL),
        TransactionalIdAuthorizationFailed: (Verdict.FATAL, Verdict.FATAL),
        ClusterAuthorizationFailed: (Verdict.FATAL, Verdict.FATAL),
    }
