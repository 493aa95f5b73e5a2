"""Serve HTTP and Kafka in one FastAPI application.

Shows: a producer that opens and closes with the application, a task that consumes, and a readiness probe from
`health()`.  Run it against a cluster of this process, or serve it with uvicorn beside your own cluster:

    python examples/fastapi_service.py
    KAFKA=localhost:9092 uvicorn --app-dir examples --factory fastapi_service:create_app
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Response

from pykafka2.aio import KafkaConsumer, KafkaProducer
from pykafka2.errors import KafkaError
from pykafka2.testing import KafkaCluster

TOPIC = "orders"


def create_app(servers: str | None = None) -> FastAPI:
    """Return the application; clients are created for each run of it, in its event loop."""
    bootstrap_servers = servers or os.environ.get("KAFKA", "localhost:9092")
    totals: Counter[str] = Counter()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with (
            KafkaProducer(bootstrap_servers=bootstrap_servers) as producer,
            KafkaConsumer(
                TOPIC,
                bootstrap_servers=bootstrap_servers,
                group_id="totals",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer,
        ):
            app.state.producer, app.state.consumer = producer, consumer
            app.state.consuming = asyncio.create_task(count(consumer, totals))
            yield
            consumer.wakeup()  # ends the iteration, so that the last record is counted and committed
            await app.state.consuming

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders/{customer}", status_code=202)
    async def order(customer: str, price: int) -> dict[str, int]:
        """Answer when the order is written."""
        value = json.dumps({"customer": customer, "price": price}).encode()
        try:
            written = await app.state.producer.send_and_wait(TOPIC, value, key=customer.encode())
        except KafkaError as error:
            raise HTTPException(503, f"the order was not written: {error}") from error
        return {"partition": written.partition, "offset": written.offset}

    @app.get("/totals/{customer}")
    async def total(customer: str) -> dict[str, int]:
        return {"total": totals[customer]}

    @app.get("/ready")
    async def ready(response: Response) -> dict[str, Any]:
        """Answer 200 while the producer works and the consumer is a member of its group, otherwise 503."""
        problems = problems_of(app)
        response.status_code = 503 if problems else 200
        return {"problems": problems}

    return app


async def count(consumer: KafkaConsumer[bytes, bytes], totals: Counter[str]) -> None:
    """Add up the prices of all orders, and commit what was added."""
    async for record in consumer:
        order = json.loads(record.value or b"{}")
        totals[order["customer"]] += order["price"]
        await consumer.commit()


def problems_of(app: FastAPI) -> list[str]:
    """Return why the service should receive no requests; `health()` sends nothing and never blocks."""
    producer, consumer = app.state.producer.health(), app.state.consumer.health()
    task: asyncio.Task[None] = app.state.consuming
    problems = [client["failure"] for client in (producer, consumer) if client["failure"]]
    if task.done():
        failure = None if task.cancelled() else task.exception()
        problems.append(f"the consuming task has ended: {failure!r}")
    if not consumer["connected"]:
        problems.append(f"no broker is connected: {consumer['metadata_error']}")
    elif consumer["group"]["state"] != "stable":
        problems.append(f"the consumer is {consumer['group']['state']}")
    return problems


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
