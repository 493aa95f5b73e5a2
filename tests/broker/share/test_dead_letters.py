"""Dead-letter topics (KIP-1191): what is written there, and when it is not."""

from __future__ import annotations

import pytest

from pykafka2.broker.share.dead_letters import MAX_ATTEMPTS
from pykafka2.records.batch import batches
from pykafka2.records.decoder import decode_tuples
from pykafka2.testing.simulation import Simulation
from tests.broker.coordinators.groups.share.bench import GROUP, ShareGroupBench
from tests.broker.share.live import SMALL, configure, fill, member
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch, produce
from tests.broker.support.raw_client import RawClient
from tests.broker.support.share_member import ACCEPT, REJECT, RELEASE, ShareMember, acquired
from tests.connections import LiveCluster

OPEN = {**SMALL, "errors.deadletterqueue.auto.create.topics.enable": "true"}
DLQ = "dlq.t"
allowed = pytest.mark.kafka(brokers=1, topics={"t": 2}, config=OPEN)

Letter = tuple[bytes | None, bytes | None, dict[str, str]]


def letters(live: LiveCluster, count: int, topic: str = DLQ, partition: int = 0) -> list[Letter]:
    """Return key, value and headers of the letters in a topic, once there are so many."""
    live.wait_for(lambda: topic in live.cluster.topics())
    wire = live.leader(topic, partition)
    found: list[Letter] = []

    def has_all() -> bool:
        found.clear()
        data = fetch(wire, topic, partition, 0)
        for one in batches(memoryview(data.records or b"")):
            for _, _, key, value, headers in decode_tuples(one):
                texts = {name: (text or b"").decode() for name, text in headers}
                found.append((key, value, texts))
        return len(found) >= count

    live.wait_for(has_all)
    return found


def window(live: LiveCluster) -> list[int]:
    """Return the start offsets of the share partitions of broker 0."""
    shares = live.cluster.running.broker(0).parts.shares_or_none
    assert shares is not None
    return [one.records.start_offset for one in shares.partitions.values()]


@allowed
def test_rejected_records_are_written_with_their_origin(live: LiveCluster) -> None:
    configure(live, errors_deadletterqueue_topic_name=DLQ)
    fill(live, 3)
    one = member(live)
    one.fetch()
    assert one.settle(0, 2, ACCEPT, REJECT, REJECT) == 0
    first, second = letters(live, 2)
    assert first == (
        None,
        None,
        {
            "__dlq.errors.topic": "t",
            "__dlq.errors.partition": "0",
            "__dlq.errors.offset": "1",
            "__dlq.errors.group": "g",
            "__dlq.errors.delivery.count": "1",
            "__dlq.errors.message": "Offset rejected by client.",
        },
    )
    assert second[2]["__dlq.errors.offset"] == "2"
    live.wait_for(lambda: window(live) == [3])


@allowed
def test_exhausted_records_are_copied_if_the_group_wants_it(live: LiveCluster) -> None:
    configure(
        live,
        errors_deadletterqueue_topic_name=DLQ,
        errors_deadletterqueue_copy_record_enable="true",
        share_delivery_count_limit=2,
    )
    produce(live.leader(), "t", 0, batch([b"a"], keys=[b"k"], codec=1))
    one = member(live)
    for count in (1, 2):
        assert acquired(one.fetch(max_wait_ms=20_000)) == [(0, 0, count)]
        assert one.settle(0, 0, RELEASE) == 0
    ((key, value, headers),) = letters(live, 1)
    assert (key, value) == (b"k", b"a")
    assert headers["__dlq.errors.delivery.count"] == "2"
    assert headers["__dlq.errors.message"] == "Offset delivery count exceeded the threshold."


@pytest.mark.gate
@allowed
def test_letters_of_each_partition_stay_in_order_in_one_of_the_topic(live: LiveCluster) -> None:
    live.cluster.create_topic(
        DLQ, partitions=2, configs={"errors.deadletterqueue.group.enable": "true", "max.message.bytes": 400}
    )
    configure(live, errors_deadletterqueue_topic_name=DLQ)
    fill(live, 9, partition=1)
    one = member(live, partition=1)
    one.fetch(1)
    assert one.settle(0, 8, REJECT, partition=1) == 0
    found = letters(live, 9, partition=1)
    assert [headers["__dlq.errors.offset"] for _, _, headers in found] == list(map(str, range(9)))


