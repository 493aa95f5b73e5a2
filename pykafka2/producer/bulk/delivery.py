"""The delivery of one `send_many`: a completion for each batch of its records.

A share is a run of consecutive records in one batch, whose outcome it reads (delivery/batch_outcome.py).
Waiting happens on the caller's thread, callbacks run on the IO thread.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

from pykafka2.driver.loop_wait import wait_in_loop
from pykafka2.errors import KafkaError, KafkaTimeoutError
from pykafka2.producer.bulk.interception import BulkInterception, HeadersOf
from pykafka2.producer.delivery.batch_outcome import IS_DONE, BatchOutcome
from pykafka2.slotted import slotted
from pykafka2.types import BatchMetadata

OnBatch = Callable[[BatchMetadata | None, KafkaError | None], object]
"""Called once per batch as `on_delivery(metadata, error)`; exactly one of the two is None."""


Report = Callable[["Share"], None]
"""Reports the outcome of a share to callbacks."""


@slotted(eq=False)
class Share:
    """Consecutive records of the call: their rows, and the index of the first in the batch."""

    outcome: BatchOutcome
    first: int
    rows: Sequence[int]

    def results(self) -> Iterator[tuple[Sequence[int], BatchMetadata | KafkaError]]:
        """Yield rows and their result, for a share that is done.

        There is one pair unless the batch was split, or records have errors of their own (KIP-467).
        """
        outcome = self.outcome
        for first, count, part in outcome.parts_of(self.first, len(self.rows)):
            rows = self.rows[first - self.first : first - self.first + count]
            if part.error is None:
                shift = first - part.first
                offset = part.base_offset + shift if part.base_offset >= 0 else part.base_offset
                yield (
                    rows,
                    BatchMetadata(outcome.topic, outcome.partition, offset, rows, part.log_append_time),
                )
                continue
            start = 0
            for number in range(1, count + 1):
                error = outcome.error_of(first + start)
                if number == count or outcome.error_of(first + number) is not error:
                    yield rows[start:number], error or part.error
                    start = number

    def mark_reported(self) -> None:
        for index in range(self.first, self.first + len(self.rows)):
            self.outcome.mark_reported(index)


class BulkDelivery:
    """The future of one `send_many`.  Thread-safe; can be awaited.  `len()` is the number of its records."""

    __slots__ = ("_count", "_shares")

    def __init__(self, shares: Sequence[Share]) -> None:
        self._shares = shares
        self._count = sum(len(share.rows) for share in shares)

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a BulkDelivery cannot be pickled or copied, as it waits for this process's producer. Pass its "
            "result() or failures(), which are plain data"
        )

    def done(self) -> bool:
        """Return whether all records were written or have failed."""
        return all(share.outcome.is_done for share in self._shares)

    @property
    def is_done(self) -> bool:
        """Whether all records were written or have failed; kafka-python's name for `done`."""
        return self.done()

    def result(self, timeout: float | None = None) -> list[BatchMetadata]:
        """Return the metadata of each batch; waits at most `timeout` seconds (None: without limit).

        Raises:
            KafkaError: records failed; this is the first error, and `failures` has all.
            KafkaTimeoutError: outcomes are still open; the records are still being sent.
            IllegalState: called in a callback of the IO thread, before all records were done.
        """
        self._wait(timeout)
        failures = self._failures()
        if failures:
            raise failures[0][1].anew()
        return self.written()

    def get(self, timeout: float | None = None) -> list[BatchMetadata]:
        """Return the result; kafka-python's name for `result`."""
        return self.result(timeout)

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Return the first error, or None if all records were written; waits like `result`."""
        self._wait(timeout)
        failures = self._failures()
        return failures[0][1] if failures else None

    def failures(self, timeout: float | None = None) -> list[tuple[Sequence[int], KafkaError]]:
        """Return the row numbers of failed records with their errors; waits like `result`."""
        self._wait(timeout)
        return self._failures()

    def written(self) -> list[BatchMetadata]:
        """Return the batches that were written so far."""
        return [
            result
            for share in self._shares
            if share.outcome.is_done
            for _, result in share.results()
            if isinstance(result, BatchMetadata)
        ]

    def _failures(self) -> list[tuple[Sequence[int], KafkaError]]:
        failures = []
        for share in self._shares:
            found = [(rows, result) for rows, result in share.results() if isinstance(result, KafkaError)]
            if found:
                share.mark_reported()
            failures += found
        return failures

    def _wait(self, timeout: float | None) -> None:
        waiting = [share.outcome for share in self._shares if not share.outcome.is_done]

        def all_done() -> bool:
            while waiting and waiting[-1].is_done:
                waiting.pop()
            return not waiting

        if waiting and not waiting[0].wait_for(all_done, timeout, [one.waiters for one in waiting]):
            left = sum(len(share.rows) for share in self._shares if not share.outcome.is_done)
            raise KafkaTimeoutError(
                f"{left} of {len(self)} records have no outcome yet. They are still being sent"
            )

    def __await__(self) -> Generator[Any, None, list[BatchMetadata]]:
        for share in self._shares:
            outcome = share.outcome
            yield from wait_in_loop(partial(IS_DONE, outcome), outcome.waiters)
        return self.result(0)

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"<BulkDelivery of {len(self)} records in {len(self._shares)} batches, {state}>"


def reporter(
    on_delivery: OnBatch | None, interception: BulkInterception | None, headers_of: HeadersOf
) -> Report | None:
    """Return the function that reports a share's outcome to interceptors and on_delivery, or None.

    on_delivery is called once, unless the batch was split or records have errors of their own.
    """
    if on_delivery is None and interception is None:
        return None

    def report(share: Share) -> None:
        for rows, result in share.results():
            error = result if isinstance(result, KafkaError) else None
            metadata = result if isinstance(result, BatchMetadata) else None
            if interception is not None:
                interception.acknowledged(metadata, error, rows, headers_of)
            if on_delivery is not None:
                if error is not None:
                    share.mark_reported()
                on_delivery(metadata, error)

    return report
