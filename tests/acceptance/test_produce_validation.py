"""A table of bad requests gives Kafka's codes, and the log stays as it was.

The same table runs against Apache Kafka in tests/conformance/test_produce_validation.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pykafka2 import errors
from pykafka2.testing.cluster import KafkaCluster
from tests.broker.support.produce_cases import Case, ask, cases, create_topics, judged
from tests.broker.support.raw_client import RawClient

NAMES = [case.name for case in cases(0)]


@pytest.fixture(scope="module", params=["strict", "headers"])
def cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    config = {"log.validate": request.param, "auto.create.topics.enable": False}
    with KafkaCluster(brokers=1, config=config) as cluster, RawClient(cluster.bootstrap_servers) as wire:
        create_topics(wire)
        yield cluster


@pytest.fixture(scope="module")
def wire(cluster: KafkaCluster) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap_servers) as wire:
        yield wire


def content(cluster: KafkaCluster, case: Case) -> list[bytes]:
    if case.topic not in cluster.topics() or case.partition != 0:
        return []
    return [bytes(batch.buffer) for batch in cluster.log(case.topic, 0).batches()]


@pytest.mark.parametrize("name", NAMES)
def test_every_request_gets_kafkas_error_and_a_rejected_one_leaves_the_log(
    cluster: KafkaCluster, wire: RawClient, name: str
) -> None:
    case = next(one for one in cases(int(time.time() * 1000)) if one.name == name)
    code = case.code
    before = content(cluster, case)
    answer = ask(wire, case)
    has_offset, is_stamped = code == 0, code == 0 and case.topic == "stamped"
    assert judged(answer) == (code, case.wrong, has_offset, is_stamped), answer
    assert bool(answer.error_message) is (code != 0 and case.version >= 8), "it came with version 8"
    assert all(one.batch_index_error_message for one in answer.record_errors)
    after = content(cluster, case)
    assert after[: len(before)] == before
    assert len(after) - len(before) == (code == 0)


def test_unauthorized_produce_is_rejected_before_its_validation(
    cluster: KafkaCluster, wire: RawClient
) -> None:
    """There is no authorizer yet: the code comes from a planted fault."""
    from pykafka2.errors import TopicAuthorizationFailed
    from pykafka2.protocol.messages.produce import ProduceRequest

    case = cases(int(time.time() * 1000))[0]
    before = content(cluster, case)
    cluster.controls.fail_next(ProduceRequest, TopicAuthorizationFailed)
    assert ask(wire, case).error_code == errors.TopicAuthorizationFailed.code
    assert content(cluster, case) == before
