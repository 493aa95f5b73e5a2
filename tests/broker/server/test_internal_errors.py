"""Bugs inside brokers: each closes one connection or ends one turn, and is reported.

The tests plant errors and observe their effects from outside.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any, NoReturn

import pytest

from pykafka2.broker.base.problems import MAX_KEPT, Problems
from pykafka2.broker.faults.engine import DeadOrigin
from pykafka2.broker.handlers.api import APIS, load
from pykafka2.broker.security.principal import Caller
from pykafka2.broker.server.request_context import ReceivedRequest, RequestContext
from pykafka2.broker.server.responses import Responses
from pykafka2.broker.server.threads import REST
from pykafka2.errors import CorruptData, Disconnected, IllegalState, NotController, UnknownServerError
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pykafka2.protocol.struct import Response
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.remote.http_client import AdminClient
from pykafka2.testing.remote.proxies import RemoteProblems
from pykafka2.testing.simulation import Simulation
from pykafka2.testing.simulation.problems import LoopFailed
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce, produce_request
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

pytestmark = pytest.mark.kafka(brokers=2, topics={"t": 1})


def planted(*arguments: Any, **named: Any) -> NoReturn:
    raise ZeroDivisionError("planted")


def known_brokers(wire: RawClient) -> int:
    """Return the number of brokers in the broker's metadata."""
    return len(wire.call(MetadataRequest(topics=[]), 12).brokers)


def assert_is_closed(wire: RawClient) -> None:
    with pytest.raises(ConnectionError):
        known_brokers(wire)


def taken(cluster: KafkaCluster) -> list[str]:
    """Return the places of the problems and forget them."""
    found = cluster.problems.take()
    assert all(isinstance(one.error, ZeroDivisionError) for one in found)
    return [one.where for one in found]


