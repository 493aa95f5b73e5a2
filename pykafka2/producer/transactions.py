"""The transactional calls of `KafkaProducer`, and what they promise; transaction_calls.py carries them out.

Callers' threads.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from pykafka2.cluster.offset_arguments import GivenOffsets
from pykafka2.errors import IllegalState, KafkaError
from pykafka2.producer.transaction_calls import TransactionCalls
from pykafka2.producer.transaction_handle import TransactionHandle
from pykafka2.types import ConsumerGroupMetadata


class TransactionalCalls:
    """Mixed into the producer.

    `timeout` is in seconds everywhere (default: max_block_ms).  A call that does not end within it raises
    KafkaTimeoutError and goes on; the same call again waits for it.  All of them also raise

        IllegalState: the producer has no transactional_id; another call comes first, and the message says
            which; or this is a callback on the IO thread, which must not wait for itself.
        TransactionFailed: the transaction can only be aborted, as its cause says.
        ProducerFenced: a newer producer has the transactional id.  This one can only be closed; so it is with
            any other error that is `fatal`.
        ClientClosed, ForkedClientError, ClientFailed: as `send`.
    """

    _refusal: KafkaError | None
    _transactions: TransactionCalls | None

    def init_transactions(self, timeout: float | None = None) -> None:
        """Register the transactional_id and end what an earlier producer with it left open.

        Once, before the first transaction.  From here on an older producer with the same id is fenced.

        Raises:
            TransactionalIdAuthorizationFailed, InvalidTransactionTimeout, KafkaError: the coordinator refuses
                it; nothing was begun, and it may be called again.
            KafkaTimeoutError: no coordinator answered.
        """
        self._of_transactions("init_transactions").init(timeout)

    def begin_transaction(self) -> None:
        """Start a transaction; what is sent from here on, by any thread, belongs to it.  Asks no broker."""
        self._of_transactions("begin_transaction").begin()

    def send_offsets_to_transaction(
        self,
        offsets: GivenOffsets,
        group_metadata: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Have a consumer's offsets take effect with the transaction, and only with it (KIP-447).

        Args:
            offsets: by partition, that of the next record to read: an int or OffsetAndMetadata, as `commit`.
            group_metadata: of the consumer that read; its group's name alone, for a consumer that assigns its
                partitions itself.
            timeout: seconds.

        Raises:
            TransactionFailed: the group refused them, as the member is not (or no longer) in it.
            IllegalArgument: an argument is not what is said above.
        """
        self._of_transactions("send_offsets_to_transaction").send_offsets(offsets, group_metadata, timeout)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what waits, and make everything sent in the transaction visible at once.

        When it returns the commit is decided, whatever happens then.

        Raises:
            TransactionFailed: a record of the transaction failed, so nothing was committed.
        """
        self._of_transactions("commit_transaction").commit(timeout)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Have readers skip everything sent in the transaction; what was not sent yet fails with
        TransactionAborted."""
        self._of_transactions("abort_transaction").abort(timeout)

    def transaction(self) -> AbstractContextManager[None]:
        """`with producer.transaction():` begins, and commits at the end of the block.

        It aborts where the block raises, or where a record has failed; the error goes on, with a note that
        the transaction was aborted.
        """
        return self._of_transactions("transaction").block()

    def detach_transaction(self, timeout: float | None = None) -> TransactionHandle:
        """Send what waits and leave the transaction open, for `pykafka2.end_transaction` to end it.

        The handle pickles and holds no secret, so another process may end it, within transaction_timeout_ms.
        This producer can then only be closed, which leaves the transaction as it is.

        Raises:
            TransactionFailed: a record of the transaction failed.
        """
        return self._of_transactions("detach_transaction").detach(timeout)

    def _of_transactions(self, call: str) -> TransactionCalls:
        refusal, transactions = self._refusal, self._transactions
        if refusal is not None:
            raise type(refusal)(str(refusal))
        if transactions is None:
            raise IllegalState(f"{call}() needs the option transactional_id; this producer has none")
        return transactions
