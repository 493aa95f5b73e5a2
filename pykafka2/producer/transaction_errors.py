"""What went wrong with a transaction, in words that say what became of it.

Pure; used by transaction_manager.py, which decides, and read by whoever calls.
"""

from __future__ import annotations

from pykafka2.errors import InvalidProducerEpoch, InvalidTxnState, KafkaError, ProducerFenced
from pykafka2.producer.transaction_requests import Step
from pykafka2.producer.transaction_state import again


def fatal_error(
    error: KafkaError,
    step: Step | None,
    *,
    transactional_id: str,
    timeout: float,
    may_be_carried_out_late: bool,
) -> KafkaError:
    """Why the producer cannot go on.  `step` is None for a failed batch.

    Only the answer to a commit's only attempt says for sure that nothing was committed.
    """
    is_commit = step is Step.COMMIT
    text = str(error)
    is_fenced = isinstance(error, ProducerFenced | InvalidProducerEpoch)
    if is_fenced:
        text = (
            f"another producer with transactional_id={transactional_id!r} has begun, or the coordinator has "
            f"ended the transaction after transaction_timeout_ms={timeout * 1000:g}"
        )
    if is_commit and is_fenced and not may_be_carried_out_late:
        text += "; it was not committed"
    elif is_commit:
        text += "; whether the transaction was committed is not known"
    return again(ProducerFenced() if is_fenced else error, text)


def abortable_error(error: KafkaError, step: Step, *, timeout: float) -> KafkaError:
    """Why the transaction can only be aborted."""
    if step is Step.COMMIT and isinstance(error, InvalidTxnState):
        limit = f"transaction_timeout_ms={timeout * 1000:g}"
        return again(error, f"the coordinator has ended the transaction otherwise, as after {limit}")
    return error
