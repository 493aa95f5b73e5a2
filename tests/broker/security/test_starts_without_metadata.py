"""A broker lets nobody in before it has the metadata: without it there are neither rules nor users."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.broker.process import BrokerProcess
from pykafka2.broker.server.acceptor import Acceptor
from pykafka2.errors import GroupAuthorizationFailed
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.raw_client import RawClient

ASKED = FindCoordinatorRequest(key_type=0, coordinator_keys=["secret"])
LATE = 1

Start = Callable[[KafkaCluster], Callable[[], None]]


def held(cluster: KafkaCluster) -> Callable[[], None]:
    """The broker starts while its metadata is held; what ends that."""
    cluster.controls.hold_metadata(LATE)
    cluster.controls.restart_broker(LATE)
    return cluster.controls.release_metadata


def cut_off(cluster: KafkaCluster) -> Callable[[], None]:
    """It starts out of reach of the controller."""
    for other in (0, 2):
        cluster.controls.cut_link(LATE, other)
    cluster.controls.restart_broker(LATE)
    return cluster.controls.heal


@pytest.mark.parametrize("start", [held, cut_off])
def test_rules_hold_from_the_first_request_on(simulation: Simulation, start: Start) -> None:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": True}
    cluster = simulation.cluster(3, config=config)
    cluster.acls.deny("User:ANONYMOUS", "DESCRIBE", group="secret")
    cluster.controls.crash_broker(LATE)
    learn = start(cluster)
    wire = RawClient(cluster.broker(LATE).address, simulation=simulation)
    wire.send(ASKED, 6)
    simulation.run_for(3)
    assert not wire.has_response(), "a broker that knows no rules allows everything"
    learn()
    _, answer = wire.receive(FindCoordinatorRequest, 6)
    assert [one.error_code for one in answer.coordinators] == [GroupAuthorizationFailed.code]


@pytest.mark.slow
def test_a_user_of_the_metadata_logs_in_once_it_is_there(simulation: Simulation) -> None:
    """And is not told meanwhile that its password is wrong, which ends a client."""
    cluster = simulation.cluster(3, {"t": 1}, listeners=["SASL_PLAINTEXT"], users={"ann": "right"})
    cluster.controls.crash_broker(LATE)
    cluster.controls.delay_metadata(LATE, 15.0)
    cluster.controls.restart_broker(LATE)  # which waits for 10 s
    producer = simulation.producer(
        cluster,
        bootstrap_servers=cluster.broker(LATE).address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="ann",
        sasl_password="right",
    )
    assert producer.send("t", b"v").result(20).topic == "t"


def test_a_broker_that_stops_before_it_learns_anything_starts_again(simulation: Simulation) -> None:
    cluster = simulation.cluster(3)
    cluster.controls.crash_broker(LATE)
    learn = held(cluster)
    cluster.controls.crash_broker(LATE)
    learn()
    simulation.run_for(1)
    cluster.controls.restart_broker(LATE)
    wire = RawClient(cluster.broker(LATE).address, simulation=simulation)
    assert wire.call(ASKED, 6).coordinators


class ThenLearns:
    """A lock; who lets it go while listeners wait for the metadata finds that it has just come."""

    def __init__(self, process: BrokerProcess, learn: Callable[[], None]) -> None:
        self._process = process
        self._lock = process._node.lock
        self._learns: list[Callable[[], None]] = [learn]

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        is_waiting = bool(self._process._waiting_to_open)
        self._lock.__exit__(None, None, None)
        if is_waiting and self._learns:
            self._learns.pop()()


def test_metadata_that_comes_while_the_start_ends_opens_the_listeners_once(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = simulation.cluster(3)
    cluster.controls.crash_broker(LATE)
    cluster.controls.hold_metadata(LATE)
    opened: list[Acceptor] = []
    open_one = Acceptor.open
    monkeypatch.setattr(Acceptor, "open", lambda self: (opened.append(self), open_one(self)))
    process = cluster.broker(LATE).process
    monkeypatch.setattr(process._node, "lock", ThenLearns(process, cluster.controls.release_metadata))
    cluster.controls.restart_broker(LATE)
    simulation.run_for(1)
    assert len(opened) == 1
