"""Forged batches get Apache Kafka's error codes in both modes of log.validate."""

from __future__ import annotations

import pytest

from pykafka2.broker.log.validation import ALWAYS_CHECKED
from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.forged_batches import APACHE, DIFFERENT, GZIP, answers
from tests.broker.support.produce_cases import Case, ask, create_topics
from tests.broker.support.raw_client import RawClient


@pytest.mark.gate
@pytest.mark.parametrize("mode", ["headers", "strict"])
def test_forged_batches_get_kafkas_codes_in_both_modes(mode: str) -> None:
    config = {"log.validate": mode, "auto.create.topics.enable": False}
    with KafkaCluster(brokers=1, config=config) as cluster, RawClient(cluster.bootstrap_servers) as wire:
        found = answers(wire, "forged-")
    expected = {name: DIFFERENT[name][0] if name in DIFFERENT else code for name, (code, _) in APACHE.items()}
    assert {name: code for name, (code, _) in found.items()} == expected
    for name in APACHE.keys() - DIFFERENT.keys():
        assert found[name] == APACHE[name], name


@pytest.mark.parametrize(("mode", "code"), [("headers", 0), ("strict", -1)])
def test_only_strict_reads_the_records_of_a_large_batch(mode: str, code: int) -> None:
    count = ALWAYS_CHECKED + 1
    config = {"log.validate": mode, "auto.create.topics.enable": False}
    with KafkaCluster(brokers=1, config=config) as cluster, RawClient(cluster.bootstrap_servers) as wire:
        create_topics(wire, topics={"plain": {}})
        few, many = (batch([b"v"] * n, codec=GZIP, damage=True) for n in (count - 1, count))
        assert ask(wire, Case("few", "plain", few)).error_code == -1
        assert ask(wire, Case("many", "plain", many)).error_code == code


def test_differences_from_kafka_are_differences() -> None:
    assert all(APACHE[name][0] != code for name, (code, _) in DIFFERENT.items())
