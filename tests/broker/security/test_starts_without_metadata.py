"""A starting broker serves no client before it has the metadata, with its ACLs and users."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.broker.broker import Broker
from pykafka2.broker.server.acceptor import Acceptor
from pykafka2.errors import GroupAuthorizationFailed
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.raw_client import RawClient

REQUEST = FindCoordinatorRequest(key_type=0, coordinator_keys=["secret"])
LATE = 1

Start = Callable[[KafkaCluster], Callable[[], None]]


def held(cluster: KafkaCluster) -> Callable[[], None]:
    """Start the broker while its metadata is held, and return the function that releases it."""
    cluster.controls.hold_metadata(LATE)
    cluster.controls.restart_broker(LATE)
    return cluster.controls.release_metadata


def cut_off(cluster: KafkaCluster) -> Callable[[], None]:
    """Start the broker without links to the others, and return the function that heals them."""
    for other in (0, 2):
        cluster.controls.cut_link(LATE, other)
    cluster.controls.restart_broker(LATE)
    return cluster.controls.heal


@pytest.mark.parametrize("start", [held, cut_off])
def test_restarted_broker_serves_no_request_before_it_has_the_acls(
    simulation: Simulation, start: Start
) -> None:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": True}
    cluster = simulation.cluster(3, config=config)
    cluster.acls.deny("User:ANONYMOUS", "DESCRIBE", group="secret")
    cluster.controls.crash_broker(LATE)
    learn = start(cluster)
    wire = RawClient(cluster.broker(LATE).address, simulation=simulation)
    wire.send(REQUEST, 6)
    simulation.run_for(3)
    assert not wire.has_response(), "a broker without ACLs allows everything"
    learn()
    _, response = wire.receive(FindCoordinatorRequest, 6)
    assert [one.error_code for one in response.coordinators] == [GroupAuthorizationFailed.code]


@pytest.mark.slow
def test_scram_user_logs_in_once_the_restarted_broker_has_the_metadata(simulation: Simulation) -> None:
    """Until then it gets no error of a wrong password, which would be fatal."""
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


def test_broker_stopped_before_its_first_metadata_starts_again(simulation: Simulation) -> None:
    cluster = simulation.cluster(3)
    cluster.controls.crash_broker(LATE)
    learn = held(cluster)
    cluster.controls.crash_broker(LATE)
    learn()
    simulation.run_for(1)
    cluster.controls.restart_broker(LATE)
    wire = RawClient(cluster.broker(LATE).address, simulation=simulation)
    assert wire.call(REQUEST, 6).coordinators


class ThenLearns:
    """A lock whose release provides the metadata while the listeners wait for it."""

    def __init__(self, broker: Broker, learn: Callable[[], None]) -> None:
        self._broker = broker
        self._lock = broker.lock
        self._learns: list[Callable[[], None]] = [learn]

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        is_waiting = bool(self._broker._waiting_to_open)
        self._lock.__exit__(None, None, None)
        if is_waiting and self._learns:
            self._learns.pop()()


def test_metadata_at_the_end_of_the_start_opens_the_listeners_once(
    simulation: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = simulation.cluster(3)
    cluster.controls.crash_broker(LATE)
    cluster.controls.hold_metadata(LATE)
    opened: list[Acceptor] = []
    open_one = Acceptor.open
    monkeypatch.setattr(Acceptor, "open", lambda self: (opened.append(self), open_one(self)))
    late = cluster.broker(LATE)
    monkeypatch.setattr(late, "lock", ThenLearns(late, cluster.controls.release_metadata))
    cluster.controls.restart_broker(LATE)
    simulation.run_for(1)
    assert len(opened) == 1
