"""Futures of sent records, which share the outcome of their batch.

A `Delivery` holds that outcome and its index in it, and no lock or event of its own; only its user holds the
delivery. Waiting happens on the caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, overload

from pykafka2.driver.loop_wait import wait_in_loop
from pykafka2.errors import KafkaError, KafkaTimeoutError
from pykafka2.flattened import flattened
from pykafka2.producer.delivery.batch_outcome import BatchOutcome
from pykafka2.producer.delivery.callbacks import is_same
from pykafka2.producer.delivery.loop_future import LoopFuture
from pykafka2.types import RecordMetadata

OnDelivery = Callable[[RecordMetadata | None, KafkaError | None], None]
"""Called once per record as `on_delivery(metadata, error)`; exactly one of the two is None.

It runs on the IO thread and must not block: `flush`, `close`, `result` and a blocking `send` raise
`IllegalState` inside it. Its exceptions are logged.
"""


class _FieldOfResult:
    """Raises the error for a field of RecordMetadata that is read from a delivery.

    A `__getattr__` would do, but it slows every attribute of the class.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, delivery: object, owner: type | None = None) -> Any:
        if delivery is None:
            return self
        name = self._name
        raise AttributeError(
            f"a Delivery has no {name}; await the delivery first: (await delivery).{name}; without asyncio "
            f"write delivery.result().{name}"
        )


