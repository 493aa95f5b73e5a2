"""Calls that live on the driver: retried though no thread waits for them.  Scripted brokers, virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.driver.completion import Completion
from pykafka2.driver.driver import Driver
from pykafka2.driver.pollable import ToNode
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.errors import (
    ClientClosed,
    ClientFailed,
    CoordinatorLoadInProgress,
    IllegalState,
    KafkaError,
    KafkaTimeoutError,
    UnknownMemberId,
    error_of,
)
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from tests.cluster.scripted import Answer, Hold, ScriptedBroker, ScriptedCluster

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster(brokers=2, topics={"orders": [0, 1]})


@pytest.fixture
def client(cluster: ScriptedCluster) -> Iterator[ClusterClient]:
    client = cluster.client()
    client.wait_for_topic("orders", 10)
    yield client
    client.close()


def check(response: HeartbeatResponse) -> KafkaError | None:
    return error_of(response.error_code) if response.error_code else None


def failing(cluster: ScriptedCluster, code: int, times: int) -> None:
    """The first answers say this."""
    left = [times]

    def answer(request: HeartbeatRequest, broker: ScriptedBroker) -> Answer:
        left[0] -= 1
        return HeartbeatResponse(error_code=code if left[0] >= 0 else 0)

    cluster.on(HeartbeatRequest, answer)


def test_a_call_is_retried_though_nobody_waits_for_it(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    failing(cluster, CoordinatorLoadInProgress.code, 3)
    told: list[Completion[HeartbeatResponse]] = []
    call = client.start(BEAT, ToNode(1), 10, check)
    call.add_done_callback(told.append)
    assert not call.done()
    cluster.runtime.run_for(10)
    assert told == [call]
    assert call.result(0).error_code == 0
    assert len(cluster.requests(HeartbeatRequest)) == 4
    call.add_done_callback(told.append)
    assert told == [call, call], "here and now, as it is done"


def test_an_error_that_no_retry_cures_ends_it_at_once(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    failing(cluster, UnknownMemberId.code, 1)
    with pytest.raises(UnknownMemberId):
        client.start(BEAT, ToNode(1), 10, check).result(10)
    assert len(cluster.requests(HeartbeatRequest)) == 1


def test_its_time_over_it_names_the_last_reason(cluster: ScriptedCluster, client: ClusterClient) -> None:
    failing(cluster, CoordinatorLoadInProgress.code, 1000)
    call = client.start(BEAT, ToNode(1), 5, check)
    with pytest.raises(KafkaTimeoutError, match="HeartbeatRequest is not done after 1 s; it goes on"):
        call.result(1)
    words = (
        r"HeartbeatRequest got no good answer within 5 s; .*failed: The coordinator is still reading its log"
    )
    with pytest.raises(KafkaTimeoutError, match=words) as caught:
        call.result(5)
    assert isinstance(caught.value.__cause__, CoordinatorLoadInProgress)


def test_what_a_check_raises_is_the_calls_error(cluster: ScriptedCluster, client: ClusterClient) -> None:
    failing(cluster, 0, 0)

    def broken(response: HeartbeatResponse) -> KafkaError | None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        client.request(BEAT, ToNode(1), 10, broken)
    assert client.driver.failure is None


def test_a_call_that_was_cancelled_is_not_sent_again(cluster: ScriptedCluster, client: ClusterClient) -> None:
    failing(cluster, CoordinatorLoadInProgress.code, 1000)
    call = client.start(BEAT, ToNode(1), 1000, check)
    cluster.runtime.run_for(2)
    seen = len(cluster.requests(HeartbeatRequest))
    call.cancel()
    cluster.runtime.run_for(20)
    assert len(cluster.requests(HeartbeatRequest)) == seen
    assert isinstance(call.exception(0), IllegalState)


def test_ctrl_c_in_a_blocking_call_ends_its_retries(
    cluster: ScriptedCluster, client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(cluster, CoordinatorLoadInProgress.code, 1000)

    def interrupted(predicate: Any, timeout: float, *queues: Any) -> bool:
        cluster.runtime.run_for(1)
        raise KeyboardInterrupt

    monkeypatch.setattr(client.driver, "wait_until", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.request(BEAT, ToNode(1), 1000, check)
    seen = len(cluster.requests(HeartbeatRequest))
    cluster.runtime.run_for(20)
    assert len(cluster.requests(HeartbeatRequest)) == seen > 0


@pytest.mark.parametrize("is_in_flight", [True, False])
def test_the_end_of_the_client_is_the_end_of_its_calls(
    cluster: ScriptedCluster, client: ClusterClient, is_in_flight: bool
) -> None:
    if is_in_flight:
        cluster.on(HeartbeatRequest, lambda request, broker: Hold())
    else:
        failing(cluster, CoordinatorLoadInProgress.code, 1000)
    call = client.start(BEAT, ToNode(1), 1000, check)
    cluster.runtime.run_for(2)
    client.close()
    assert isinstance(call.exception(0), ClientClosed)
    with pytest.raises(ClientClosed):
        client.start(BEAT, ToNode(1), 1000, check)


def test_a_bug_in_the_loop_is_the_end_of_its_calls(
    cluster: ScriptedCluster, client: ClusterClient, caplog: pytest.LogCaptureFixture
) -> None:
    failing(cluster, CoordinatorLoadInProgress.code, 1000)
    call = client.start(BEAT, ToNode(1), 1000, check)
    cluster.runtime.run_for(2)

    def broken(now: float) -> None:
        raise ValueError("a bug")

    client.driver.call_soon(broken)
    with pytest.raises(ValueError, match="a bug"):
        cluster.runtime.run_for(1)
    assert isinstance(call.exception(0), ClientFailed)
    with pytest.raises(ClientFailed, match="a bug"):
        client.start(BEAT, ToNode(1), 1000, check)


def test_an_event_loop_awaits_it() -> None:
    runtime = ThreadRuntime()
    driver = Driver(runtime, "pykafka2-test")
    good: Completion[int] = Completion(driver, "good")
    bad: Completion[int] = Completion(driver, "bad")

    async def await_both() -> int:
        driver.call_soon(lambda now: good.succeed(7))
        driver.call_soon(lambda now: bad.fail(UnknownMemberId()))
        with pytest.raises(UnknownMemberId):
            await bad
        return await good

    assert asyncio.run(await_both()) == 7
    driver.close()
    runtime.close()
