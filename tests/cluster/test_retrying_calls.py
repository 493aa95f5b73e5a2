"""Calls that live on the driver: retried though no thread waits for them.  Scripted brokers, virtual time."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from pykafka2.cluster.client import GRACE, ClusterClient
from pykafka2.driver.completion import Completion
from pykafka2.driver.driver import Driver
from pykafka2.driver.pollable import GROUP, ToCoordinator, ToNode
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.errors import (
    ClientClosed,
    ClientFailed,
    CoordinatorLoadInProgress,
    IllegalState,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimeout,
    UnknownMemberId,
    error_of,
)
from pykafka2.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from pykafka2.protocol.messages.metadata import MetadataRequest
from tests.cluster.scripted import Answer, Hold, Later, ScriptedBroker, ScriptedCluster

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster(brokers=2, topics={"orders": [0, 1]})


def check(response: HeartbeatResponse) -> KafkaError | None:
    return error_of(response.error_code) if response.error_code else None


def failing(cluster: ScriptedCluster, code: int, times: int) -> None:
    """The first answers say this."""
    left = [times]

    def answer(request: HeartbeatRequest, broker: ScriptedBroker) -> Answer:
        left[0] -= 1
        return HeartbeatResponse(error_code=code if left[0] >= 0 else 0)

    cluster.on(HeartbeatRequest, answer)


def test_call_is_retried_without_a_waiting_caller(cluster: ScriptedCluster, client: ClusterClient) -> None:
    failing(cluster, CoordinatorLoadInProgress.code, 3)
    completions: list[Completion[HeartbeatResponse]] = []
    call = client.start(BEAT, ToNode(1), 10, check)
    call.add_done_callback(completions.append)
    assert not call.done()
    cluster.runtime.run_for(10)
    assert completions == [call]
    assert call.result(0).error_code == 0
    assert len(cluster.requests(HeartbeatRequest)) == 4
    call.add_done_callback(completions.append)
    assert completions == [call, call], "here and now, as it is done"


def test_an_error_that_no_retry_cures_ends_it_at_once(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    failing(cluster, UnknownMemberId.code, 1)
    with pytest.raises(UnknownMemberId):
        client.start(BEAT, ToNode(1), 10, check).result(10)
    assert len(cluster.requests(HeartbeatRequest)) == 1


def test_call_timeout_names_the_last_error(cluster: ScriptedCluster, client: ClusterClient) -> None:
    failing(cluster, CoordinatorLoadInProgress.code, 1000)
    call = client.start(BEAT, ToNode(1), 5, check)
    with pytest.raises(KafkaTimeoutError, match="HeartbeatRequest is not done after 1 s; it continues"):
        call.result(1)
    words = "HeartbeatRequest got no successful response within 5 s; .*"
    words += "failed: The coordinator is still loading its log"
    with pytest.raises(KafkaTimeoutError, match=words) as caught:
        call.result(5)
    assert isinstance(caught.value.__cause__, CoordinatorLoadInProgress)


def test_exception_of_a_check_is_raised_by_the_call(cluster: ScriptedCluster, client: ClusterClient) -> None:
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
    calls = [client.start(BEAT, ToNode(node), 1000, check) for node in (0, 1, 1)]
    cluster.runtime.run_for(2)
    client.close()
    assert [type(call.exception(0)) for call in calls] == [ClientClosed] * 3
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


# ---------------------------------------------------------------------- several calls


def by_group(cluster: ScriptedCluster, answers: dict[str, list[int]]) -> list[str]:
    """Each group's heartbeats get these codes, then 0; the list fills with the groups, in order."""
    sent: list[str] = []

    def answer(request: HeartbeatRequest, broker: ScriptedBroker) -> Answer:
        sent.append(request.group_id)
        codes = answers.get(request.group_id, [])
        return HeartbeatResponse(error_code=codes.pop(0) if codes else 0)

    cluster.on(HeartbeatRequest, answer)
    return sent


def beat(group: str) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=1, member_id="m")


def test_call_in_flight_blocks_no_other(cluster: ScriptedCluster, client: ClusterClient) -> None:
    cluster.brokers[0].on(HeartbeatRequest, lambda request, broker: Hold())
    by_group(cluster, {})
    held, other = client.start(BEAT, ToNode(0), 100, check), client.start(BEAT, ToNode(1), 100, check)
    cluster.runtime.run_for(1)
    assert other.done()
    assert not held.done()
    (third, fourth) = (client.start(BEAT, ToNode(1), 100, check) for _ in range(2))
    cluster.runtime.run_for(1)
    assert third.done()
    assert fourth.done()


