"""Each request of the table is judged alike by the bundled broker and by Apache Kafka, and a batch
that is taken becomes the same: codec, times, attributes, producer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import attrs
import pytest

from pykafka2.testing import KafkaCluster
from tests.broker.support.forged_batches import APACHE, answers
from tests.broker.support.produce_cases import Case, ask, cases, create_topics, judged, stored
from tests.broker.support.raw_client import RawClient

from .real_kafka import RealKafka

NAMES = [case.name for case in cases(0)]
PREFIX = "produce-cases-"


@pytest.fixture(scope="module")
def ours() -> Iterator[RawClient]:
    with (
        KafkaCluster(brokers=1, config={"log.validate": "strict", "auto.create.topics.enable": False}) as one,
        RawClient(one.bootstrap_servers) as wire,
    ):
        create_topics(wire, PREFIX)
        yield wire


@pytest.fixture(scope="module")
def theirs(real_kafka: RealKafka) -> Iterator[RawClient]:
    with RawClient(real_kafka.bootstrap_servers.split(",")[0]) as wire:
        create_topics(wire, PREFIX)
        yield wire


def outcome(wire: RawClient, case: Case, now: int) -> tuple[object, ...]:
    answer = ask(wire, case)
    if answer.error_code:
        return judged(answer), answer.log_start_offset
    return judged(answer), answer.log_start_offset, stored(wire, case, answer.base_offset, now)


@pytest.mark.parametrize("name", NAMES)
def test_both_brokers_accept_and_reject_the_same_batches(
    ours: RawClient, theirs: RawClient, name: str
) -> None:
    now = int(time.time() * 1000)
    case = next(one for one in cases(now) if one.name == name)
    case = attrs.evolve(case, topic=PREFIX + case.topic)
    got = outcome(ours, case, now)
    assert got == outcome(theirs, case, now)
    assert got[0][:2] == (case.code, case.wrong)  # type: ignore[index]


def test_forged_batches_get_the_recorded_codes_from_apache_kafka(theirs: RawClient) -> None:
    assert answers(theirs, "forged-") == APACHE
