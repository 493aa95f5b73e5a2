"""The transactional calls of the asyncio producer, and what cancelling them leaves.

A cancelled call can still be on its way on a helper thread. The next transactional call begins after its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pykafka2.aio.bridge import Bridge, Call
from pykafka2.errors import ClientClosed, IllegalState
from pykafka2.producer.producer import KafkaProducer as SyncProducer
from pykafka2.types import ConsumerGroupMetadata

if TYPE_CHECKING:
    from pykafka2.cluster.offset_arguments import OffsetsToCommit
    from pykafka2.producer.core import ProducerCore
    from pykafka2.producer.transactions.handle import TransactionHandle

T = TypeVar("T")


class _TransactionBlock(AbstractAsyncContextManager[None]):
    """The context manager of `transaction`; without `async` it raises an error that names the statement."""

    def __init__(self, block: AbstractAsyncContextManager[None]) -> None:
        self._block = block

    async def __aenter__(self) -> None:
        await self._block.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._block.__aexit__(kind, error, trace)

    def __enter__(self) -> NoReturn:
        raise IllegalState("write `async with producer.transaction()`; this is the producer of pykafka2.aio")

    def __exit__(self, *args: object) -> None: ...


class TransactionCalls:
    """Mixed into the producer."""

    _bridge: Bridge
    _core: ProducerCore
    _producer: SyncProducer[Any, Any]
    _is_registered: bool
    _is_registered_by_start: bool
    """Whether `start` has registered the transactional_id, and `init_transactions` was not called yet."""
    _registering: asyncio.Lock
    """Held while `start` or `init_transactions` registers the transactional_id."""
    _abandoned: set[asyncio.Future[Any]]
    """Calls of cancelled tasks; the next transactional call begins after they ended."""

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Register the transactional_id, fence older producers with it, and abort their open transaction.

        Call it once, before the first transaction. Do nothing after `start`, which has registered it.
        """
        self._bridge.enter()
        async with self._registering:
            if self._is_registered_by_start:
                self._is_registered_by_start = False
                return
            await self._run_in_order(self._producer.init_transactions, timeout)
            self._is_registered = True

    async def _register(self) -> None:
        """Register the transactional_id for `start`, unless it is registered."""
        async with self._registering:
            if not self._is_registered:
                await self._run_in_order(self._producer.init_transactions)
                self._is_registered = self._is_registered_by_start = True

    async def begin_transaction(self) -> None:
        """Begin a transaction; every record sent from now on belongs to it, whatever task sends it.

        If the task is cancelled, the transaction may be open; abort it.
        """
        await self._run_in_order(self._producer.begin_transaction)

    async def send_offsets_to_transaction(
        self,
        offsets: OffsetsToCommit,
        group_metadata: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Add a consumer's offsets to the transaction; they are committed only if it commits (KIP-447)."""
        call = self._producer.send_offsets_to_transaction
        await self._run_in_order(call, offsets, group_metadata, timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Send the remaining records and commit the transaction, which makes all of it visible at once.

        If the task is cancelled, call it again to wait.
        """
        await self._run_in_order(self._producer.commit_transaction, timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: read_committed consumers skip its records.

        If the task is cancelled, call it again to wait.
        """
        await self._run_in_order(self._producer.abort_transaction, timeout)

    async def detach_transaction(self, timeout: float | None = None) -> TransactionHandle:
        """Send the remaining records and leave the transaction open for `pykafka2.end_transaction`."""
        return await self._run_in_order(self._producer.detach_transaction, timeout)

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager that begins a transaction and commits it at the end of the block.

        If the block raises, is cancelled, or a record failed, it aborts the transaction. A task that is
        cancelled at the start of the block leaves no transaction open. One that is cancelled at the end of
        the block does not stop that end; the next transaction waits for it.
        """
        return _TransactionBlock(self._transaction())

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[None]:
        block = self._producer.transaction()
        await self._await_abandoned()
        begin = self._bridge.start(block.__enter__)
        try:
            await begin.result()
        except asyncio.CancelledError as error:
            end = partial(self._end_abandoned_block, block, error)
            if begin.future.done():
                end(begin.future)  # now, because a callback would come after the task's next transaction
            else:
                begin.cancel()
                self._abandon(begin)
                begin.future.add_done_callback(end)
            raise
        try:
            yield
        except BaseException as error:
            await self._end_block(partial(block.__exit__, type(error), error, error.__traceback__))
            raise
        await self._end_block(partial(block.__exit__, None, None, None))

    async def _end_block(self, end: partial[Any]) -> None:
        call = self._bridge.start(end)
        self._abandon(call)
        await call.result()

    def _end_abandoned_block(
        self, block: AbstractContextManager[None], error: BaseException, begin: asyncio.Future[None]
    ) -> None:
        """Abort a transaction that began although its task was cancelled."""
        if begin.exception() is None:
            with suppress(ClientClosed):  # a producer that closes aborts it
                self._abandon(self._bridge.start(block.__exit__, type(error), error, None))

    async def _run_in_order(self, function: Callable[..., T], *args: Any) -> T:
        """Run a transactional call on a helper thread, after the end of cancelled ones."""
        await self._await_abandoned()
        call = self._bridge.start(function, *args)
        try:
            return await self._result_of(call)
        except asyncio.CancelledError:
            if call.future.done():
                self._take_back(call.future)
            else:
                call.future.add_done_callback(self._take_back)
            raise

    async def _result_of(self, call: Call[T]) -> T:
        """Wait for a call. If the task is cancelled, the next transactional call begins after the call's end.

        Otherwise a call that is still on its way could take effect in the next transaction.
        """
        try:
            return await call.own_result()
        finally:
            self._abandon(call)  # has no effect on a call that has ended

    def _take_back(self, future: asyncio.Future[Any]) -> None:
        """Let a call be repeated that succeeded although its task was cancelled."""
        runner = self._core.transactions
        if runner is not None and not future.cancelled() and future.exception() is None:
            runner.take_back()

    def _abandon(self, call: Call[Any]) -> None:
        if not call.future.done():
            self._abandoned.add(call.future)
            call.future.add_done_callback(self._abandoned.discard)

    async def _await_abandoned(self) -> None:
        while self._abandoned:
            await asyncio.wait(self._abandoned)
