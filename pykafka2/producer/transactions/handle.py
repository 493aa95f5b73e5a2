"""An open transaction without its producer, which any holder of its handle can commit or abort.

For work whose outcome is decided elsewhere: a task writes, detaches and passes the handle to its own
coordinator, which ends the transactions of all tasks together. Any thread and process can end it; a handle
holds no secret.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

import attrs

from pykafka2.cluster.arguments import checked_timeout
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
    error_or_none,
)
from pykafka2.options import ClientConfig, ClientOptions, OptionTable
from pykafka2.producer.transactions.requests import end_versions
from pykafka2.protocol.messages.transaction import EndTxnRequest, EndTxnResponse
from pykafka2.protocol.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime


@attrs.define(frozen=True)
class TransactionHandle:
    """The handle of an open transaction, from `KafkaProducer.detach_transaction`.

    Pickles and compares by value. It has the transactional id, the producer id and epoch, and the
    transaction.version of its records. `is_empty` means that nothing was sent.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    transaction_version: int
    is_empty: bool = False


END_OPTIONS = OptionTable(ClientOptions)
GRACE = 1.0
"""Seconds beyond the timeout of a request, which has the better error message."""
DESCRIBE_TIMEOUT = 10.0
"""Seconds to look up the producer that took over, within the call's timeout."""
_IS_OVER = (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTxnState)


def end_transaction(
    handle: TransactionHandle,
    *,
    commit: bool,
    timeout: float | None = None,
    runtime: Runtime | None = None,
    **options: Unpack[ClientConfig],
) -> None:
    """Commit or abort a transaction that was detached from its producer, in any process.

    Safe to repeat with the same `commit` until a producer calls `init_transactions` for the transactional id.
    An empty transaction needs no request.

    Args:
        handle: the handle of the transaction.
        commit: True commits, False aborts.
        timeout: seconds, by default 60 (default_api_timeout_ms).
        runtime: `simulation.runtime.at("shop")` in a `Simulation`; None for real threads and sockets.
        options: how to reach the cluster: `bootstrap_servers`, `security_protocol` and so on.

    Raises:
        ProducerFenced: another producer has the transactional id now; the message names it. That producer
            aborted the transaction if it was still open.
        InvalidTxnState: it was ended the other way, or aborted after its transaction_timeout_ms.
        KafkaTimeoutError, NoBrokersAvailable: no response in time; call it again.
        IllegalArgument: `handle` or `commit` has the wrong type.
        UnknownOption, ConfigurationError: an option is unknown or invalid.
    """
    (ended,) = _checked([handle], commit)
    errors = end_transactions([ended], commit=commit, timeout=timeout, runtime=runtime, **options)
    if errors:
        raise errors[handle]


def end_transactions(
    handles: Iterable[TransactionHandle],
    *,
    commit: bool,
    timeout: float | None = None,
    runtime: Runtime | None = None,
    **options: Unpack[ClientConfig],
) -> dict[TransactionHandle, KafkaError]:
    """`end_transaction` for several handles, over the same connections.

    The transactions are independent: one can be committed and another fail.

    Returns:
        The handles that were not ended, with the error that `end_transaction` would have raised.

    Raises:
        IllegalArgument: `handles` or `commit` has the wrong type; no request was sent.
        UnknownOption, ConfigurationError: an option is unknown or invalid.
    """
    wanted = _checked(handles, commit)
    timeout = checked_timeout(timeout)
    parsed = END_OPTIONS.parse(None, options)
    wanted = [handle for handle in wanted if not handle.is_empty]
    if not wanted:
        return {}
    client = ClusterClient(parsed, name=parsed.client_id, runtime=runtime)
    try:
        return _end(client, wanted, commit, parsed.default_api_timeout if timeout is None else timeout)
    finally:
        client.close()


def _checked(handles: Iterable[TransactionHandle], commit: bool) -> list[TransactionHandle]:
    if not isinstance(handles, Iterable):
        raise IllegalArgument(f"handles={handles!r}: give an iterable of what detach_transaction() returned")
    found = list(handles)
    for handle in found:
        if not isinstance(handle, TransactionHandle):
            raise IllegalArgument(f"handle={handle!r}: give what detach_transaction() returned")
    if not isinstance(commit, bool):
        raise IllegalArgument(f"commit={commit!r}: True commits, False aborts")
    return found


def _end(
    client: ClusterClient, handles: list[TransactionHandle], commit: bool, timeout: float
) -> dict[TransactionHandle, KafkaError]:
    """Send all requests, then wait for their responses."""

    def check(answer: EndTxnResponse) -> KafkaError | None:
        return error_or_none(answer.error_code)

    monotonic = client.driver.clock.monotonic
    deadline = monotonic() + timeout
    started = []
    for handle in dict.fromkeys(handles):
        request = EndTxnRequest(
            transactional_id=handle.transactional_id,
            producer_id=handle.producer_id,
            producer_epoch=handle.producer_epoch,
            committed=commit,
        )
        coordinator = ToCoordinator(TRANSACTION, handle.transactional_id)
        _, max_version = end_versions(handle.transaction_version)
        started.append((handle, client.start(request, coordinator, timeout, check, max_version)))
    errors: dict[TransactionHandle, KafkaError] = {}
    try:
        for handle, completion in started:
            error = completion.exception(timeout + GRACE)
            if isinstance(error, _IS_OVER):
                coordinator = ToCoordinator(TRANSACTION, handle.transactional_id)
                left = min(max(deadline - monotonic(), 0.0), DESCRIBE_TIMEOUT)
                errors[handle] = _explained(client, coordinator, handle, commit, error, left)
                errors[handle].__cause__ = error
            elif isinstance(error, KafkaError):
                errors[handle] = error
            elif error is not None:
                raise error
    except BaseException:
        for _, completion in started:
            completion.cancel()  # so that none is resent, after a Ctrl-C for example
        raise
    return errors


def _explained(
    client: ClusterClient,
    to: ToCoordinator,
    handle: TransactionHandle,
    commit: bool,
    error: KafkaError,
    timeout: float,
) -> KafkaError:
    """Return the error with the coordinator's state of the transactional id, if it responds in time."""
    name = handle.transactional_id
    what = f"the transaction of {name!r} (producer {handle.producer_id}, epoch {handle.producer_epoch})"
    try:
        known = _describe(client, to, name, timeout)
    except KafkaError as failure:
        known, now = None, f"its state is unknown: {failure}"
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
        f"{what} has ended, as another producer took over the id, which aborted the transaction if it was "
        f"still open: {now}"
    )


def _describe(client: ClusterClient, to: ToCoordinator, name: str, timeout: float) -> Any:
    def check(answer: DescribeTransactionsResponse) -> KafkaError | None:
        if not answer.transaction_states:
            return CorruptData(f"The DescribeTransactions response lacks {name!r}")
        code = answer.transaction_states[0].error_code
        return error_or_none(code)

    request = DescribeTransactionsRequest(transactional_ids=[name])
    return client.request(request, to, timeout, check).transaction_states[0]