def test_acceptor_rests_after_accept_fails(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With too many open files, the listener is reported as ready all the time."""
    (acceptor,) = live.cluster.brokers[0]._acceptors
    listener: Any = acceptor._listener
    accept, calls = listener.accept, []

    def fail_for_a_while() -> Any:
        calls.append(time.monotonic())
        if len(calls) <= 2:
            raise Disconnected("too many open files")
        return accept()

    monkeypatch.setattr(listener, "accept", fail_for_a_while)
    assert known_brokers(live.connect()) == 2
    assert calls[1] - calls[0] > REST / 2
    assert calls[2] - calls[1] > REST / 2
    # Once until a connection is accepted.
    assert caplog.text.count("accepts no connections for now: too many open files") == 1
    calls.clear()
    assert known_brokers(live.connect()) == 2
    assert caplog.text.count("accepts no connections for now: too many open files") == 2


def test_failing_part_rests_and_does_not_affect_others(live: LiveCluster) -> None:
    """All brokers share a loop, which must not end with an error of one part."""
    part = live.cluster.brokers[0].parts.timers
    runs = []

    def fail(now: float) -> float:
        runs.append(now)
        part.signal()  # would spin without rests
        raise ZeroDivisionError("planted")

    part.run = fail  # type: ignore[method-assign]
    part.signal()
    live.wait_for(lambda: len(live.cluster.problems) >= 3)
    assert min(after - before for before, after in pairwise(runs)) >= 0.1
    live.cluster.create_topic("u")
    assert known_brokers(live.connect()) == known_brokers(live.connect(1)) == 2
    del part.run
    live.wait_for(lambda: part.wake_at > runs[-1] + 0.1)
    assert set(taken(live.cluster)) == {"timers-0"}
    assert not live.cluster.problems


def test_failure_on_a_connection_closes_only_that_connection(
    live: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = live.connect(), live.connect()
    assert known_brokers(one) == known_brokers(other) == 2
    history: Any = live.history
    history.received = planted  # when the request is received
    assert_is_closed(one)
    del history.received
    assert known_brokers(other) == 2
    assert "ZeroDivisionError: planted" in caplog.text
    history.ended = planted  # when the response is ready
    assert_is_closed(live.connect())
    del history.ended
    faults: Any = live.cluster.faults
    live.controls.delay("Heartbeat", 1.0)
    faults.intercept = planted  # when a handler takes the request
    assert_is_closed(live.connect())
    del faults.intercept
    metrics: Any = live.cluster.brokers[0].metrics
    metrics.record = planted  # when the response was sent
    wire = live.connect()
    assert known_brokers(wire) == 2
    assert wire.is_closed_by_broker()
    del metrics.record
    assert known_brokers(other) == 2
    where = taken(live.cluster)
    assert sum(one == "handler-0-0: MetadataRequest" for one in where) == 1
    assert sum("responding to MetadataRequest" in one for one in where) == 1
    assert sum("the connection of" in one for one in where) >= 2


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"threads": "separate"})
def test_failed_inter_broker_request_is_failed_under_the_lock(live: LiveCluster) -> None:
    """The handler's thread has released the lock, which guards the links between brokers."""
    view = live.cluster.partition("t", 0)
    lock: Any = live.cluster.brokers[0].lock
    requests: Any = live.cluster.brokers[view.leader].requests
    links: Any = live.cluster.brokers[view.leader]._shared.links
    with_lock: list[bool] = []
    respond, fail = requests.dispatch, links._fail

    def fails_once(context: RequestContext, now: float) -> None:
        if context.is_from_broker and not with_lock:
            raise ZeroDivisionError("planted")
        respond(context, now)

    def spy(*arguments: Any) -> None:
        with_lock.append(lock._is_owned())
        fail(*arguments)

    with lock:
        requests.dispatch, links._fail = fails_once, spy
    live.wait_for(lambda: bool(with_lock))
    assert all(with_lock)
    with lock:
        del requests.dispatch, links._fail
    assert len(taken(live.cluster)) == 1


class Recipient(DeadOrigin):
    """A connection that records its responses and whether it was closed."""

    def __init__(self) -> None:
        super().__init__("client", Caller())
        self.responses: list[Any] = []
        self.is_closed = False

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        self.responses.append(response)

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        self.is_closed = True


def received(origin: Recipient) -> RequestContext:
    return RequestContext(origin, ReceivedRequest(MetadataRequest(topics=[]), 13, 1, "client", 10, 0.0))


@pytest.mark.parametrize(
    ("error", "code", "is_problem"),
    [
        (NotController("moved"), NotController.code, False),
        (CorruptData("bad"), UnknownServerError.code, False),
        (IllegalState("bug"), UnknownServerError.code, True),
        (ZeroDivisionError("bug"), UnknownServerError.code, True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_a_bug_of_a_handler_is_a_problem(error: Exception, code: int, is_problem: bool) -> None:
    problems, origin = Problems(), Recipient()
    load()

    def fail() -> Response | None:
        raise error

    Responses(0, APIS, problems).respond_with(received(origin), fail)
    assert [response.error_code for response in origin.responses] == [code]
    assert (len(problems), origin.is_closed) == (is_problem, False)


def test_request_that_has_its_response_gets_no_second_one() -> None:
    problems, origin = Problems(), Recipient()
    responses, context = Responses(0, APIS, problems), received(origin)
    first, second = MetadataResponse(brokers=[], topics=[]), MetadataResponse(brokers=[], topics=[])
    responses.respond_with(context, lambda: first)
    responses.respond_with(context, lambda: second)
    responses.refuse(context, NotController.code or 0)
    assert [one is first for one in origin.responses] == [True]
    assert (len(problems), origin.is_closed) == (0, False)


def test_delayed_response_that_fails_closes_its_connection(live: LiveCluster) -> None:
    """It is in the purgatory, so only the close of its connection can end the wait of the client."""
    live.controls.pause_followers()
    wire = live.leader()
    wire.send(produce_request("t", 0, batch(), timeout_ms=60_000), 12)
    live.wait_for(lambda: live.cluster.log("t", 0).log_end_offset == 1)
    history: Any = live.history
    history.ended = planted
    live.controls.resume_followers()
    assert wire.is_closed_by_broker()
    # The processor drops the connection afterwards, which fails again.
    live.wait_for(lambda: not any(one.connections for one in live.cluster.broker(0).processors))
    del history.ended
    assert known_brokers(live.leader()) == 2  # the turn of the drop is over
    assert any("responding to ProduceRequest" in where for where in taken(live.cluster))


def test_failure_while_closing_a_connection_does_not_affect_others(live: LiveCluster) -> None:
    one, other = live.leader(), live.leader()
    live.controls.pause_followers()
    one.send(produce_request("t", 0, batch(), timeout_ms=60_000), 12)
    live.wait_for(lambda: live.cluster.log("t", 0).log_end_offset == 1)
    history: Any = live.history
    history.ended = planted
    one.close()
    live.wait_for(lambda: len(live.cluster.problems) > 0)
    del history.ended
    assert known_brokers(other) == 2
    assert len(taken(live.cluster)) == 1


def test_failing_listener_is_not_retried_at_once(live: LiveCluster) -> None:
    quotas: Any = live.cluster.brokers[0].parts.quotas
    quotas.room_at = planted
    wire = live.connect()
    live.wait_for(lambda: len(live.cluster.problems) >= 2)
    assert known_brokers(live.connect(1)) == 2
    assert len(live.cluster.problems) < 20
    del quotas.room_at
    assert known_brokers(wire) == 2
    assert len(taken(live.cluster)) < 20


def test_failure_on_a_link_or_in_a_timer_affects_only_itself(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    broker = cluster.brokers[0]
    ran: list[float] = []
    now = cluster.runtime.clock.monotonic()
    with cluster.lock:
        broker.wheel.add(now + 0.1, planted)
        broker.wheel.add(now + 0.1, ran.append)
        cluster.links._ready.append(planted)
        cluster.links._ready.append(ran.append)
        cluster.links.signal()
        broker.parts.wake()
    simulation.run_for(1.0)
    assert len(ran) == 2
    assert sorted(taken(cluster)) == ["a delivery on a link between brokers", "a timer"]


def test_failing_partition_does_not_make_its_follower_spin(live: LiveCluster) -> None:
    follower = 1 - live.leader_id()
    log: Any = live.cluster.brokers[follower].replicas.log_of(("t", 0))
    log.append_as_follower = planted
    wire = live.leader()
    assert produce(wire, "t", 0, batch(), acks=1).error_code == 0
    live.wait_for(lambda: len(live.cluster.problems) >= 2)
    live.cluster.runtime.wait_until(lambda: False, 0.1)
    assert len(live.cluster.problems) < 20
    del log.append_as_follower
    assert produce(wire, "t", 0, batch(), acks=-1).error_code == 0
    assert set(taken(live.cluster)) == {f"fetchers-{follower}: t-0"}


def test_simulation_exit_raises_internal_problems() -> None:
    world = Simulation(1)
    cluster = world.cluster(brokers=1)
    timers = cluster.brokers[0].parts.timers
    timers.run = planted  # type: ignore[method-assign]
    world.run_for(10.0)
    del timers.run
    world.run_for(1.0)
    assert known_brokers(RawClient(cluster.brokers[0].address, simulation=world)) == 1  # the broker continues
    with pytest.raises(LoopFailed, match=r"timers-0 failed: .*planted") as caught:
        world.__exit__(None, None, None)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_cluster_exit_raises_internal_problems() -> None:
    cluster = KafkaCluster(brokers=1).start()
    cluster.problems.note("handler-0-0", ZeroDivisionError("planted"))
    with pytest.raises(IllegalState, match=r"handler-0-0 failed: ZeroDivisionError\('planted'\)"):
        cluster.close()
    cluster.close()  # idempotent
    other = KafkaCluster(brokers=1).start()
    other.problems.note("handler-0-0", ZeroDivisionError("planted"))
    own = ValueError("raised by the block")
    other.__exit__(ValueError, own, None)
    assert "handler-0-0 failed" in own.__notes__[0]


@pytest.mark.gate
@pytest.mark.slow
def test_problems_of_a_cluster_in_another_process_are_raised_here(kafka_cluster: KafkaCluster) -> None:
    port = kafka_cluster.open_admin_port()
    kafka_cluster.problems.note("handler-0-0", ZeroDivisionError("planted"))
    client = AdminClient(port.address, port.token)
    problems = RemoteProblems(client)
    assert len(problems) == 1
    with pytest.raises(IllegalState, match=r"handler-0-0 failed: .*ZeroDivisionError\('planted'\)"):
        problems.raise_any()
    assert [one.where for one in problems.take()] == ["handler-0-0"]
    assert not kafka_cluster.problems
    client.close()
    process = KafkaCluster(brokers=1, process=True).start()
    process.problems = Problems()
    process.problems.note("handler-0-0", ZeroDivisionError("planted"))
    with pytest.raises(IllegalState, match="bug in pykafka2"):
        process.close()
    with pytest.raises(IllegalState, match="not running"):
        process.call("topics")


def test_first_hundred_problems_are_kept_and_all_are_counted() -> None:
    problems = Problems()
    problems.raise_any()
    for number in range(MAX_KEPT + 10):
        problems.note(f"part {number}", ZeroDivisionError("planted"))
    assert len(problems) == MAX_KEPT + 10
    with pytest.raises(IllegalState, match=r"part 0 failed: .* \(110 problems, this is the first\)"):
        problems.raise_any()
    assert len(problems.take()) == MAX_KEPT
    assert not problems
