"""Share consumers in virtual time: brokers crash, and no record is lost."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaShareConsumer
from pykafka2.admin.config_values import ConfigResource, ConfigResourceType
from pykafka2.errors import InvalidRecordState
from pykafka2.testing import KafkaCluster, Simulation, Topic

CONFIG = {
    "share.coordinator.state.topic.num.partitions": 2,
    "offsets.topic.num.partitions": 2,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.min.session.timeout.ms": 5000,
}
GROUP = ConfigResource(ConfigResourceType.GROUP, "workers")
RECORDS = 40


class QueueWorld:
    """A cluster of three brokers, two topics, and two members that handle records."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        topics = {"jobs": Topic(2, 3), "mails": Topic(2, 3)}
        self.cluster: KafkaCluster = simulation.cluster(3, topics, config=CONFIG)
        self.sent = {(topic, b"%d" % number) for topic in topics for number in range(RECORDS)}
        self.handled: dict[tuple[str, bytes], int] = {}
        self.deliveries: dict[tuple[str, bytes], int] = {}
        self.renewed = 0
        with KafkaAdminClient(**self.options("admin")) as admin:
            admin.alter_configs(
                {
                    GROUP: {
                        "share.auto.offset.reset": "earliest",
                        "share.record.lock.duration.ms": "2000",
                        "share.delivery.count.limit": "10",
                    }
                }
            )
        producer = simulation.producer(self.cluster)
        for topic, value in sorted(self.sent):
            producer.send(topic, value)
        producer.flush()

    def options(self, place: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.cluster.bootstrap_servers,
            "client_id": place,
            "runtime": self.simulation.runtime.at(place),
        }

    def work(self, place: str) -> None:
        """Handle records until all are done; a handler of b"7" takes three lock durations."""
        options = {
            **self.options(place),
            "group_id": "workers",
            "share_acknowledgement_mode": "explicit",
            "max_poll_records": 4,
        }
        with KafkaShareConsumer("jobs", "mails", **options) as member:
            while len(self.handled) < len(self.sent):
                for records in member.poll(1000).values():
                    for record in records:
                        self.handle(record)
            self.renewed += member.health()["locks_renewed"]

    def handle(self, record: Any) -> None:
        place = (record.topic, record.value)
        try:
            with record:
                self.simulation.sleep(6.5 if record.value == b"7" else 0.05)
                self.deliveries[place] = record.delivery_count
        except InvalidRecordState:
            return  # its broker crashed, or it waited too long, so it comes again
        self.handled[place] = self.handled.get(place, 0) + 1


@pytest.mark.gate
def test_handlers_of_three_lock_durations_keep_their_records_in_virtual_time() -> None:
    with Simulation(3) as simulation:
        world = QueueWorld(simulation)
        members = [simulation.spawn(partial(world.work, at), at) for at in ("one", "two")]
        for member in members:
            member.result()
        assert {*world.handled} == world.sent
        slow = [place for place in world.sent if place[1] == b"7"]
        assert [world.handled[place] for place in slow] == [1, 1]
        assert [world.deliveries[place] for place in slow] == [1, 1]
        assert world.renewed >= 6


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(3))
def test_no_record_is_lost_while_brokers_crash(seed: int) -> None:
    with Simulation(seed) as simulation:
        world = QueueWorld(simulation)
        members = [simulation.spawn(partial(world.work, at), at) for at in ("one", "two")]
        rng = random.Random(seed)
        for _ in range(4):
            simulation.sleep(1.0 + rng.random())
            victim = rng.randrange(3)
            world.cluster.controls.crash_broker(victim)
            simulation.sleep(2.0)
            world.cluster.controls.restart_broker(victim)
        for member in members:
            member.result()
        assert {*world.handled} == world.sent


@pytest.mark.gate
@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_iteration_over_a_batch_sends_acknowledgements_before_the_locks_expire(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Simulation(3) as simulation:
        world = QueueWorld(simulation)
        deliveries: dict[tuple[int, int], int] = {}

        def work() -> None:
            options = {**world.options("one"), "group_id": "workers", "consumer_timeout_ms": 8000}
            with KafkaShareConsumer("jobs", share_acknowledgement_mode=mode, **options) as member:  # type: ignore[arg-type]
                for record in member:  # batches of more records than fit into the two seconds of a lock
                    simulation.sleep(0.3)
                    if mode == "explicit":
                        member.acknowledge(record)
                    place = (record.partition, record.offset)
                    deliveries[place] = deliveries.get(place, 0) + 1

        simulation.spawn(work, "one").result()
        assert len(deliveries) == RECORDS
        assert list(deliveries.values()).count(1) >= RECORDS * 3 // 4
        assert max(deliveries.values()) <= 2
        assert "records have expired before an acknowledgement" in caplog.text


@pytest.mark.gate
def test_leader_that_moves_during_a_handler_ends_the_renewals_of_its_lock() -> None:
    with Simulation(3) as simulation:
        world = QueueWorld(simulation)
        options = {**world.options("one"), "group_id": "workers", "share_acknowledgement_mode": "explicit"}

        def work() -> None:
            with KafkaShareConsumer("jobs", "mails", **options) as member:
                while not (found := member.poll(1000)):
                    pass
                partition, records = next(iter(found.items()))
                with records[0]:
                    leader = world.cluster.partition(*partition).leader
                    world.cluster.controls.move_leader(partition, (leader + 1) % 3)
                    world.cluster.forget()
                    simulation.sleep(3.0)
                    requests = world.cluster.history.entries("ShareAcknowledge")
                assert len(requests) <= 3
                assert member.health()["locks_lost"] >= 1

        simulation.spawn(work, "one").result()


@pytest.mark.gate
def test_close_after_unsubscribe_waits_until_the_coordinator_has_removed_the_member() -> None:
    with Simulation(3) as simulation:
        world = QueueWorld(simulation)
        options = {**world.options("one"), "group_id": "workers"}

        def work() -> None:
            with KafkaShareConsumer("jobs", **options) as member:
                while not member.poll(1000):
                    pass
                world.cluster.controls.crash_broker(world.cluster.coordinator("workers"))
                member.unsubscribe()

        simulation.spawn(work, "one").result()
        with KafkaAdminClient(**world.options("admin")) as admin:
            assert admin.describe_share_groups(["workers"])["workers"].members == ()
