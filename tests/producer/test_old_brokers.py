"""A broker that is too old for record batches of format 2 gets nothing, and the record's error says so."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import UnsupportedVersion
from tests.cluster.scripted import BOOTSTRAP, ScriptedCluster

PRODUCE = 0


@pytest.mark.parametrize(
    ("newest", "options", "needed"),
    [(2, {}, "3 to 13"), (6, {"compression_type": "zstd"}, "7 to 13")],
    ids=["format 2", "zstd"],
)
def test_a_broker_that_is_too_old_is_named_with_its_versions(
    newest: int, options: dict[str, Any], needed: str
) -> None:
    cluster = ScriptedCluster(1, {"orders": [0]})
    [broker] = cluster.brokers
    broker.versions[PRODUCE] = (0, newest)
    runtime: Any = cluster.runtime
    producer = KafkaProducer(
        runtime=runtime, bootstrap_servers=BOOTSTRAP, enable_idempotence=False, **options
    )
    delivery = producer.send("orders", b"v")
    with pytest.raises(
        UnsupportedVersion,
        match=rf"broker-0:9092\) supports Produce versions 0 to {newest}, but this needs {needed}",
    ):
        delivery.result(5)
    assert producer.health()["records_waiting"] == 0
    assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]
    producer.close()
