"""Clients that connect, log in at the address from the bootstrap, request metadata once, and close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.security.runs import Run

TIMEOUT = 10.0


def pykafka2(run: Run) -> None:
    from pykafka2 import KafkaAdminClient

    with KafkaAdminClient(**run.for_pykafka2()) as admin:
        admin.describe_cluster(timeout=TIMEOUT)


def confluent(run: Run) -> None:
    from confluent_kafka.admin import AdminClient

    AdminClient(run.for_confluent() | {"socket.nagle.disable": True}).list_topics(timeout=TIMEOUT)


def kafka_python(run: Run) -> None:
    from kafka import KafkaAdminClient

    admin: Any = KafkaAdminClient(**_as_kafka_python(run))
    try:
        admin.describe_cluster()
    finally:
        admin.close()


def aiokafka(run: Run) -> None:
    import asyncio

    from aiokafka.admin import AIOKafkaAdminClient

    async def log_in() -> None:
        admin: Any = AIOKafkaAdminClient(**_as_kafka_python(run))
        await admin.start()
        await admin.close()

    asyncio.run(log_in())


def _as_kafka_python(run: Run) -> dict[str, Any]:
    names = {"sasl_username": "sasl_plain_username", "sasl_password": "sasl_plain_password"}
    return {names.get(name, name): value for name, value in run.for_pykafka2().items()}


LOGINS: dict[str, Callable[[Run], None]] = {
    "pykafka2": pykafka2,
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}
