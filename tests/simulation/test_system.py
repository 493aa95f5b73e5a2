"""Three brokers with clients in virtual time: a test's everyday, an idle hour, and seeds full of faults."""

from __future__ import annotations

import time

import pytest

from pykafka2.errors import NotLeaderOrFollower
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing.simulation import Simulation
from pykafka2.testing.simulation.fault_table import KINDS
from pykafka2.types import TopicPartition
from tests.campaign.run import main
from tests.campaign.system_story import Shape, run_seed
from tests.gate import rest_in_gate
from tests.simulation.system_story import tell
from tests.simulation.test_trace import hash_in_a_fresh_interpreter


def test_a_retried_batch_keeps_its_place(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"orders": 1})
    producer = simulation.producer(cluster, enable_idempotence=True)
    cluster.controls.fail_next(ProduceRequest, NotLeaderOrFollower)
    futures = [producer.send("orders", value=str(n).encode()) for n in range(100)]
    producer.flush(timeout=30)
    assert [f.result().offset for f in futures] == list(range(100))
    assert cluster.log("orders", 0).values() == [str(n).encode() for n in range(100)]


@pytest.mark.gate
def test_produced_records_are_consumed_by_blocking_code(simulation: Simulation) -> None:
    cluster = simulation.cluster(topics={"orders": 2})
    producer, consumer = simulation.producer(cluster), simulation.consumer(cluster)
    consumer.assign([TopicPartition("orders", number) for number in range(2)])

    def produce() -> None:
        for number in range(50):
            producer.send("orders", str(number).encode(), partition=number % 2)
            simulation.sleep(0.1)
        producer.flush()

    for partition in consumer.assignment():
        consumer.seek(partition, 0)
    producing = simulation.spawn(produce)
    values: list[bytes] = []
    while len(values) < 50:
        for records in consumer.poll(timeout_ms=1000).values():
            values.extend(record.value for record in records)
    producing.result()
    assert sorted(values, key=int) == [str(number).encode() for number in range(50)]
    assert 4.9 < simulation.now < 10


@pytest.mark.gate
def test_a_leader_that_crashes_costs_no_acknowledged_record(simulation: Simulation) -> None:
    cluster = simulation.cluster(topics={"orders": 1})
    producer = simulation.producer(cluster)
    sent = []
    for number in range(200):
        sent.append(producer.send("orders", str(number).encode()))
        simulation.sleep(0.01)
        if number == 100:
            cluster.controls.crash_broker(cluster.partition("orders", 0).leader)
    producer.flush(timeout=60)
    assert [one.result().offset for one in sent] == list(range(200))
    assert cluster.log("orders", 0).values() == [str(number).encode() for number in range(200)]


@pytest.mark.slow
def test_an_idle_minute_costs_next_to_nothing() -> None:
    with Simulation(1) as simulation:
        cluster = simulation.cluster(brokers=3, topics={"orders": 3})
        producer, consumer = simulation.producer(cluster), simulation.consumer(cluster)
        producer.send("orders", b"once", partition=0).result()
        partition = TopicPartition("orders", 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        assert consumer.poll(timeout_ms=5000)
        began, turns_before = time.monotonic(), simulation.scheduler.progress
        simulation.run_for(60)
        # Usually 0.3 s; the machine may be busy with other things.
        assert time.monotonic() - began < 10
        assert simulation.scheduler.progress - turns_before < 15_000


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_in_gate([20, 3]))
def test_a_seed_full_of_faults_keeps_every_promise(seed: int, quiet: None) -> None:
    report = run_seed(seed, Shape(producers=2))
    assert report.error is None, f"{report.error!r}\n{report.timeline[-6000:]}"
    assert report.counts, report
    assert report.reads > 300
    assert report.outcomes["ok"] > 300


@pytest.mark.gate
@pytest.mark.slow
def test_the_whole_system_leaves_the_same_trace_in_two_fresh_interpreters(quiet: None) -> None:
    report = tell(11)
    assert report.error is None, f"{report.error!r}\n{report.timeline[-6000:]}"
    hashes = {
        hash_in_a_fresh_interpreter("tests.simulation.system_story", 11, hash_seed)
        for hash_seed in ("3", "99")
    }
    assert hashes == {report.trace_hash}


@pytest.mark.gate
@pytest.mark.slow
def test_runner_prints_its_table_and_the_seeds_that_do_not_count(
    capsys: pytest.CaptureFixture[str], quiet: None
) -> None:
    assert main(["--seeds", "7", "--virtual-seconds", "5"]) == 1
    printed = capsys.readouterr().out
    assert "does not count: seed 7" in printed
    assert "most seeds did not count" in printed
    assert "fired" in printed


def test_the_plan_is_drawn_from_the_seed_alone() -> None:
    from pykafka2.testing.simulation.faults import FaultPlan
    from pykafka2.testing.simulation.world import World

    def plan(seed: int) -> str:
        with Simulation(0) as simulation:
            world = World(simulation, simulation.cluster(topics={"orders": 2}), {"orders": 2})
            world.clients.append("producer-1")
            return "\n".join(map(str, FaultPlan.draw(seed, 60.0, KINDS, world).faults))

    assert plan(1) == plan(1)
    assert plan(1) != plan(2)
