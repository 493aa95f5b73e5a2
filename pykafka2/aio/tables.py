"""`scan` and `write` for asyncio: the calls of `pykafka2.tables`, awaited.

A read runs step by step on a helper thread, so it never blocks the loop. A cancelled task ends the read after
its current step, and the connections are closed.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pykafka2.tables import scan as sync_scan
from pykafka2.tables import write as sync_write
from pykafka2.tables.libraries import load
from pykafka2.tables.scan import Estimate, Scan
from pykafka2.tables.write import Written

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


async def scan(topics: Any, **arguments: Any) -> AsyncScan:
    """Return a bounded part of topics as a table. Arguments and errors are those of `pykafka2.scan`."""
    return AsyncScan(await asyncio.to_thread(sync_scan.scan, topics, **arguments))


async def write(data: Any, topic: str, **arguments: Any) -> Written:
    """Write each row of a table as a record. Arguments and errors are those of `pykafka2.write`.

    A cancelled task does not wait. The rows whose turn has come (50,000 at a time) are still written, and the
    others are not.
    """
    stop = threading.Event()

    def work() -> Written:
        load("numpy")
        load("pyarrow")
        reader = sync_write.reader_of(data)
        parts = _until(stop, sync_write.parts_of(reader))
        return sync_write.write(type(reader).from_batches(reader.schema, parts), topic, **arguments)

    try:
        return await asyncio.to_thread(work)
    finally:
        stop.set()


class AsyncScan:
    """A `pykafka2.Scan` whose reads are awaited; `async for batch in scan` iterates over record batches."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        """The scan itself, for libraries that read it on threads of their own."""

    def __repr__(self) -> str:
        return repr(self.scan)

    def _repr_html_(self) -> str:
        return self.scan._repr_html_()

    def __aiter__(self) -> AsyncIterator[pyarrow.RecordBatch]:
        return self.batches()

    async def batches(self) -> AsyncIterator[pyarrow.RecordBatch]:
        """Iterate over record batches; see `Scan.batches`."""
        batches = self.scan.batches()
        step: asyncio.Future[Any] | None = None
        try:
            while True:
                step = asyncio.ensure_future(asyncio.to_thread(next, batches, None))
                batch = await asyncio.shield(step)
                if batch is None:
                    return
                yield batch
        finally:
            await asyncio.shield(_ended(step, batches))

    async def to_arrow(self) -> pyarrow.Table:
        """Return a pyarrow.Table."""
        return self.scan.table_of([batch async for batch in self.batches()])

    async def to_polars(self) -> polars.DataFrame:
        """Return a polars.DataFrame."""
        from pykafka2.tables.polars_source import frame_of

        table = await self.to_arrow()
        return frame_of(iter(table.to_batches()), table.schema)

    async def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Return a pandas.DataFrame; `options` are those of `pyarrow.Table.to_pandas`."""
        return (await self.to_arrow()).to_pandas(**options)

    async def to_parquet(self, path: str | os.PathLike[str], **options: Any) -> int:
        """Write a Parquet file, and return the number of rows. A cancelled task leaves no part of it."""
        stop = threading.Event()
        step = asyncio.ensure_future(asyncio.to_thread(self._write_parquet, stop, path, options))
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([step])
            with suppress(BaseException):
                step.result()  # belongs to the task that was cancelled
            raise

    def _write_parquet(
        self, stop: threading.Event, path: str | os.PathLike[str], options: dict[str, Any]
    ) -> int:
        from pykafka2.tables.parquet import write_parquet

        reader = self.scan.reader()
        batches = _until(stop, reader)
        return write_parquet(type(reader).from_batches(reader.schema, batches), os.fspath(path), options)

    async def estimate(self) -> Estimate:
        """Return how many rows and bytes the scan reads at most."""
        return await asyncio.to_thread(self.scan.estimate)


class _Stopped(Exception):
    """Ends the work of a thread whose task was cancelled."""


def _until(stop: threading.Event, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches; raise once `stop` is set."""
    for batch in batches:
        if stop.is_set():
            raise _Stopped
        yield batch


async def _ended(step: asyncio.Future[Any] | None, batches: Iterator[Any]) -> None:
    """Wait for the current step, and close the connections of the read."""
    if step is not None and not step.done():
        await asyncio.wait([step])
    if step is not None and not step.cancelled():
        step.exception()  # was raised, or belongs to a task that was cancelled
    await asyncio.to_thread(batches.close)  # type: ignore[attr-defined]
