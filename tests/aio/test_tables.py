"""Scans and writes of asyncio programs: the same rows, and nothing open after a cancelled read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pykafka2
from pykafka2 import aio
from pykafka2.errors import IllegalArgument
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

pytestmark = pytest.mark.kafka(brokers=1, topics={"orders": 2})


@pytest.mark.gate
def test_a_table_is_written_and_scanned(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    servers = kafka_cluster.bootstrap_servers

    async def program() -> None:
        result = await aio.write(
            pa.table({"id": [*range(100)]}), "orders", value="id", bootstrap_servers=servers
        )
        assert result.written == 100
        scan = await aio.scan("orders", value="text", bootstrap_servers=servers)
        assert (await scan.estimate()).rows == 100
        table = await scan.to_arrow()
        assert sorted(table["value"].to_pylist(), key=int) == [str(one) for one in range(100)]
        assert len(await scan.to_polars()) == len(await scan.to_pandas()) == 100
        assert await scan.to_parquet(tmp_path / "orders.parquet") == 100
        assert pq.read_table(tmp_path / "orders.parquet").num_rows == 100
        assert sum([batch.num_rows async for batch in scan]) == 100
        assert "orders" in scan._repr_html_()
        with pytest.raises(IllegalArgument):
            await aio.scan("orders", start=-1, bootstrap_servers=servers)

    run(program())


def test_a_cancelled_read_closes_its_consumer(kafka_cluster: KafkaCluster) -> None:
    """The fixture fails the test if a client, a thread or a socket is left."""
    servers = kafka_cluster.bootstrap_servers

    async def program() -> None:
        await aio.write(pa.table({"id": [*range(100)]}), "orders", value="id", bootstrap_servers=servers)
        scan = await aio.scan("orders", bootstrap_servers=servers)
        kafka_cluster.controls.hold("Fetch")
        read = asyncio.create_task(scan.to_arrow())
        while not kafka_cluster.controls.held():
            await asyncio.sleep(0.01)
        read.cancel()
        kafka_cluster.controls.release()
        with pytest.raises(asyncio.CancelledError):
            await read

    run(program())


def test_a_cancelled_parquet_file_does_not_exist(kafka_cluster: KafkaCluster, tmp_path: Path) -> None:
    servers = kafka_cluster.bootstrap_servers

    async def program() -> None:
        await aio.write(pa.table({"id": [*range(100)]}), "orders", value="id", bootstrap_servers=servers)
        scan = await aio.scan("orders", bootstrap_servers=servers)
        kafka_cluster.controls.hold("Fetch")
        written = asyncio.create_task(scan.to_parquet(tmp_path / "orders.parquet"))
        while not kafka_cluster.controls.held():
            await asyncio.sleep(0.01)
        written.cancel()
        await asyncio.sleep(0)
        kafka_cluster.controls.release()
        with pytest.raises(asyncio.CancelledError):
            await written
        assert list(tmp_path.iterdir()) == []

    run(program())


def test_a_cancelled_write_sends_no_further_rows(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers
    first, cancelled = threading.Event(), threading.Event()

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(100):
            first.set()
            assert cancelled.wait(30)
            yield pa.record_batch({"value": [str(number)]})

    async def program() -> None:
        reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.string())]), batches())
        task = asyncio.create_task(aio.write(reader, "orders", bootstrap_servers=servers))
        await asyncio.to_thread(first.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        cancelled.set()

    run(program())
    assert pykafka2.scan("orders", bootstrap_servers=servers).to_arrow().num_rows == 0


def test_single_batches_are_awaited(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers

    async def program() -> None:
        await aio.write(pa.table({"id": [*range(100)]}), "orders", value="id", bootstrap_servers=servers)
        scan = await aio.scan("orders", bootstrap_servers=servers)
        batches = scan.batches()
        assert (await anext(batches)).num_rows == 100
        assert await anext(batches, None) is None
        async for _ in scan:
            break

    run(program())