@pytest.mark.parametrize("quick_is_first", [True, False])
def test_each_of_two_calls_is_retried_at_its_own_time(
    cluster: ScriptedCluster, client: ClusterClient, quick_is_first: bool
) -> None:
    """The slow one's back-off has grown to a second when the quick one's begins."""
    sent = by_group(cluster, {"slow": [CoordinatorLoadInProgress.code] * 100})
    hold = Hold()
    cluster.brokers[0].on(HeartbeatRequest, lambda request, broker: hold)

    def start_quick() -> Completion[HeartbeatResponse]:
        return client.start(beat("quick"), ToNode(0), 100, check)

    quick = start_quick() if quick_is_first else None
    slow = client.start(beat("slow"), ToNode(1), 100, check)
    cluster.runtime.run_for(10)
    before = len(sent)
    cluster.runtime.wait_until(lambda: len(sent) > before, 10)  # so its next attempt is a second away
    quick = quick or start_quick()
    cluster.runtime.run_for(0.01)
    del cluster.brokers[0].handlers[HeartbeatRequest]
    hold.release(HeartbeatResponse(error_code=CoordinatorLoadInProgress.code))
    cluster.runtime.run_for(0.3)
    assert quick.done()
    assert sent[before:] == ["slow", "quick"]
    slow.cancel()


