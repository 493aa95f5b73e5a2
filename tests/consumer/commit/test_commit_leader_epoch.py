"""A commit may have a newer leader epoch than the broker that gets the next fetch.

The broker was replaced and does not know it: a committed offset beyond its log is out of range for it, and
`auto_offset_reset` would read records again or skip them. Java's client keeps the leader epoch of a commit
and waits for metadata that are not older (`updateLastSeenEpochIfNewer`).
"""

from __future__ import annotations

import pytest

from pykafka2 import KafkaConsumer, OffsetAndMetadata
from pykafka2.errors import OffsetOutOfRange
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, produce, read, reader


@pytest.fixture
def replaced(simulation: Simulation, cluster: KafkaCluster) -> int:
    """The broker that led the first partition: it does not know its successor, which has ten records more.

    The group has committed 20.
    """
    with reader(simulation, cluster, [FIRST]) as consumer:
        consumer.commit({FIRST: 1})  # the coordinator's topic is made while all hear of it
    old = cluster.partition(*FIRST).leader
    new = next(one for one in cluster.partition(*FIRST).isr if one != old)
    cluster.controls.hold_metadata(old)
    cluster.controls.move_leader(FIRST, new)
    produce(simulation, cluster, 10, [FIRST])
    with reader(simulation, cluster, [FIRST]) as consumer:
        consumer.commit({FIRST: OffsetAndMetadata(20, "", cluster.partition(*FIRST).leader_epoch)})
    return old


def asks_only(
    simulation: Simulation, cluster: KafkaCluster, broker_id: int, **options: object
) -> KafkaConsumer:
    """A consumer whose metadata are this broker's."""
    for other in range(3):
        if other != broker_id:
            cluster.controls.disconnect_next(MetadataRequest, times=10_000, broker=other)
    return reader(simulation, cluster, [FIRST], **options)


@pytest.mark.gate
@pytest.mark.parametrize("policy", ["earliest", "latest", "none"])
def test_offset_out_of_range_from_a_replaced_leader_is_ignored(
    simulation: Simulation, cluster: KafkaCluster, replaced: int, policy: str
) -> None:
    consumer = asks_only(simulation, cluster, replaced, auto_offset_reset=policy)
    cluster.history.clear()
    assert consumer.poll(10_000) == {}
    assert 2 <= len(cluster.history.requests(FetchRequest)) <= 100
    assert f"broker {replaced} has no offset 20, but may have been replaced" in consumer.explain()
    cluster.controls.release_metadata()
    cluster.controls.clear()
    produce(simulation, cluster, 1, [FIRST])
    assert read(consumer, 1) == {FIRST: [20]}


def test_replaced_leader_causes_a_metadata_request_to_another_broker(
    simulation: Simulation, cluster: KafkaCluster, replaced: int
) -> None:
    """The replaced broker never learns of its successor, and would be the first choice: it is connected."""
    consumer = asks_only(simulation, cluster, replaced)
    assert consumer.poll(2000) == {}
    cluster.controls.clear()
    produce(simulation, cluster, 1, [FIRST])
    assert read(consumer, 1) == {FIRST: [20]}


@pytest.mark.gate
def test_offset_out_of_range_is_raised_after_half_a_minute_without_a_newer_leader(
    simulation: Simulation, cluster: KafkaCluster, replaced: int
) -> None:
    """The commit's epoch may be wrong, or of a cluster that was restored from a copy."""
    consumer = asks_only(simulation, cluster, replaced, auto_offset_reset="none")
    assert consumer.poll(29_000) == {}
    with pytest.raises(OffsetOutOfRange, match="orders-0"):
        consumer.poll(5000)
