"""Tests that freeze Python's clocks with freezegun: brokers and clients keep the operating system's clock."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib import reload

import pytest
from freezegun import freeze_time

from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.clock import SystemClock
from pykafka2.testing import KafkaCluster
from spark_connector import clock as spark_clock

pytestmark = pytest.mark.slow  # freezegun reads each attribute of each module

PAST, FUTURE = "2001-02-03", "2101-02-03"

IMPORTED_WHILE_FROZEN = """
from freezegun import freeze_time

with freeze_time("2001-02-03"):
    from pykafka2 import KafkaProducer
    from pykafka2.testing import KafkaCluster

    with KafkaCluster(1, {"orders": 1}) as cluster:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("orders", b"one").get(60)
        print(cluster.log("orders", 0).values())
"""


def _exchanged(cluster: KafkaCluster) -> list[int]:
    """Send two records in different ways, read them in a group and commit; return their timestamps."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("orders", b"one").get(60)
        producer.send_many("orders", [b"two"]).get(60)
    options = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
    with KafkaConsumer("orders", group_id="readers", **options) as consumer:
        records = [next(consumer), next(consumer)]
        consumer.commit()
    assert cluster.group("readers").state == "Empty"
    return [record.timestamp for record in records]


@pytest.mark.gate
@pytest.mark.parametrize("date", [PAST, FUTURE])
def test_records_are_accepted_and_have_real_timestamps_while_the_clock_is_frozen(date: str) -> None:
    since_ms = time.time() * 1000 - 1
    with freeze_time(date), KafkaCluster(1, {"orders": 1}) as cluster:
        timestamps = _exchanged(cluster)
    assert all(since_ms <= one <= time.time() * 1000 for one in timestamps)


@pytest.mark.gate
def test_records_are_accepted_if_the_clock_freezes_after_the_start_of_cluster_and_client() -> None:
    with (
        KafkaCluster(1, {"orders": 1}) as cluster,
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        producer.send("orders", b"one").get(60)
        for date in (PAST, FUTURE):
            with freeze_time(date):
                producer.send("orders", b"two").get(60)
        producer.send("orders", b"three").get(60)
        assert cluster.log("orders", 0).values() == [b"one", b"two", b"two", b"three"]


def test_wall_clock_in_ms_and_ns_agree_while_the_clock_is_frozen() -> None:
    clock = SystemClock()
    with freeze_time(PAST):
        before, between, after = clock.wall_ns(), clock.wall_ms(), clock.wall_ns()
    assert before // 1_000_000 <= between <= after // 1_000_000


@pytest.mark.gate
def test_clock_of_the_spark_connector_is_real_while_the_clock_is_frozen() -> None:
    since, wall = time.monotonic(), time.time()
    with freeze_time(PAST):
        times = [(spark_clock.monotonic(), spark_clock.wall())]
        reload(spark_clock)  # as if it were imported while the clock is frozen
        times.append((spark_clock.monotonic(), spark_clock.wall()))
    times.append((spark_clock.monotonic(), spark_clock.wall()))
    for between, now in times:
        assert since <= between <= time.monotonic()
        assert wall - 1 <= now <= time.time() + 1


@pytest.mark.gate
def test_cluster_works_if_the_package_is_imported_while_the_clock_is_frozen() -> None:
    """Also the monotonic clock is real then, so that timers fire."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED_WHILE_FROZEN], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("[b'one']\n", "")
