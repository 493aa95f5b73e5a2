"""Questions for offsets end by their timeout, whatever a leader does with them."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import KafkaTimeoutError, TopicAuthorizationFailed
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Answer, Later, ScriptedBroker
from tests.consumer.logs import LogCluster

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
# Retriable, for the partition alone: KAFKA_STORAGE_ERROR.
STORAGE_ERROR = 56


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
        with pytest.raises(KafkaTimeoutError, match="orders-0 timed out; its leader has not responded"):
            consumer.end_offsets([ORDERS_0], timeout_ms=3000)
        assert cluster.now - before == pytest.approx(3, abs=0.1)
        cluster.runtime.run_for(3)  # the response arrives, and no caller waits for it any more
        cluster.on(ListOffsetsRequest, cluster.list_offsets)
        assert consumer.end_offsets([ORDERS_0], timeout_ms=3000) == {ORDERS_0: 1}


@pytest.mark.parametrize("error", [TopicAuthorizationFailed, KeyboardInterrupt])
def test_questions_of_a_failed_call_are_not_repeated(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    codes = {0: 29 if error is TopicAuthorizationFailed else STORAGE_ERROR, 1: STORAGE_ERROR}
    cluster._list_partition = lambda topic, number, *_: ListOffsetsPartitionResponse(  # type: ignore[method-assign]
        partition_index=number, error_code=codes[number]
    )
    with cluster.consumer() as consumer:
        if error is KeyboardInterrupt:
            wait = cluster.runtime.wait_until

            def interrupted(*arguments: Any) -> bool:
                monkeypatch.setattr(cluster.runtime, "wait_until", wait)
                cluster.runtime.run_for(1)
                raise KeyboardInterrupt

            monkeypatch.setattr(cluster.runtime, "wait_until", interrupted)
        with pytest.raises(error):
            consumer.offsets_for_times({ORDERS_0: 5, ORDERS_1: 5})
        cluster.runtime.run_for(2)
        before = len(cluster.requests(ListOffsetsRequest))
        cluster.runtime.run_for(20)
        assert len(cluster.requests(ListOffsetsRequest)) == before > 0


def test_exit_of_a_signal_handler_that_closed_the_consumer_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    with cluster.consumer() as consumer:
        wait = cluster.runtime.wait_until

        def handle_signal(*arguments: Any) -> bool:
            monkeypatch.setattr(cluster.runtime, "wait_until", wait)
            consumer.close()
            raise SystemExit(3)

        monkeypatch.setattr(cluster.runtime, "wait_until", handle_signal)
        with pytest.raises(SystemExit):
            consumer.offsets_for_times({ORDERS_0: 5})
