"""A task of an earlier run of the Spark sink that is still alive, on Apache Kafka before and after 4.0.

The late task goes on before each call of the new run in turn (tests/spark/test_fencing.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.support.raw_client import RawClient

from .maven import CURRENT, KafkaUnavailable, server_jars, skip_or_fail
from .real_kafka import RealKafka

pytest.importorskip("pyspark", reason="the sink's messages are Spark's")

from tests.spark.test_fencing import _hooked, interleave

__all__ = ["_hooked"]  # a fixture

pytestmark = [pytest.mark.real_kafka, pytest.mark.long]

SAFE_DOWNGRADE = 2
CASES = ["3.9.1", f"{CURRENT}, transaction.version 0", f"{CURRENT}, transaction.version 1", CURRENT]


@pytest.fixture(params=CASES)
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    version, _, feature = request.param.partition(", transaction.version ")
    try:
        jars = server_jars(version)
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))
    with RealKafka(jars) as kafka:
        if feature:
            downgrade(kafka.addresses[0] if kafka.bootstrap_servers else "", int(feature))
        yield kafka.bootstrap_servers


def downgrade(address: str, version: int) -> None:
    update = FeatureUpdateKey(
        feature="transaction.version", max_version_level=version, upgrade_type=SAFE_DOWNGRADE
    )
    with RawClient(address) as wire:
        response = wire.call(UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=[update]), 1)
    assert response.error_code == 0, response.error_message


def test_a_late_task_never_commits_a_part_of_its_rows(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interleave(servers, monkeypatch)
