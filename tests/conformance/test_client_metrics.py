"""Java's clients have the metrics that tests/java_metrics.json has."""

from __future__ import annotations

import json

from tests.test_java_metrics import GOLDEN

from .client_metrics import recorded
from .maven import KafkaJars


def test_java_clients_have_the_recorded_metrics(jars: KafkaJars) -> None:
    assert recorded(jars) == json.loads(GOLDEN.read_text(encoding="utf-8"))
