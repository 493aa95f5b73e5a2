"""Serve HTTP and Kafka in one FastAPI application.

Shows: clients that open and close with the application and can start before Kafka, a supervised task that
consumes and skips bad records, time limits for requests and shutdown, and probes that use `health()`.
Run it against a cluster of this process, or serve it with uvicorn beside your own cluster:

    python examples/fastapi_service.py
    KAFKA=localhost:9092 uvicorn --app-dir examples --factory fastapi_service:create_app
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Response

from pykafka2 import ConsumerRecord
from pykafka2.aio import KafkaConsumer, KafkaProducer
from pykafka2.errors import KafkaError
from pykafka2.testing import KafkaCluster

logger = logging.getLogger("orders")
TOPIC = "orders"
# A request takes at most ten seconds: five for metadata, five for the acknowledgement.
LIMITS = {"max_block_ms": 5000, "delivery_timeout_ms": 5000, "request_timeout_ms": 4000}
STOP_SECONDS = 5.0


def create_app(servers: str | None = None) -> FastAPI:
    """Return the application; clients are created for each run of it, in its event loop."""
    bootstrap_servers = servers or os.environ.get("KAFKA", "localhost:9092")
    totals: Counter[str] = Counter()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # No start(), which raises if Kafka is not available: the consumer waits, and requests get a 503.
        async with (
            KafkaProducer(bootstrap_servers=bootstrap_servers, **LIMITS) as producer,
            KafkaConsumer(
                TOPIC, bootstrap_servers=bootstrap_servers, group_id="totals", auto_offset_reset="earliest"
            ) as consumer,
        ):
            app.state.producer, app.state.consumer = producer, consumer
            app.state.consuming = asyncio.create_task(count(consumer, totals))
            app.state.consuming.add_done_callback(report)
            yield
            consumer.wakeup()  # ends the iteration after the current record; the exit of the block commits
            done, _ = await asyncio.wait([app.state.consuming], timeout=STOP_SECONDS)
            for task in done:
                task.result()  # raises the task's error, so that the failed record is not committed

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders/{customer}", status_code=202)
    async def order(customer: str, price: int) -> dict[str, int]:
        """Respond when the order is written."""
        value = json.dumps({"customer": customer, "price": price}).encode()
        try:
            written = await app.state.producer.send_and_wait(TOPIC, value, key=customer.encode())
        except KafkaError as error:
            raise HTTPException(503, f"the order was not acknowledged: {error}") from error
        return {"partition": written.partition, "offset": written.offset}

    @app.get("/totals/{customer}")
    async def total(customer: str) -> dict[str, int]:
        return {"total": totals[customer]}

    @app.get("/live")
    async def live(response: Response) -> dict[str, Any]:
        """Respond with 503 if only a restart helps."""
        return respond(response, fatal_problems(app))

    @app.get("/ready")
    async def ready(response: Response) -> dict[str, Any]:
        """Respond with 200 while a broker is connected and the consumer is a member of its group, or 503."""
        return respond(response, fatal_problems(app) + temporary_problems(app))

    return app


async def count(consumer: KafkaConsumer[bytes, bytes], totals: Counter[str]) -> None:
    """Add up the prices of all orders.  The consumer commits the records that were added."""
    async for record in consumer:
        add(record, totals)


def add(record: ConsumerRecord[bytes, bytes], totals: Counter[str]) -> None:
    """Add one order. Log and skip a record that cannot be parsed, so that it does not stop the service."""
    if record.value is None:
        return  # a tombstone: the order was deleted
    try:
        customer, price = parse(record.value)
    except (
        Exception
    ) as error:  # any error: Infinity is an OverflowError, a thousand brackets a RecursionError
        where = f"{record.topic}-{record.partition} at offset {record.offset}"
        logger.error("skipped the record of %s: %r", where, error)  # or send it to a dead-letter topic
    else:
        totals[customer] += price


def parse(value: bytes) -> tuple[str, int]:
    """Return customer and price of an order."""
    order = json.loads(value)
    return str(order["customer"]), int(order["price"])


def report(task: asyncio.Task[None]) -> None:
    """Log the error of the consuming task, which is not awaited. `/live` is 503 from then on."""
    if not task.cancelled() and task.exception() is not None:
        logger.error("the consuming task has ended", exc_info=task.exception())


def fatal_problems(app: FastAPI) -> list[str]:
    """Return why the service must be restarted; `health()` sends nothing and never blocks."""
    clients = (app.state.producer, app.state.consumer)
    problems = [f"a client is {client.health()['state']}" for client in clients if not is_open(client)]
    task: asyncio.Task[None] = app.state.consuming
    if task.done():
        failure = None if task.cancelled() else task.exception()
        problems.append(f"the consuming task has ended: {failure!r}")
    return problems


def is_open(client: KafkaProducer[Any, Any] | KafkaConsumer[Any, Any]) -> bool:
    return client.health()["state"] == "open"


def temporary_problems(app: FastAPI) -> list[str]:
    """Return why the service should receive no requests now; the clients recover by themselves."""
    consumer = app.state.consumer.health()
    if not consumer["connected"]:
        return [f"no broker is connected: {consumer['unreachable'] or 'not tried yet'}"]
    state = consumer["group"]["state"]
    return [] if state == "stable" else [f"the consumer is {state}"]


def respond(response: Response, problems: list[str]) -> dict[str, Any]:
    response.status_code = 503 if problems else 200
    return {"problems": problems}


def main() -> None:
    from fastapi.testclient import TestClient

    with KafkaCluster(
        brokers=1, topics={TOPIC: 3}, config={"group.initial.rebalance.delay.ms": 0}
    ) as cluster:
        with TestClient(create_app(cluster.bootstrap_servers)) as http:
            cluster.wait_until(lambda: http.get("/ready").status_code == 200)
            print("ready")
            for price in (5, 7, 30):
                assert http.post("/orders/ada", params={"price": price}).status_code == 202
            cluster.wait_until(lambda: http.get("/totals/ada").json() == {"total": 42})
            print("ada has ordered for 42")
        group = cluster.group("totals")
        print(f"stopped: {len(group.members)} members, {sum(group.offsets.values())} orders committed")


if __name__ == "__main__":
    main()
