"""Commits continue when the coordinator is lost or moves, for every kind of consumer and commit.

The table of six cells is that of KAFKA-13840: `subscribe` or `assign`, with automatic, asynchronous or
blocking commits.  There, two of them never committed again.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2 import KafkaConsumer
from pykafka2.errors import (
    CoordinatorNotAvailable,
    GroupAuthorizationFailed,
    InvalidGroupId,
    KafkaError,
    RebalanceInProgress,
)
from pykafka2.protocol.messages.coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pykafka2.testing import QUICK, KafkaCluster, Simulation
from tests.consumer.commit.lookup_mutants import kept_by_asynchronous_commits, noted_when_it_is_over
from tests.consumer.commit.stories import FIRST, GROUP, ORDERS, Callbacks, committed, produce, reader
from tests.gate import rest_in_gate, rest_in_long

Cell = tuple[str, str]
MODES = ["assign", "subscribe"]
CELLS = [(mode, way) for mode in MODES for way in ("auto", "async", "sync")]
ONE_BACK_OFF = 1.2
"""retry_backoff_max_ms and its jitter, in seconds."""
AUTO_EVERY = 0.3
OUTAGE = 3.0


class Application:
    """Reads and commits all the time, in one of the six ways."""

    def __init__(self, simulation: Simulation, cluster: KafkaCluster, cell: Cell) -> None:
        self.simulation = simulation
        self.mode, self.way = cell
        options = {
            "group_id": GROUP,
            "enable_auto_commit": self.way == "auto",
            "auto_commit_interval_ms": AUTO_EVERY * 1000,
            "auto_offset_reset": "earliest",
        }
        self.consumer: KafkaConsumer = simulation.consumer(cluster, **options)
        if self.mode == "assign":
            self.consumer.assign(ORDERS)
        else:
            self.consumer.subscribe(["orders"])

    def go_on(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Poll and commit, as applications do, for so long or until something holds."""
        end_at = self.simulation.now + seconds
        while self.simulation.now < end_at and not until():
            self.consumer.poll(100)
            if self.way == "async":
                self.consumer.commit_async(callback=lambda offsets, error: None)
            elif self.way == "sync":
                self._commit_blocking(min(end_at - self.simulation.now, 1.0))

    def _commit_blocking(self, seconds: float) -> None:
        try:
            self.consumer.commit(timeout_ms=max(seconds, 0.0) * 1000)
        except RebalanceInProgress:
            pass  # it has not joined yet
        except KafkaError as error:
            if not error.retriable:
                raise


def recovery(
    simulation: Simulation, cluster: KafkaCluster, cell: Cell, how: str, lookups: str
) -> float | None:
    """Seconds from the end of an outage to the first commit after it; None where there is none in 20 s.

    During the outage the coordinator is lost, or moves, and every lookup fails.
    """
    application = Application(simulation, cluster, cell)
    application.go_on(30, lambda: cluster.history.count("OffsetCommit") > 1)
    assert committed(cluster)
    coordinator = cluster.coordinator(GROUP)
    if lookups == "answers":
        cluster.controls.fail_next(FindCoordinatorRequest, CoordinatorNotAvailable, times=10_000)
    else:
        cluster.controls.disconnect_next(FindCoordinatorRequest, times=10_000)
    if how == "lost":
        cluster.controls.crash_broker(coordinator)
    else:
        cluster.controls.move_coordinator(GROUP, (coordinator + 1) % 3)
    application.go_on(OUTAGE)
    assert cluster.history.count("FindCoordinator") > 1, "there was a lookup during the outage"
    produce(simulation, cluster, 1, [FIRST])
    cluster.controls.clear()
    over_at = simulation.now
    application.go_on(20, lambda: committed(cluster).get(FIRST) == 11)
    return simulation.now - over_at if committed(cluster).get(FIRST) == 11 else None


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "lookups"),
    rest_in_long(
        [("lost", "answers"), ("moved", "disconnects"), ("moved", "answers"), ("lost", "disconnects")],
        in_gate=2,
    ),
)
@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_each_of_the_six_commits_again_within_one_back_off(
    simulation: Simulation, cluster: KafkaCluster, cell: Cell, how: str, lookups: str
) -> None:
    seconds = recovery(simulation, cluster, cell, how, lookups)
    assert seconds is not None, "it never commits again"
    assert seconds < ONE_BACK_OFF + AUTO_EVERY + 0.3


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("release", rest_in_long(["2.8", "3.9", "4.0"]))
@pytest.mark.parametrize("how", rest_in_long(["lost", "moved"]))
@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_each_of_the_six_commits_again_on_older_brokers(
    simulation: Simulation, cell: Cell, how: str, release: str
) -> None:
    cluster = simulation.cluster(brokers=3, topics={"orders": 2}, config=dict(QUICK), as_version=release)
    produce(simulation, cluster, 10, ORDERS)
    seconds = recovery(simulation, cluster, cell, how, "answers")
    assert seconds is not None, "it never commits again"
    assert seconds < ONE_BACK_OFF + AUTO_EVERY + 0.3


