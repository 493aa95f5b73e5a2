"""In virtual time: what waiting for replicas costs, with everything else for free.

The benchmark (`python -m benchmarks.broker_acks`) prints tables of the same on real sockets and processes;
its figures are in docs/benchmarks.md.  Here a round trip between the brokers takes ten virtual milliseconds
and computing none, so what is left is how often a connection waits for one.
"""

from __future__ import annotations

import pytest

from pykafka2.testing import KafkaCluster, Simulation
from pykafka2.testing.cluster import Topic
from tests.gate import rest_in_gate

ROUND_TRIP = 0.010
RECORD = bytes(1000)


def two_replica_cluster(simulation: Simulation, *, pipelined: bool, replicas: int = 2) -> KafkaCluster:
    """One topic, one partition, and a long way between the brokers."""
    # As on real threads by default: all parts of the brokers in one loop.
    config = {"threads": "shared"}
    topics = {"t": Topic(1, replicas)}
    cluster = simulation.cluster(brokers=2, topics=topics, pipelined=pipelined, config=config)
    cluster.controls.delay_link(0, 1, ROUND_TRIP / 2)
    return cluster


def send_for(
    *, pipelined: bool, acks: str | int, in_flight: int, producers: int = 1, seconds: float = 1.0
) -> float:
    """Records acknowledged in each virtual second, by producers that send one record a request."""
    with Simulation(seed=23) as simulation:
        cluster = two_replica_cluster(simulation, pipelined=pipelined)
        clients = [
            simulation.producer(
                cluster,
                acks=acks,
                max_in_flight_requests_per_connection=in_flight,
                enable_idempotence=False,
                linger_ms=0,
                batch_size=1000,
            )
            for _ in range(producers)
        ]
        delivered = [0]
        for client in clients:
            client.send("t", RECORD).result(10)
        waiting = [0] * producers
        begin = simulation.now
        # As many records as can be under way, and some more, wait in each producer all the time.
        backlog = 2 * in_flight + 2
        while simulation.now < begin + seconds:
            for number, client in enumerate(clients):
                while waiting[number] < backlog:
                    waiting[number] += 1

                    def done(_: object, error: object, number: int = number) -> None:
                        waiting[number] -= 1
                        delivered[0] += error is None

                    client.send("t", RECORD, on_delivery=done)
            simulation.run_for(ROUND_TRIP / 10)
        return delivered[0] / (simulation.now - begin)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(("in_flight", "at_least"), rest_in_gate([(5, 2.5), (200, 6.0)]))
def test_pipelined_waits_for_many_replies_at_once(in_flight: int, at_least: float) -> None:
    serial, pipelined = [
        send_for(pipelined=mode, acks="all", in_flight=in_flight, seconds=1.0 if in_flight <= 5 else 0.2)
        for mode in (False, True)
    ]
    # One record in each round trip.
    assert serial <= 1.1 / ROUND_TRIP
    # All that is in flight in two round trips: what came while a fetch was on its way waits for the next one.
    assert pipelined >= at_least * serial


@pytest.mark.gate
@pytest.mark.slow
def test_acks_1_is_the_same_in_both_modes() -> None:
    rates = [send_for(pipelined=mode, acks=1, in_flight=5, seconds=0.2) for mode in (False, True)]
    assert rates[1] == pytest.approx(rates[0], rel=0.1)


@pytest.mark.gate
@pytest.mark.slow
def test_more_producers_in_serial_mode_add_up() -> None:
    """The other remedy; each producer orders its own records only.

    A follower has one fetch under way, so a record that comes just after one was answered waits for the next:
    two round trips.  One producer never meets that, two always do, and from then on the sum is linear.
    """
    one, two, four, eight = [
        send_for(pipelined=False, acks="all", in_flight=5, producers=n) for n in (1, 2, 4, 8)
    ]
    assert two >= 0.95 * one
    assert four == pytest.approx(2 * two, rel=0.1)
    assert eight == pytest.approx(4 * two, rel=0.1)


@pytest.mark.slow
def test_the_brokers_p99_stays_low_while_the_serial_client_waits_a_hundred_round_trips() -> None:
    """Time in the socket's buffer is part of none of the broker's figures."""
    with Simulation(seed=25) as simulation:
        cluster = two_replica_cluster(simulation, pipelined=False)
        producer = simulation.producer(
            cluster,
            acks="all",
            max_in_flight_requests_per_connection=100,
            enable_idempotence=False,
            linger_ms=0,
            batch_size=200,
        )
        producer.send("t", bytes(150)).result(10)
        broker = cluster.brokers[cluster.partition("t", 0).leader]
        broker.metrics.clear()
        times: list[float] = []
        begin = simulation.now
        futures = [
            producer.send("t", bytes(150), on_delivery=lambda _, error: times.append(simulation.now - begin))
            for _ in range(100)
        ]
        for future in futures:
            future.result(60)
        figures = broker.metrics.api("Produce")
        assert figures.count == 100
        assert ROUND_TRIP * 0.9 < figures.total.p99 < 2.5 * ROUND_TRIP
        assert figures.remote.p99 > 0.9 * figures.total.p50
        assert max(times) > 90 * ROUND_TRIP
