"""Brokers of before KIP-699 and KIP-709, which are asked about one group a request."""

from __future__ import annotations

import pytest

from pykafka2 import OffsetAndMetadata
from tests.consumer.commits.scripted_coordinator import (
    FIND_COORDINATOR,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    ORDERS,
    OldCluster,
)


@pytest.mark.parametrize(
    ("commits", "fetches"), [((2, 2), (1, 1)), ((2, 5), (1, 4)), ((2, 8), (1, 7))], ids=["1.0", "2.1", "2.8"]
)
def test_offsets_are_committed_and_resumed(commits: tuple[int, int], fetches: tuple[int, int]) -> None:
    cluster = OldCluster({FIND_COORDINATOR: (0, 3), OFFSET_COMMIT: commits, OFFSET_FETCH: fetches})
    cluster.append("orders", 0, *[b"x"] * 10)
    with cluster.reader() as consumer:
        assert consumer.position(ORDERS[0]) == 0
        assert len(consumer.poll(1000, max_records=4)[ORDERS[0]]) == 4
        consumer.commit()
        assert consumer.committed(ORDERS[0], metadata=True) == OffsetAndMetadata(4)
        assert consumer.committed(ORDERS[1]) == 0
    with cluster.reader() as consumer:
        assert consumer.position(ORDERS[0]) == 4