@pytest.mark.gate
@allowed
def test_record_that_does_not_fit_into_a_letter_is_not_copied(live: LiveCluster) -> None:
    live.cluster.create_topic(
        DLQ, configs={"errors.deadletterqueue.group.enable": "true", "max.message.bytes": 500}
    )
    options = {"errors_deadletterqueue_topic_name": DLQ, "errors_deadletterqueue_copy_record_enable": "true"}
    configure(live, **options)
    produce(live.leader(), "t", 0, batch([b"x" * 501, b"small"]))
    one = member(live)
    one.fetch()
    assert one.settle(0, 1, REJECT) == 0
    assert [value for _, value, _ in letters(live, 2)] == [None, b"small"]


@pytest.mark.gate
@pytest.mark.slow
def test_each_batch_of_letters_has_retries_of_its_own(simulation: Simulation) -> None:
    bench = ShareGroupBench(simulation, brokers=1, config=OPEN)
    bench.beat("a", "orders")
    bench.settle()
    bench.cluster.create_topic(
        DLQ, configs={"errors.deadletterqueue.group.enable": "true", "max.message.bytes": 400}
    )
    options = {"share_auto_offset_reset": "earliest", "errors_deadletterqueue_topic_name": DLQ}
    assert bench.configure(**options) == 0
    rule = bench.cluster.controls.rule(
        api="Produce", topic=DLQ, then="error:NOT_LEADER_OR_FOLLOWER", between_brokers=True, every=2
    )
    count = 2 * MAX_ATTEMPTS + 4
    with RawClient(bench.cluster.broker(0).address, simulation=simulation) as wire:
        produce(wire, "orders", 0, batch([b"x"] * count))
        one = ShareMember(wire, bench.cluster.controller.image.topics["orders"].id, group_id=GROUP)
        one.fetch()
        assert one.settle(0, count - 1, REJECT) == 0
        simulation.run_for(60.0)
        assert rule.fired > MAX_ATTEMPTS
        data = fetch(wire, DLQ, 0, 0)
        found = [
            dict(headers)["__dlq.errors.offset"]
            for letter in batches(memoryview(data.records or b""))
            for *_, headers in decode_tuples(letter)
        ]
    assert found == [b"%d" % offset for offset in range(count)]
    assert bench.cluster.share_partition(GROUP, ("orders", 0)).start_offset == count


@pytest.mark.gate
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("__internal", {"errors.deadletterqueue.topic.name.prefix": ""}),
        ("other", {}),
        ("dlq.closed", {}),
        ("dlq.missing", {"errors.deadletterqueue.auto.create.topics.enable": "false"}),
    ],
)
def test_unusable_topic_archives_the_record_without_a_letter(name: str, options: dict[str, str]) -> None:
    from pykafka2.testing import KafkaCluster

    with KafkaCluster(brokers=1, topics={"t": 1, "dlq.closed": 1}, config={**OPEN, **options}) as cluster:
        live = LiveCluster(cluster)
        configure(live, errors_deadletterqueue_topic_name=name)
        fill(live, 1)
        one = member(live)
        one.fetch()
        assert one.settle(0, 0, REJECT) == 0
        live.wait_for(lambda: window(live) == [1])
        assert cluster.partition("dlq.closed", 0).replicas[0].log_end_offset == 0
        assert name == "dlq.closed" or name not in cluster.topics()
        live.close()


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config=OPEN, features={"share.version": 1})
def test_share_version_1_has_no_dead_letters(live: LiveCluster) -> None:
    configure(live, errors_deadletterqueue_topic_name=DLQ)
    fill(live, 1)
    one = member(live)
    one.fetch()
    assert one.settle(0, 0, REJECT) == 0
    assert window(live) == [1]
    assert DLQ not in live.cluster.topics()
