"""Test minutes in milliseconds, with the same events in each run.

Shows: `Simulation`, which runs brokers and clients in virtual time from one seed; a broker that freezes until
the controller fences it; and the same seed, which gives the same trace to the byte.

    python -m pytest examples/test_in_virtual_time.py
    python -m pytest examples/test_in_virtual_time.py --simulation-seed=7
"""

from __future__ import annotations

from pykafka2.testing import Simulation, Topic

MEASUREMENTS = 20
SECONDS_BETWEEN = 15.0


def story(simulation: Simulation) -> list[bytes | None]:
    """Send a value every fifteen seconds as a sensor does, while the leader of its partition freezes."""
    cluster = simulation.cluster(brokers=3, topics={"measurements": Topic(1, replication_factor=3)})
    started = simulation.event()

    def sensor() -> None:
        with simulation.producer(cluster) as producer:
            for number in range(MEASUREMENTS):
                producer.send("measurements", b"%d" % number).result(timeout=120)
                started.set()
                simulation.sleep(SECONDS_BETWEEN)

    running = simulation.spawn(sensor)
    started.wait()
    frozen = cluster.partition("measurements", 0).leader
    cluster.controls.pause_broker(frozen)
    running.result()

    assert cluster.partition("measurements", 0).leader != frozen
    assert simulation.now >= MEASUREMENTS * SECONDS_BETWEEN
    return cluster.log("measurements", 0).values()


def test_no_measurement_is_lost_or_doubled(simulation: Simulation) -> None:
    assert story(simulation) == [b"%d" % number for number in range(MEASUREMENTS)]


def test_the_same_seed_plays_the_same_story() -> None:
    hashes = set()
    for _ in range(2):
        with Simulation(seed=7) as simulation:
            story(simulation)
            hashes.add(simulation.trace_hash)
    assert len(hashes) == 1
