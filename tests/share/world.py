"""Clusters and consumers for the tests of share consumers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from pykafka2 import KafkaAdminClient, KafkaProducer, KafkaShareConsumer, ShareRecord
from pykafka2.admin.config_values import ConfigResource, ConfigResourceType
from pykafka2.testing import KafkaCluster
from tests.broker.share.live import SMALL

QUICK = {
    **SMALL,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 100,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": 15000,
}
"""Members get their assignment soon, and locks can be short."""

TOPICS = {"t": 2, "u": 2}


def configure(cluster: KafkaCluster, group_id: str = "g", **options: object) -> None:
    """Set options of a share group, which reads from the earliest offset."""
    values = {name.replace("_", "."): str(value) for name, value in options.items()}
    resource = ConfigResource(ConfigResourceType.GROUP, group_id)
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.alter_configs({resource: {"share.auto.offset.reset": "earliest", **values}})


def fill(cluster: KafkaCluster, count: int, topics: Iterable[str] = TOPICS) -> set[tuple[str, bytes]]:
    """Send so many records to each topic; return their topics and values."""
    sent = {(topic, b"%d" % number) for topic in topics for number in range(count)}
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for topic, value in sorted(sent):
            producer.send(topic, value)
    return sent


def consumer(cluster: KafkaCluster, **options: Any) -> KafkaShareConsumer[Any, Any]:
    """Return a member of group g."""
    values: Mapping[str, Any] = {
        "group_id": "g",
        "bootstrap_servers": cluster.bootstrap_servers,
        "fetch_max_wait_ms": 50,
        **options,
    }
    return KafkaShareConsumer(*TOPICS, **values)


def take(
    member: KafkaShareConsumer[Any, Any], count: int, most_polls: int = 400
) -> list[ShareRecord[Any, Any]]:
    """Poll until so many records have arrived."""
    found: list[ShareRecord[Any, Any]] = []
    for _ in range(most_polls):
        for records in member.poll(100, count - len(found)).values():
            found += records
        if len(found) >= count:
            return found
    raise AssertionError(f"{len(found)} of {count} records arrived. {member.explain()}")


def wait_for_fetches(member: KafkaShareConsumer[Any, Any]) -> None:
    """Wait for the end of the last fetch: it would acquire records that are released meanwhile.

    The last poll can have left its request to the IO thread, which has sent it after this turn.
    """
    has_turned = threading.Event()
    member._core.cluster.driver.call_soon(lambda now: has_turned.set())
    assert has_turned.wait(60)
    limit = time.monotonic() + 60
    while any(of["in_flight"] for of in member.health()["brokers"].values()):
        assert time.monotonic() < limit, member.explain()
        time.sleep(0.01)


def identity(records: Iterable[ShareRecord[Any, Any]]) -> set[tuple[str, Any]]:
    return {(record.topic, record.value) for record in records}
