"""The Spark sink's exactly-once protocol on Apache Kafka: killed at its steps, it loses and repeats nothing.

Without Spark (tests/spark/crashing.py); with it, `python -m tests.spark.kills --apache`.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from pykafka2 import KafkaAdminClient, NewTopic
from tests.spark.committed import committed
from tests.spark.crashing import Query

from .brokers import Cluster

pytest.importorskip("pyspark", reason="the sink's messages are Spark's")

pytestmark = pytest.mark.long

KILLS = [
    ("exactly_once", ["after-flush:4"]),
    ("exactly_once", ["before-decided:2"]),
    ("exactly_once", ["after-decided:2"]),
    ("exactly_once", ["between-ends:2", "in-recovery:1"]),
    ("exactly_once", ["between-ends:1", "between-ends:1", "before-claim:1"]),
    ("exactly_once", ["before-done:2", "before-done:1"]),
    ("exactly_once", ["after-done:3"]),
    ("exactly_once_per_task", ["after-flush:4"]),
    ("exactly_once_per_task", ["before-done:2", "after-append:2"]),
]


@pytest.mark.parametrize(("delivery", "kills"), KILLS, ids=[f"{d}, {'; '.join(k)}" for d, k in KILLS])
def test_kills_lose_and_repeat_nothing(
    apache: Cluster, tmp_path: Path, delivery: str, kills: list[str]
) -> None:
    topic = f"spark-{uuid.uuid4().hex[:8]}"
    with KafkaAdminClient(bootstrap_servers=apache.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, partitions=4)])
        admin.wait_for_topics([topic], timeout=30)
    options = {
        "kafka.bootstrap.servers": apache.bootstrap_servers,
        "topic": topic,
        "delivery": delivery,
        "ledgerTopic": f"{topic}-ledger",
    }
    query = Query(tmp_path, options)
    for kill in kills:
        assert query.run(kill) == -9, kill
    assert query.run() == 0
    assert committed(apache.bootstrap_servers, topic) == query.expected()
