"""`on_commit` of interceptors: called for every commit that was written, and for no other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pykafka2.errors import GroupAuthorizationFailed
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest
from pykafka2.testing import KafkaCluster, Simulation
from pykafka2.types import OffsetAndMetadata, TopicPartition
from tests.consumer.commit.stories import FIRST, read, reader


class Witness:
    def __init__(self) -> None:
        self.offsets: list[int] = []

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.offsets.append(offsets[FIRST].offset)
        raise ValueError("which is logged")


def test_interceptors_see_blocking_and_asynchronous_commits(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    witness = Witness()
    consumer = reader(simulation, cluster, [FIRST], interceptors=[witness])
    read(consumer, 3)
    consumer.commit()
    assert witness.offsets == [3]
    read(consumer, 1)
    consumer.commit_async()
    simulation.run_for(1)
    assert witness.offsets == [3], "on the application's thread"
    consumer.poll(update_offsets=False)
    assert witness.offsets == [3, 4]


def test_interceptors_see_automatic_commits_including_the_last(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    witness = Witness()
    consumer = reader(
        simulation,
        cluster,
        [FIRST],
        interceptors=[witness],
        enable_auto_commit=True,
        auto_commit_interval_ms=1000,
    )
    read(consumer, 3)
    simulation.run_for(2)
    read(consumer, 1)
    simulation.run_for(2)
    consumer.close()
    assert witness.offsets[-1] == 4
    assert witness.offsets == sorted(witness.offsets)


def test_interceptors_do_not_see_failed_commits(simulation: Simulation, cluster: KafkaCluster) -> None:
    witness = Witness()
    consumer = reader(simulation, cluster, [FIRST], interceptors=[witness])
    read(consumer, 3)
    cluster.controls.fail_next(OffsetCommitRequest, GroupAuthorizationFailed)
    with pytest.raises(GroupAuthorizationFailed):
        consumer.commit()
    assert witness.offsets == []
