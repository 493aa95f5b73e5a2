"""An open transaction that left its producer, to be committed or aborted by whoever holds its handle.

For work whose outcome is decided elsewhere: a task writes, detaches and hands the handle to a coordinator of
its own, which ends all tasks' transactions together.  Any thread and process; a handle holds no secret.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

import attrs

from pykafka2.cluster.client import ClusterClient
from pykafka2.driver.pollable import TRANSACTION, ToCoordinator
from pykafka2.errors import (
    CorruptData,
    IllegalArgument,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    error_of,
)
from pykafka2.options import ClientConfig, ClientOptions, OptionTable
from pykafka2.producer.arguments import checked_timeout
from pykafka2.producer.transaction_requests import end_versions
from pykafka2.protocol.messages.transaction import EndTxnRequest, EndTxnResponse
from pykafka2.protocol.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime


@attrs.define(frozen=True)
class TransactionHandle:
    """An open transaction, as `KafkaProducer.detach_transaction` left it.

    Pickles and compares by value; names the transactional id, the producer id and epoch that wrote, and the
    transaction.version it was written under.  `is_empty` means that nothing was sent in it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    transaction_version: int
    is_empty: bool = False


END_OPTIONS = OptionTable(ClientOptions)


def end_transaction(
    handle: TransactionHandle,
    *,
    commit: bool,
    timeout: float | None = None,
    runtime: Runtime | None = None,
    **options: Unpack[ClientConfig],
) -> None:
    """Commit or abort a transaction that was detached from its producer; from any process.

    Safe to repeat with the same `commit`, until somebody calls `init_transactions` for its transactional id.
    An empty transaction needs no request.

    Args:
        handle: of the transaction.
        commit: True makes it visible, False has readers skip it.
        timeout: seconds, by default 60 (default_api_timeout_ms).
        runtime: what it runs on; None for a thread and sockets of its own.
        options: how to reach the cluster: `bootstrap_servers`, `security_protocol` and so on.

    Raises:
        ProducerFenced: another producer has the transactional id now; the message says which.  If the
            transaction had not been ended before, that producer has aborted it.
        InvalidTxnState: it was ended the other way, or aborted after its transaction_timeout_ms.
        KafkaTimeoutError, NoBrokersAvailable: no answer in time; call it again.
        IllegalArgument: `handle` or `commit` is not what is said above.
        UnknownOption, ConfigurationError: an option is unknown or illegal.
    """
    if not isinstance(handle, TransactionHandle):
        raise IllegalArgument(f"handle={handle!r}: end_transaction takes what detach_transaction() returned")
    if not isinstance(commit, bool):
        raise IllegalArgument(f"commit={commit!r}: True commits, False aborts")
    timeout = checked_timeout(timeout)
    parsed = END_OPTIONS.parse(None, options)
    if handle.is_empty:
        return
    client = ClusterClient(parsed, name=parsed.client_id, runtime=runtime)
    try:
        _end(client, handle, commit, parsed.default_api_timeout if timeout is None else timeout)
    finally:
        client.close()


def _end(client: ClusterClient, handle: TransactionHandle, commit: bool, timeout: float) -> None:
    coordinator = ToCoordinator(TRANSACTION, handle.transactional_id)
    request = EndTxnRequest(
        transactional_id=handle.transactional_id,
        producer_id=handle.producer_id,
        producer_epoch=handle.producer_epoch,
        committed=commit,
    )
    _, max_version = end_versions(handle.transaction_version)

    def check(answer: EndTxnResponse) -> KafkaError | None:
        return error_of(answer.error_code) if answer.error_code else None

    try:
        client.request(request, coordinator, timeout, check, max_version)
    except (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTxnState) as error:
        raise _explained(client, coordinator, handle, commit, error) from error


def _explained(
    client: ClusterClient, to: ToCoordinator, handle: TransactionHandle, commit: bool, error: KafkaError
) -> KafkaError:
    """The error with what the coordinator knows about the transactional id."""
    name = handle.transactional_id
    what = f"the transaction of {name!r} (producer {handle.producer_id}, epoch {handle.producer_epoch})"
    try:
        known = _describe(client, to, name)
    except KafkaError as failure:
        known, now = None, f"its coordinator does not say more: {failure}"
    else:
        now = (
            f"{name!r} is in state {known.transaction_state} now, of producer {known.producer_id} with "
            f"epoch {known.producer_epoch}"
        )
    wish = "committed" if commit else "aborted"
    if isinstance(error, InvalidTxnState):
        return InvalidTxnState(
            f"{what} cannot be {wish}, as it was ended otherwise, by a call or by its timeout: {now}"
        )
    return ProducerFenced(
        f"{what} is over, as another producer took the id over; if it had not been ended before, it was "
        f"aborted by that: {now}"
    )


def _describe(client: ClusterClient, to: ToCoordinator, name: str) -> Any:
    def check(answer: DescribeTransactionsResponse) -> KafkaError | None:
        if not answer.transaction_states:
            return CorruptData(f"DescribeTransactions answered nothing of {name!r}")
        code = answer.transaction_states[0].error_code
        return error_of(code) if code else None

    request = DescribeTransactionsRequest(transactional_ids=[name])
    return client.request(request, to, 10.0, check).transaction_states[0]