@flattened
class Delivery(LoopFuture):
    """The future of one sent record.  Thread-safe; can be awaited, and passed to `asyncio.gather`.

    It has the methods of kafka-python's futures (`get`, `add_callback`, `add_errback`, `is_done`,
    `succeeded`, `failed`) and of `concurrent.futures` (`result`, `exception`, `done`, `add_done_callback`).
    """

    __slots__ = ("batch_index", "batch_outcome")

    # Set by accumulator/open_batch.py, as an __init__ would take a tenth of a record's time.
    batch_outcome: BatchOutcome
    batch_index: int

    if not TYPE_CHECKING:
        topic = _FieldOfResult()
        partition = _FieldOfResult()
        offset = _FieldOfResult()
        timestamp = _FieldOfResult()

    @property
    def place(self) -> tuple[BatchOutcome, int]:
        """Return the batch's outcome and the record's index in it."""
        return self.batch_outcome, self.batch_index

    def done(self) -> bool:
        """Return whether the record was written or has failed."""
        return self.batch_outcome.is_done

    @property
    def is_done(self) -> bool:
        """Whether the record was written or has failed; kafka-python's name for `done`."""
        return self.batch_outcome.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return the metadata of the record; waits at most `timeout` seconds (None: without limit).

        Raises:
            KafkaError: the record failed; the class is the reason.
            KafkaTimeoutError: there is no result yet; the record is still being sent.
            IllegalState: called in a callback of the IO thread, before the record was done.
        """
        outcome = self.batch_outcome
        if not outcome.is_done:
            self._wait(timeout)
        if outcome.has_errors:
            error = self.exception()
            if error is not None:
                raise error.anew()  # all records of the batch share the error
        return outcome.metadata_of(self.batch_index)

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Return the result; kafka-python's name for `result`."""
        return self.result(timeout)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Return the error of a failed record, None if it was written; waits like `result`."""
        outcome = self.batch_outcome
        if not outcome.is_done:
            self._wait(timeout)
        if not outcome.has_errors:
            return None
        error = outcome.error_of(self.batch_index)
        if error is not None:
            outcome.mark_reported(self.batch_index)
        return error

    def _wait(self, timeout: float | None) -> None:
        outcome = self.batch_outcome
        if outcome.loop_callbacks is not None and self.cancelled():
            raise self._make_cancelled_error()  # as asyncio.wait_for expects from what it has cancelled
        if not outcome.wait(timeout):
            raise KafkaTimeoutError(
                f"the record for {outcome.topic}-{outcome.partition} has no result after "
                f"{timeout:g} s; the producer continues to send it until delivery_timeout_ms"
            )

    def outcome(self) -> tuple[RecordMetadata | None, KafkaError | None]:
        """Return metadata and error of a finished record, one of them None, without marking it reported."""
        error = self.batch_outcome.error_of(self.batch_index)
        return (self.batch_outcome.metadata_of(self.batch_index), None) if error is None else (None, error)

    def succeeded(self) -> bool:
        """Return whether the record was written."""
        return self.batch_outcome.is_done and self.batch_outcome.error_of(self.batch_index) is None

    def failed(self) -> bool:
        """Return whether the record has failed."""
        return self.batch_outcome.is_done and self.batch_outcome.error_of(self.batch_index) is not None

    @overload
    def add_callback(self, callback: Callable[[RecordMetadata], object]) -> Delivery: ...

    @overload
    def add_callback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> Delivery: ...

    def add_callback(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Delivery:
        """Call `callback(*args, metadata, **kwargs)` when the record is written (kafka-python's form)."""
        outcome, index, listeners = self.batch_outcome, self.batch_index, self.batch_outcome.callbacks
        run = None if listeners is None or args or kwargs else listeners.last
        # The usual case of `_listen`, without its call.
        if run is not None and run.callback is callback and run.end == index and not outcome.is_done:
            run.end = index + 1
            return self
        return self._listen(0, callback, args, kwargs)

    @overload
    def add_errback(self, callback: Callable[[KafkaError], object]) -> Delivery: ...

    @overload
    def add_errback(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> Delivery: ...

    def add_errback(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Delivery:
        """Call `callback(*args, error, **kwargs)` when the record has failed (kafka-python's form)."""
        outcome, index, listeners = self.batch_outcome, self.batch_index, self.batch_outcome.errbacks
        run = None if listeners is None or args or kwargs else listeners.last
        # The usual case of `_listen`, without its call.
        if run is not None and run.callback is callback and run.end == index and not outcome.is_done:
            run.end = index + 1
            return self
        return self._listen(1, callback, args, kwargs)

    def _listen(
        self, kind: int, callback: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Delivery:
        """Add a callback (0) or an errback (1); call it at once if the batch's callbacks have been called."""
        outcome, index = self.batch_outcome, self.batch_index
        listeners = outcome.listeners()[kind]
        if args or kwargs:
            callback = partial(callback, *args, **kwargs)
        run = listeners.last
        # No call follows `is_same`, or the IO thread could take the run before it has this record.
        if (
            run is not None
            and (run.callback is callback or is_same(run.callback, callback))
            and run.end == index
            and not outcome.is_done
        ):
            run.end = index + 1
            return self
        listeners.add(index, callback)
        if outcome.is_done:
            outcome.run_callbacks()
        return self

    @overload
    def add_both(self, callback: Callable[[RecordMetadata | KafkaError], object]) -> Delivery: ...

    @overload
    def add_both(self, callback: Callable[..., object], *args: Any, **kwargs: Any) -> Delivery: ...

    def add_both(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Delivery:
        """Call one function for both results, like `add_callback` and `add_errback`."""
        return self.add_callback(callback, *args, **kwargs).add_errback(callback, *args, **kwargs)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        outcome = self.batch_outcome
        if not outcome.is_done:
            yield from wait_in_loop(self.done, outcome.waiters)
        ready = outcome.ready
        if ready is not None:  # as in `metadata_of`, without its call
            index = self.batch_index
            metadata = ready[index]
            if metadata is not None:
                ready[index] = None
                return metadata
        return self.result(0) if outcome.has_errors else outcome.metadata_of(self.batch_index)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Delivery cannot be pickled or copied, because it belongs to this process's producer; pass on "
            "its result() instead"
        )

    def __repr__(self) -> str:
        outcome = self.batch_outcome
        state = "pending"
        if outcome.is_done:
            error = outcome.error_of(self.batch_index)
            state = "written" if error is None else repr(error)
        return f"<Delivery {outcome.topic}-{outcome.partition} {state}>"
