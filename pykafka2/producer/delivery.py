"""What becomes of sent records, for those who sent them: light futures that share their batch's completion.

A `Delivery` holds its batch and its place in it, and no lock or event of its own; a batch completes all its
records by one assignment on the IO thread (batch.py).  Waiting happens on the caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from pykafka2.errors import KafkaError, KafkaTimeoutError
from pykafka2.types import RecordMetadata

if TYPE_CHECKING:
    from pykafka2.producer.batch import ProducerBatch

OnDelivery = Callable[[RecordMetadata | None, KafkaError | None], None]
"""Called once per record as `on_delivery(metadata, error)`; exactly one of the two is None.

It runs on the IO thread, must not block (`flush`, `close`, `result` and a blocking `send` raise
`IllegalState` inside it), and what it raises is logged.
"""


class Delivery:
    """The outcome of one record.  Thread-safe.

    Offers what kafka-python's futures offer (`get`, `add_callback`, `add_errback`, `is_done`, `succeeded`,
    `failed`), the standard names (`result`, `exception`, `done`, `add_done_callback`), and `await`.
    """

    __slots__ = ("_batch", "_index", "_key_bytes", "_on_delivery", "_timestamp", "_value_bytes")

    # Hot: made once per record.  The metadata is built only when somebody asks for it.
    def __init__(
        self,
        batch: ProducerBatch,
        index: int,
        timestamp: int,
        key_bytes: int,
        value_bytes: int,
        on_delivery: OnDelivery | None,
    ) -> None:
        self._batch = batch
        self._index = index
        self._timestamp = timestamp
        self._key_bytes = key_bytes
        self._value_bytes = value_bytes
        self._on_delivery = on_delivery

    def done(self) -> bool:
        """True once the record is written or has failed."""
        return self._batch.is_done

    @property
    def is_done(self) -> bool:
        return self._batch.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record is; waits at most `timeout` seconds (None: until it is known).

        Raises:
            KafkaError: the record failed; the class says why.
            KafkaTimeoutError: the outcome is still open; the record stays on its way.
            IllegalState: called in a callback of the IO thread, before the record was done.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._metadata()

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """`result`, under kafka-python's name."""
        return self.result(timeout)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Why the record failed; None if it was written.  Waits as `result` does."""
        batch = self._batch
        if not batch.is_done:
            wait = float("inf") if timeout is None else timeout
            if not batch.wait_until(lambda: batch.is_done, wait):
                raise KafkaTimeoutError(
                    f"the record for {batch.topic}-{batch.partition} was neither written nor failed within "
                    f"{timeout:g} s; it stays on its way until delivery_timeout_ms"
                )
        if batch.error is not None:
            batch.mark_reported(self._index)
        return batch.error_of(self._index)

    def outcome(self) -> tuple[RecordMetadata | None, KafkaError | None]:
        """Metadata and error of a record that is done, one of them None; counts as nobody's being told."""
        if self._batch.error is not None:
            return None, self._batch.error_of(self._index)
        return self._metadata(), None

    def succeeded(self) -> bool:
        return self._batch.is_done and self._batch.error is None

    def failed(self) -> bool:
        return self._batch.is_done and self._batch.error is not None

    def add_done_callback(self, callback: Callable[[Delivery], Any]) -> Delivery:
        """Call `callback(self)` when done, on the IO thread; if it is done already, here and now."""
        self._batch.add_listener(lambda: callback(self))
        return self

    @overload
    def add_callback(self, callback: Callable[[RecordMetadata], object]) -> Delivery: ...

    @overload
    def add_callback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> Delivery: ...

    def add_callback(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Delivery:
        """Call `callback(*args, metadata, **kwargs)` when the record is written (kafka-python's form)."""

        def told() -> None:
            if self._batch.error is None:
                callback(*args, self._metadata(), **kwargs)

        self._batch.add_listener(told)
        return self

    @overload
    def add_errback(self, callback: Callable[[KafkaError], object]) -> Delivery: ...

    @overload
    def add_errback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> Delivery: ...

    def add_errback(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Delivery:
        """Call `callback(*args, error, **kwargs)` when the record has failed (kafka-python's form)."""

        def told() -> None:
            if self._batch.error is not None:
                self._batch.mark_reported(self._index)
                callback(*args, self._batch.error_of(self._index), **kwargs)

        self._batch.add_listener(told)
        return self

    @overload
    def add_both(self, callback: Callable[[RecordMetadata | KafkaError], object]) -> Delivery: ...

    @overload
    def add_both(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> Delivery: ...

    def add_both(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Delivery:
        """`add_callback` and `add_errback` with one callable."""
        return self.add_callback(callback, *args, **kwargs).add_errback(callback, *args, **kwargs)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        import asyncio

        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def set_done() -> None:
            if not done.done():
                done.set_result(None)

        self._batch.add_listener(lambda: loop.call_soon_threadsafe(set_done))
        yield from done
        return self.result(0)

    def _metadata(self) -> RecordMetadata:
        return self._batch.metadata_of(self._index, self._timestamp, self._key_bytes, self._value_bytes)

    def __repr__(self) -> str:
        batch = self._batch
        state = "pending" if not batch.is_done else "written" if batch.error is None else repr(batch.error)
        return f"<Delivery {batch.topic}-{batch.partition} {state}>"


class BulkDelivery(Sequence[Delivery]):
    """The outcome of one `send_many`: a sequence of deliveries that can be waited for as one."""

    __slots__ = ("_deliveries",)

    def __init__(self, deliveries: Sequence[Delivery]) -> None:
        self._deliveries = deliveries

    def __len__(self) -> int:
        return len(self._deliveries)

    def __getitem__(self, index: Any) -> Any:
        return self._deliveries[index]

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self._deliveries)

    def done(self) -> bool:
        return all(delivery.done() for delivery in self._deliveries)

    def result(self, timeout: float | None = None) -> list[RecordMetadata]:
        """Where the records are, in the order sent; raises the first failure, or `KafkaTimeoutError`."""
        if self._deliveries and not self.done():
            batch = self._deliveries[0]._batch
            if not batch.wait_until(self.done, float("inf") if timeout is None else timeout):
                left = sum(not delivery.done() for delivery in self._deliveries)
                raise KafkaTimeoutError(f"{left} of {len(self)} records are still on their way")
        return [delivery.result(0) for delivery in self._deliveries]

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """The first failure; None if all were written."""
        try:
            self.result(timeout)
        except KafkaTimeoutError:
            if not self.done():
                raise
        except KafkaError:
            pass
        return next((error for delivery in self._deliveries if (error := delivery.exception(0))), None)

    def __await__(self) -> Generator[Any, None, list[RecordMetadata]]:
        for delivery in self._deliveries:
            if not delivery.done():
                yield from delivery.__await__()
        return self.result(0)