def failing_cells(how: str, lookups: str) -> set[Cell]:
    failing = set()
    for cell in CELLS:
        with Simulation(seed=11) as simulation:
            cluster = simulation.cluster(brokers=3, topics={"orders": 2}, config=dict(QUICK))
            produce(simulation, cluster, 10, ORDERS)
            if recovery(simulation, cluster, cell, how, lookups) is None:
                failing.add(cell)
    return failing


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.long
@pytest.mark.parametrize("how", ["lost", "moved"])
def test_a_lookup_kept_by_asynchronous_commits_fails_exactly_two_cells(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    kept_by_asynchronous_commits(monkeypatch)
    assert failing_cells(how, "answers") == {("assign", "auto"), ("assign", "async")}


@pytest.mark.slow
@pytest.mark.gate
@pytest.mark.long
def test_a_lookup_noted_when_it_is_over_fails_all_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    noted_when_it_is_over(monkeypatch)
    assert failing_cells("lost", "disconnects") == set(CELLS)


# ------------------------------------------------------------------ cleared on every path


def nowhere(*_: object) -> FindCoordinatorResponse:
    """A coordinator that refuses all connections."""
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key=GROUP, node_id=1, host="broker-1", port=0, error_message=None)]
    )


@pytest.mark.parametrize("path", ["error", "refusal", "invalid", "disconnect", "lost", "impossible", "held"])
@pytest.mark.parametrize("asker", rest_in_gate(["async", "sync", "committed", "poll"]))
def test_failed_coordinator_lookup_is_cleared_on_every_path(
    simulation: Simulation, cluster: KafkaCluster, path: str, asker: str
) -> None:
    controls = cluster.controls
    {
        "error": lambda: controls.fail_next(FindCoordinatorRequest, CoordinatorNotAvailable, times=50),
        "refusal": lambda: controls.fail_next(FindCoordinatorRequest, GroupAuthorizationFailed, times=50),
        "invalid": lambda: controls.fail_next(FindCoordinatorRequest, InvalidGroupId, times=50),
        "disconnect": lambda: controls.disconnect_next(FindCoordinatorRequest, times=50),
        "lost": lambda: controls.lose_reply(FindCoordinatorRequest, times=50),
        "impossible": lambda: controls.rule(
            api=FindCoordinatorRequest, then="replace_reply", times=50, reply=nowhere
        ),
        "held": lambda: controls.hold(FindCoordinatorRequest),
    }[path]()
    consumer = reader(simulation, cluster, [FIRST], request_timeout_ms=1000)
    callbacks = Callbacks()
    try:
        if asker == "async":
            consumer.commit_async({FIRST: 3}, callbacks)
            simulation.run_for(3)
        elif asker == "sync":
            consumer.commit({FIRST: 3}, timeout_ms=2500)
        elif asker == "committed":
            consumer.committed(FIRST, timeout_ms=2500)
        else:
            consumer.poll(2500)
    except KafkaError:
        pass
    controls.clear()
    controls.release()
    began_at = simulation.now
    consumer.commit({FIRST: 5})
    assert simulation.now - began_at < ONE_BACK_OFF + 1.0  # a held one ends with its request timeout
    assert committed(cluster) == {FIRST: 5}


def test_refused_lookup_is_raised_once_and_the_next_call_looks_up_again(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    consumer = reader(simulation, cluster)
    cluster.controls.fail_next(FindCoordinatorRequest, GroupAuthorizationFailed)
    with pytest.raises(GroupAuthorizationFailed):
        consumer.commit({FIRST: 3})
    consumer.commit({FIRST: 5})
    assert committed(cluster) == {FIRST: 5}
    assert cluster.history.count("FindCoordinator") == 2


@pytest.mark.gate
def test_commits_continue_when_a_broker_returns(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer, callbacks = reader(simulation, cluster, request_timeout_ms=2000), Callbacks()
    consumer.commit({FIRST: 1})
    for broker in range(3):
        cluster.controls.stop_broker(broker)
    for offset in range(2, 5):
        consumer.commit_async({FIRST: offset}, callbacks)
        simulation.run_for(3)
    consumer.poll()
    assert [error is not None for error in callbacks.errors] == [True] * 3
    for broker in range(3):
        cluster.controls.restart_broker(broker)
    consumer.commit({FIRST: 9}, timeout_ms=30_000)
    assert committed(cluster) == {FIRST: 9}