def test_a_call_that_starts_while_the_client_closes_ends_at_once(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    """Act like a thread that checked just before whether the client is closed."""
    client.calls.close(ClientClosed(), cluster.now)
    calls = [client.start(BEAT, ToNode(1), 1000, check) for _ in range(2)]
    assert [type(call.exception(0)) for call in calls] == [ClientClosed] * 2


def test_calls_that_are_done_are_not_kept(cluster: ScriptedCluster, client: ClusterClient) -> None:
    by_group(cluster, {"refused": [UnknownMemberId.code]})
    good, bad = (client.start(beat(group), ToNode(1), 10, check) for group in ("good", "refused"))
    cluster.runtime.run_for(1)
    assert good.done()
    assert bad.done()
    assert not client.calls._open


def test_moved_coordinator_is_looked_up_again_for_its_group_only(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    sent = by_group(cluster, {})
    lookups: list[str] = []
    node_of = {"g": 1, "h": 1}

    def find(request: FindCoordinatorRequest, broker: ScriptedBroker) -> Answer:
        (key,) = request.coordinator_keys
        lookups.append(key)
        node = node_of[key]
        return FindCoordinatorResponse(
            coordinators=[Coordinator(key=key, node_id=node, host=f"broker-{node}", port=9092)]
        )

    codes = {"g": [NotCoordinator.code] * 9, "h": [CoordinatorLoadInProgress.code]}

    def moved(request: HeartbeatRequest, broker: ScriptedBroker) -> Answer:
        sent.append(request.group_id)
        left = codes[request.group_id]
        return HeartbeatResponse(error_code=left.pop() if left else 0)

    cluster.on(FindCoordinatorRequest, find)
    both = [ToCoordinator(GROUP, "g"), ToCoordinator(GROUP, "h")]
    for to in both:
        client.request(beat(to.key), to, 10, check)
    cluster.brokers[1].on(HeartbeatRequest, moved)
    node_of["g"] = 0
    for to in both:
        client.request(beat(to.key), to, 10, check)
    assert sent == ["g", "h", "g", "g", "h", "h"]
    assert lookups == ["g", "h", "g"]
    assert [client.coordinators.node_of(to) for to in both] == [0, 1]


@pytest.mark.parametrize(("error", "times"), [(NotLeaderOrFollower, 1), (CoordinatorLoadInProgress, 0)])
def test_metadata_is_refreshed_by_the_errors_that_ask_for_it(
    cluster: ScriptedCluster, client: ClusterClient, error: type[KafkaError], times: int
) -> None:
    by_group(cluster, {"g": [error.code]})
    before = len(cluster.requests(MetadataRequest))
    client.request(BEAT, ToNode(1), 10, check)
    cluster.runtime.run_for(1)
    assert len(cluster.requests(MetadataRequest)) == before + times


def test_each_attempt_sends_a_renewed_request(cluster: ScriptedCluster, client: ClusterClient) -> None:
    sent = by_group(
        cluster,
        {"attempt-1": [CoordinatorLoadInProgress.code], "attempt-2": [CoordinatorLoadInProgress.code]},
    )
    attempts = itertools.count(1)
    call = client.start(BEAT, ToNode(1), 10, check, renewed=lambda: beat(f"attempt-{next(attempts)}"))
    assert call.result(10).error_code == 0
    assert sent == ["attempt-1", "attempt-2", "attempt-3"]


def test_attempts_wait_for_request_timeout_and_the_last_for_the_remaining_time(
    cluster: ScriptedCluster,
) -> None:
    client = cluster.client(request_timeout_ms=3_000)
    cluster.on(HeartbeatRequest, lambda request, broker: Hold())
    started = cluster.now
    call = client.start(BEAT, ToNode(1), 7, check)
    assert isinstance(call.exception(20), KafkaTimeoutError)
    assert cluster.now - started == pytest.approx(7, abs=0.3)
    assert len(cluster.requests(HeartbeatRequest)) == 3
    client.close()


def connect_after(cluster: ScriptedCluster, seconds: float) -> None:
    """Let new connections be ready after so many seconds."""
    versions = [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in cluster.brokers[1].versions.items()
    ]
    cluster.on(
        ApiVersionsRequest,
        lambda request, broker: Later(seconds, lambda: ApiVersionsResponse(api_keys=versions)),
    )


@pytest.mark.parametrize("seconds", [0.5, 3.0, 3.1239])
@pytest.mark.parametrize("attempts", ["several", "one"])
def test_wait_for_the_connection_counts_towards_the_timeout_of_a_call(
    cluster: ScriptedCluster, attempts: str, seconds: float
) -> None:
    """Otherwise the limit of the waiting caller ends the call, a second late and without the reason."""
    client = cluster.client()
    client.wait_for_topic("orders", 5)
    connect_after(cluster, seconds)
    cluster.on(HeartbeatRequest, lambda request, broker: Hold())
    started = cluster.now
    words = f"did not respond to Heartbeat within {round(5 - seconds, 2):g} s$"
    if attempts == "several":
        with pytest.raises(KafkaTimeoutError, match=words):
            client.request(BEAT, ToNode(1), 5)
    else:
        with pytest.raises(RequestTimeout, match=words):
            client.start_once(BEAT, ToNode(1), 5).result(5 + GRACE)
    assert cluster.now - started == pytest.approx(5, abs=0.01)
    client.close()


@pytest.mark.parametrize("attempts", ["several", "one"])
def test_request_is_not_sent_after_its_deadline(cluster: ScriptedCluster, attempts: str) -> None:
    """It would time out at once, and close the connection while other requests are in flight."""
    client = cluster.client()
    client.wait_for_topic("orders", 5)
    connect_after(cluster, 2.0)
    cluster.on(HeartbeatRequest, lambda request, broker: HeartbeatResponse())
    start = client.start if attempts == "several" else client.start_once
    too_short, other = start(BEAT, ToNode(1), 2.0), client.start(BEAT, ToNode(1), 20.0)
    started = cluster.now
    assert isinstance(other.result(20), HeartbeatResponse)
    assert cluster.now - started == pytest.approx(2, abs=0.01)
    words = r"could not be sent: its timeout had passed when node 1 \(broker-1:9092\) was ready"
    with pytest.raises(KafkaTimeoutError, match=words):
        too_short.result(1)
    assert len(cluster.brokers[1].requests(HeartbeatRequest)) == 1
    client.close()


@pytest.mark.parametrize("to", [ToNode(1), None])
def test_call_without_time_keeps_the_open_connection(cluster: ScriptedCluster, to: ToNode | None) -> None:
    client = cluster.client()
    client.wait_for_topic("orders", 5)
    cluster.on(HeartbeatRequest, lambda request, broker: HeartbeatResponse())
    client.request(BEAT, ToNode(1), 5)
    connections = [client.router.connection(node_id) for node_id in range(3)]
    with pytest.raises(KafkaTimeoutError, match="could not be sent: its timeout had passed"):
        client.request(BEAT, to, 0)
    cluster.runtime.run_for(0.1)
    assert [client.router.connection(node_id) for node_id in range(3)] == connections
    client.close()


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
