"""The share consumers of `benchmarks.share`, each in the way its documentation recommends.

A client is a function of a run that returns an iterator over the numbers of records that it reads at a time,
and closes the consumer when it is closed. Each reads the value of every record. `java_tool` runs Java's tool.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from benchmarks.share.runs import MAX_POLL_RECORDS, Run
from benchmarks.side_by_side.measured import Measured
from benchmarks.side_by_side.turns import with_compiled

REPORT_MS = 500
"""How often Java's tool prints its count. The time starts with its first line."""
TIMEOUT_MS = 120_000
DATE = "%Y-%m-%d %H:%M:%S:%f"
AT_ONCE = 1000


def _options(run: Run) -> dict[str, Any]:
    servers, group = run.bootstrap_servers, run.options["group"]
    return {"bootstrap_servers": servers, "group_id": group, "max_poll_records": MAX_POLL_RECORDS}


def pykafka2_poll(run: Run) -> Iterator[int]:
    from pykafka2 import KafkaShareConsumer

    with KafkaShareConsumer(run.topic, **_options(run)) as consumer:
        while True:
            count = 0
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    count += record.value is not None
            yield count


def pykafka2_blocks(run: Run) -> Iterator[int]:
    from pykafka2 import KafkaShareConsumer

    with KafkaShareConsumer(run.topic, **_options(run), consumer_timeout_ms=1000) as consumer:
        while True:
            count = 0
            for record in consumer:
                with record:
                    count += record.value is not None
                if count == AT_ONCE:
                    yield count
                    count = 0
            yield count


def pykafka2_tasks(run: Run) -> Iterator[int]:
    from pykafka2.aio import KafkaShareConsumer

    async def take(records: Any) -> int:
        count = 0
        async for record in records:
            async with record:
                count += record.value is not None
            if count == AT_ONCE:
                break
        return count

    async def start() -> tuple[Any, Any]:
        consumer = KafkaShareConsumer(run.topic, **_options(run), consumer_timeout_ms=1000)
        return consumer, aiter(consumer)

    with asyncio.Runner() as runner:
        consumer, records = runner.run(start())
        try:
            while True:
                count = runner.run(take(records))
                yield count
                if not count:
                    records = aiter(consumer)
        finally:
            runner.run(consumer.close())


def confluent_poll(run: Run) -> Iterator[int]:
    from confluent_kafka import ShareConsumer

    consumer: Any = ShareConsumer(
        {
            "bootstrap.servers": run.bootstrap_servers,
            "group.id": run.options["group"],
            "max.poll.records": MAX_POLL_RECORDS,
        }
    )
    consumer.subscribe([run.topic])
    try:
        while True:
            count = 0
            for message in consumer.poll(timeout=1.0) or ():
                count += message.error() is None and message.value() is not None
            yield count
    finally:
        consumer.close()


JAVA = "Java's ShareConsumerPerformance"
POLL, BLOCKS, CONFLUENT = "pykafka2 poll", "pykafka2 with record", "confluent-kafka poll"
PYTHON_CLIENTS: dict[str, Callable[[Run], Iterator[int]]] = {
    POLL: pykafka2_poll,
    BLOCKS: pykafka2_blocks,
    "pykafka2.aio with record": pykafka2_tasks,
    CONFLUENT: confluent_poll,
}
CLIENTS = with_compiled(PYTHON_CLIENTS, POLL, BLOCKS)


def java_tool(run: Run) -> Measured:
    """Run Kafka's tool. Its processor time has the start of the JVM in it, its rate has not."""
    from tests.conformance.maven import kafka_jars

    arguments = {
        "--bootstrap-server": run.bootstrap_servers,
        "--topic": run.topic,
        "--group": run.options["group"],
        "--num-records": str(run.records),
        "--timeout": str(TIMEOUT_MS),
        "--reporting-interval": str(REPORT_MS),
        "--command-property": f"max.poll.records={MAX_POLL_RECORDS}",
    }
    command = ["java", "-cp", kafka_jars().class_path(), "org.apache.kafka.tools.ShareConsumerPerformance"]
    command += ["--show-detailed-stats", "--hide-header"]
    command += [word for option in arguments.items() for word in option]
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read()
    reports = [line.split(", ") for line in text.splitlines() if line.count(", ") >= 6 and line[:2] == "20"]
    if process.returncode or len(reports) < 2:
        raise RuntimeError(f"status {process.returncode}: {text[-2000:]}")
    first, last = reports[0], reports[-1]
    seconds = (datetime.strptime(last[1], DATE) - datetime.strptime(first[1], DATE)).total_seconds()
    count = int(last[5]) - int(first[5])
    cpu_us = (used.ru_utime + used.ru_stime) / int(last[5]) * 1e6
    return Measured(count / seconds, cpu_us, used.ru_maxrss / 1024)
