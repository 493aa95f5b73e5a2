"""Settings of the main suite: conformance has a stage of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

# Shared, noisy machines: a slow example is not a failure, and a failing one must print how to repeat it.
settings.register_profile(
    "pykafka2",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("pykafka2")

collect_ignore = [] if os.environ.get("PYKAFKA2_CONFORMANCE") == "1" else ["conformance"]

if TYPE_CHECKING:
    from pykafka2.testing import KafkaCluster


@pytest.fixture
def kafka_cluster(fresh_kafka_cluster: KafkaCluster) -> KafkaCluster:
    """Our own tests look inside their clusters and change what others must not see."""
    return fresh_kafka_cluster
