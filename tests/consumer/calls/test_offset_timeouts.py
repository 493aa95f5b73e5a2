"""Questions for offsets end by their timeout, whatever a leader does with them."""

from __future__ import annotations

import pytest

from pykafka2.errors import KafkaTimeoutError
from pykafka2.protocol.messages.offsets import ListOffsetsRequest, ListOffsetsResponse
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Answer, Later, ScriptedBroker
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)


def test_a_leader_that_does_not_answer_ends_no_call_late() -> None:
    cluster = LogCluster({"orders": [0]})
    cluster.append("orders", 0, b"a")

    def answer_late(request: ListOffsetsRequest, broker: ScriptedBroker) -> Answer:
        answer = cluster.list_offsets(request, broker)
        assert isinstance(answer, ListOffsetsResponse)
        return Later(4.0, lambda: answer)

    with cluster.consumer() as consumer:
        assert consumer.end_offsets([ORDERS_0]) == {ORDERS_0: 1}
        cluster.on(ListOffsetsRequest, answer_late)
        before = cluster.now
        with pytest.raises(KafkaTimeoutError, match="orders-0 in time; its leader has not answered"):
            consumer.end_offsets([ORDERS_0], timeout_ms=3000)
        assert cluster.now - before == pytest.approx(3, abs=0.1)
        cluster.runtime.run_for(3)  # the answer comes, and nobody waits for it any more
        cluster.on(ListOffsetsRequest, cluster.list_offsets)
        assert consumer.end_offsets([ORDERS_0], timeout_ms=3000) == {ORDERS_0: 1}
