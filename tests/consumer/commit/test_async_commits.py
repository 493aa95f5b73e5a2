"""`commit_async`: it never waits, is sent once, and its callbacks come in the order of the commits."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable

import pytest

from pykafka2 import KafkaConsumer
from pykafka2.errors import (
    CoordinatorLoadInProgress,
    GroupAuthorizationFailed,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinator,
    RetriableCommitFailed,
)
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.committed_offsets import OffsetCommitRequest
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.consumer.commit.stories import FIRST, SECOND, Callbacks, committed, read, reader


def test_commit_async_returns_at_once_and_its_callback_runs_in_a_later_call(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer, callbacks = reader(simulation, cluster, [FIRST]), Callbacks()
    read(consumer, 3)
    began_at = simulation.now
    completion = consumer.commit_async(callback=callbacks)
    assert simulation.now == began_at
    assert not completion.is_done
    simulation.run_for(1)
    assert completion.is_done
    assert callbacks.calls == [], "callbacks wait for the application's thread"
    consumer.poll()
    assert (callbacks.offsets, callbacks.errors) == ([3], [None])
    assert committed(cluster) == {FIRST: 3}


def test_committed_returns_the_offsets_of_earlier_asynchronous_commits(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """The Java client, too, sends its requests in the order of the calls."""
    consumer = reader(simulation, cluster, [FIRST, SECOND])
    for offset in range(1, 8):
        consumer.commit_async({FIRST: offset, SECOND: offset - 1})
        assert consumer.committed(FIRST) == offset
        assert consumer.committed(SECOND) == offset - 1


@pytest.mark.parametrize("call", ["poll", "commit", "commit_async", "close"])
def test_callbacks_run_in_order_on_the_callers_thread(
    simulation: Simulation, cluster: KafkaCluster, call: str
) -> None:
    consumer, callbacks, threads = reader(simulation, cluster), Callbacks(), []

    def callback(*arguments: object) -> None:
        callbacks(*arguments)  # type: ignore[arg-type]
        threads.append(threading.current_thread())

    for offset in range(1, 6):
        consumer.commit_async({FIRST: offset}, callback)
    if call != "close":
        simulation.run_for(1)
    calls: dict[str, Callable[[], object]] = {
        "poll": consumer.poll,
        "commit": lambda: consumer.commit({}),
        "commit_async": lambda: consumer.commit_async({}),
        "close": consumer.close,
    }
    calls[call]()
    assert callbacks.offsets == [1, 2, 3, 4, 5]
    assert set(threads) == {threading.current_thread()}
    assert committed(cluster) == {FIRST: 5}


@pytest.mark.gate
def test_a_waiting_poll_calls_back_when_the_answer_is_there(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster, [FIRST])
    read(consumer, 10)
    called_at: list[float] = []
    cluster.controls.delay(OffsetCommitRequest, 2.0)
    began_at = simulation.now
    consumer.commit_async(callback=lambda *arguments: called_at.append(simulation.now))
    consumer.poll(10_000)
    assert called_at[0] == pytest.approx(began_at + 2, abs=0.1)


@pytest.mark.gate
def test_commit_async_is_sent_once_and_reports_retriable_errors(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer, callbacks = reader(simulation, cluster), Callbacks()
    for error in (CoordinatorLoadInProgress, NotCoordinator, None):
        if error is None:
            cluster.controls.lose_reply(OffsetCommitRequest)
        else:
            cluster.controls.fail_next(OffsetCommitRequest, error)
        consumer.commit_async({FIRST: 5}, callbacks)
        simulation.run_for(5)
        consumer.poll()
    assert cluster.history.count("OffsetCommit") == 3
    assert [type(error) for error in callbacks.errors] == [RetriableCommitFailed] * 3
    failure = callbacks.errors[0]
    assert isinstance(failure, RetriableCommitFailed)
    assert failure.retriable
    assert isinstance(failure.__cause__, CoordinatorLoadInProgress)
    assert "commit the latest offsets again" in str(failure)


def test_a_retry_never_overtakes_a_later_commit(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer, callbacks = reader(simulation, cluster), Callbacks()
    cluster.controls.fail_next(OffsetCommitRequest, CoordinatorLoadInProgress)
    consumer.commit_async({FIRST: 5}, callbacks)
    consumer.commit_async({FIRST: 6}, callbacks)
    simulation.run_for(30)
    consumer.poll()
    assert [error is None for error in callbacks.errors] == [False, True]
    assert committed(cluster) == {FIRST: 6}


def test_several_are_under_way_together(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer, callbacks = reader(simulation, cluster), Callbacks()
    consumer.commit({FIRST: 0})
    cluster.controls.delay(OffsetCommitRequest, 1.0, times=1)
    for offset in range(1, 6):
        consumer.commit_async({FIRST: offset}, callbacks)
    simulation.run_for(1.5)
    consumer.poll()
    assert callbacks.offsets == [1, 2, 3, 4, 5], "each need not wait for the answer to the one before"


@pytest.mark.gate
def test_commits_while_the_coordinator_is_unknown_share_one_lookup_and_keep_their_order(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer, callbacks = reader(simulation, cluster), Callbacks()
    cluster.controls.delay(FindCoordinatorRequest, 1.0)
    for offset in range(1, 51):
        consumer.commit_async({FIRST: offset}, callbacks)
    simulation.run_for(3)
    consumer.poll()
    assert callbacks.offsets == list(range(1, 51))
    assert callbacks.errors == [None] * 50
    cluster.history.exactly(1, "FindCoordinator")
    sent = [
        one.topics[0].partitions[0].committed_offset for one in cluster.history.requests(OffsetCommitRequest)
    ]
    assert sent == list(range(1, 51))


def test_without_a_callback_errors_are_logged(
    simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = reader(simulation, cluster)
    consumer.commit_async({FIRST: 4})
    cluster.controls.fail_next(OffsetCommitRequest, GroupAuthorizationFailed)
    consumer.commit_async({FIRST: 5})
    with caplog.at_level(logging.ERROR, "pykafka2"):
        consumer.commit({})
    [line] = caplog.messages
    assert "orders-0 at 4" in line or "orders-0 at 5" in line
    assert re.match(r"\[.+\] the commit of .* to group '.+' failed: ", line)
    assert "ACL" in line


def test_default_offset_commit_callback_is_called(simulation: Simulation, cluster: KafkaCluster) -> None:
    callbacks, mine = Callbacks(), Callbacks()
    consumer = reader(simulation, cluster, default_offset_commit_callback=callbacks)
    consumer.commit_async({FIRST: 4})
    consumer.commit_async({FIRST: 5}, mine)
    consumer.commit({})
    assert (callbacks.offsets, mine.offsets) == ([4], [5])


def test_exception_of_a_callback_is_raised_and_later_callbacks_follow_next_time(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer, callbacks = reader(simulation, cluster), Callbacks()

    def fail(*_: object) -> None:
        raise LookupError("mine")

    consumer.commit_async({FIRST: 1}, fail)
    consumer.commit_async({FIRST: 2}, callbacks)
    simulation.run_for(1)
    with pytest.raises(LookupError, match="mine"):
        consumer.poll()
    assert callbacks.offsets == []
    consumer.poll()
    assert callbacks.offsets == [2]


def test_a_callback_may_commit(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer, callbacks = reader(simulation, cluster), Callbacks()

    def again(*_: object) -> None:
        consumer.commit_async({FIRST: 2}, callbacks)
        consumer.commit({FIRST: 3})

    consumer.commit_async({FIRST: 1}, again)
    simulation.run_for(1)
    consumer.poll()
    assert callbacks.offsets == [2]
    assert committed(cluster) == {FIRST: 3}


def test_unanswered_commit_async_fails_after_the_request_timeout(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer, callbacks = reader(simulation, cluster, request_timeout_ms=5000), Callbacks()
    for broker in range(3):
        cluster.controls.pause_broker(broker)
    consumer.commit_async({FIRST: 1}, callbacks)
    consumer.commit_async({FIRST: 2}, callbacks)
    simulation.run_for(8)
    consumer.poll()
    assert callbacks.offsets == [1, 2]
    assert all(error is not None for error in callbacks.errors)


def test_wait_for_the_connection_counts_towards_the_timeout_of_commit_async(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster, request_timeout_ms=5000)
    cluster.controls.delay(ApiVersionsRequest, 1.0)
    cluster.controls.hold(OffsetCommitRequest)
    began_at = simulation.now
    error = consumer.commit_async({FIRST: 1}).exception(20)
    assert isinstance(error, KafkaError)
    assert simulation.now - began_at == pytest.approx(5, abs=0.01)


@pytest.mark.gate
def test_close_waits_for_commits_in_flight(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer, callbacks = reader(simulation, cluster), Callbacks()
    cluster.controls.delay(OffsetCommitRequest, 1.0)
    consumer.commit_async({FIRST: 5}, callbacks)
    simulation.run_for(0.5)
    consumer.commit_async({FIRST: 6}, callbacks)
    consumer.close()
    assert (callbacks.offsets, callbacks.errors) == ([5, 6], [None, None]), "their answers come one by one"


@pytest.mark.parametrize("limit", [{"timeout": 2.0}, {"timeout_ms": 2000}], ids=["seconds", "milliseconds"])
def test_close_keeps_its_timeout_and_reports_unfinished_commits(
    simulation: Simulation, cluster: KafkaCluster, limit: dict[str, float]
) -> None:
    consumer: KafkaConsumer
    consumer, callbacks = reader(simulation, cluster), Callbacks()
    cluster.controls.hold(OffsetCommitRequest)
    consumer.commit_async({FIRST: 5}, callbacks)
    began_at = simulation.now
    consumer.close(**limit)  # type: ignore[arg-type]
    assert simulation.now - began_at <= 3
    [error] = callbacks.errors
    assert isinstance(error, KafkaTimeoutError)
    assert "unknown whether it was written" in str(error)


@pytest.mark.gate
def test_driver_turn_does_not_visit_commits_in_flight(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer, callbacks = reader(simulation, cluster), Callbacks()
    consumer.commit({FIRST: 0})
    cluster.controls.hold(OffsetCommitRequest)
    for offset in range(1, 501):
        consumer.commit_async({FIRST: offset}, callbacks)
    simulation.run_for(1)
    commits = consumer._core.group.commits  # type: ignore[union-attr]
    assert commits.count == 500
    calls = []
    sys.setprofile(lambda frame, event, argument: calls.append(event))
    try:
        commits.poll(simulation.now)
    finally:
        sys.setprofile(None)
    assert len(calls) < 20
    cluster.controls.release(OffsetCommitRequest)
    simulation.run_for(1)
    consumer.poll()
    assert callbacks.offsets == list(range(1, 501))


def test_a_callback_that_raises_at_close_costs_no_later_commit(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """Its exception is raised after all other work is done."""

    def refuse(offsets: object, error: object) -> None:
        raise RuntimeError("not mine")

    consumer = reader(simulation, cluster, enable_auto_commit=True, auto_commit_interval_ms=60_000)
    read(consumer, 3)
    cluster.controls.delay(OffsetCommitRequest, 0.2, times=2)
    consumer.commit_async({FIRST: 0}, callback=refuse)
    with pytest.raises(RuntimeError, match="not mine"):
        consumer.close()
    assert sum(committed(cluster).values()) == 3


@pytest.mark.gate
def test_thousands_of_callbacks_may_raise_at_close(simulation: Simulation, cluster: KafkaCluster) -> None:
    call_count = 0

    def refuse(offsets: object, error: object) -> None:
        nonlocal call_count
        call_count += 1
        raise RuntimeError("not mine")

    consumer = reader(simulation, cluster)
    cluster.controls.hold(OffsetCommitRequest)
    for _ in range(2000):
        consumer.commit_async({FIRST: 1}, callback=refuse)
    with pytest.raises(RuntimeError, match="not mine"):
        consumer.close(timeout=0.5)
    assert call_count == 2000


def test_ctrl_c_at_close_is_raised_though_a_callback_raised(
    simulation: Simulation, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = reader(simulation, cluster)

    def press(predicate: object, timeout: float, *queues: object) -> bool:
        raise KeyboardInterrupt

    def refuse(offsets: object, error: object) -> None:
        monkeypatch.setattr(consumer._core.cluster.driver, "wait_until", press)
        raise RuntimeError("not mine")

    consumer.commit_async({FIRST: 1}, callback=refuse)
    cluster.controls.delay(OffsetCommitRequest, 0.2)
    consumer.commit_async({FIRST: 2})
    with pytest.raises(KeyboardInterrupt):
        consumer.close()
