"""The bundled broker answers as Apache Kafka 4.3.1 does, field by field; see the package `behaviour`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .behaviour.compare import Difference, differences
from .behaviour.golden import BUNDLED_CONFIG, recorded, transcript
from .behaviour.known import KNOWN
from .behaviour.scenarios import SCENARIOS
from .real_kafka import RealKafka

FOUND: dict[str, list[Difference]] = {}
"""The known differences that the session's scenarios came upon, by the known row's place in KNOWN."""

PENDING = frozenset(
    {
        "api_versions_advertised", "configs_described",
        "fetch_sessions", "hostile_frames",
        "produce_idempotent", "produce_larger_than_a_segment", "produce_recompressed",
        "produce_refuses", "produce_serves_the_others", "produce_timestamps", "produce_to_a_follower",
        "produce_to_internal_topics", "topics_created", "topics_refused",
    }
)  # fmt: skip
"""Scenarios whose differences are being mended: `python -m tests.conformance.behaviour` prints them."""


@pytest.fixture(scope="module")
def addresses() -> Iterator[list[str]]:
    """Three bundled brokers that are set as real_kafka.py sets Apache's."""
    from pykafka2.testing import KafkaCluster

    with KafkaCluster(brokers=3, config=BUNDLED_CONFIG) as cluster:
        yield cluster.bootstrap_servers.split(",")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_bundled_broker_answers_as_apache_kafka(addresses: list[str], scenario: str) -> None:
    try:
        strange = differences(scenario, recorded(scenario), transcript(scenario, addresses))
    except Exception:
        if scenario in PENDING:
            pytest.xfail("being mended")
        raise
    for one in strange:
        known = one.known()
        if known is not None:
            FOUND.setdefault(f"{KNOWN.index(known)}", []).append(one)
    strange = [one for one in strange if one.known() is None]
    if strange and scenario in PENDING:
        pytest.xfail("being mended")
    assert not strange, f"{len(strange)} fields differ; the first:\n{strange[0]}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_apache_kafka_answers_as_recorded(real_kafka: RealKafka, scenario: str) -> None:
    _ = real_kafka.bootstrap_servers
    strange = differences(scenario, recorded(scenario), transcript(scenario, real_kafka.addresses))
    assert not strange, f"{len(strange)} fields differ; the first:\n{strange[0]}"
