"""The story of queues: two share groups read the same topic while everything around them fails (KIP-932).

Members come, crash, stall and go (queue_work.py); leaders and coordinators crash and move (queue_faults.py).
Then there is peace, and an examination: locks expire, new leaders read what the coordinators have stored,
a last member accepts what is left, and after another move of all leaders nothing is delivered any more.
The promises are in queue_promises.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.admin.admin import KafkaAdminClient
from pykafka2.admin.config_values import ConfigResource, ConfigResourceType
from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from pykafka2.broker.share.state_changes import ACCEPT
from pykafka2.errors import GroupIdNotFound, InvalidRecordState, LeaderNotAvailable
from pykafka2.testing.arguments import Topic
from pykafka2.testing.simulation.checkers import Checker, ReplicasAgree
from pykafka2.testing.simulation.faults import FaultPlan, Injector, Kind
from pykafka2.testing.simulation.problems import InvariantViolated
from pykafka2.testing.simulation.world import World
from tests.campaign.queue_evidence import Ledger, RecordKey
from tests.campaign.queue_faults import INTERNAL, queue_kinds
from tests.campaign.queue_promises import (
    ClientsKeepTheirWord,
    ConfirmedMeansApplied,
    CountsGrowByOne,
    DeadLettersAreComplete,
    EndedStaysEnded,
    EveryRecordEnds,
    GroupRules,
    OnlyHoldersAcknowledge,
    RecordHasOneHolder,
    summary,
)
from tests.campaign.queue_work import AioMember, Diary, Member, key_of, member_id
from tests.campaign.recovery import wait_until_recovered
from tests.campaign.seed import Report, Sabotage, play_seed

if TYPE_CHECKING:
    from pykafka2.share.consumer import KafkaShareConsumer
    from pykafka2.testing.simulation.facade import Simulation

ORDERS, DEAD = "orders", "dlq.orders"
TOPICS = {ORDERS: 2, DEAD: 1}
GROUPS = ("billing", "shipping")
SECONDS = 10.0
RECOVERY_TIME = 60.0
STORING_TIME = 1.5
"""Seconds after which a change is stored in times of peace."""

APPLICATIONS: Sequence[type[Member] | type[AioMember]] = (Member, Member, AioMember)

LEAST_DELIVERIES = 20
LEAST_FAULTS = 3


@attrs.define
class QueueShape:
    """How large the story is."""

    seconds: float = SECONDS
    members: int = 0
    """The number in each group; 0: two or three, by the seed."""
    kinds: Sequence[Kind] = attrs.field(factory=queue_kinds)


def run_seed(
    seed: int,
    shape: QueueShape | None = None,
    *,
    sabotage: Sabotage | None = None,
    keep_timeline: bool = False,
) -> Report:
    """Play one seed; a broken promise or any other failure comes back as the report's `error`."""
    report = Report(seed, "queues")
    play_seed(
        report,
        lambda simulation: QueueStory(simulation, shape or QueueShape(), report).play(sabotage),
        keep_timeline=keep_timeline,
    )
    report.counts = report.reads >= LEAST_DELIVERIES and report.effective_faults >= LEAST_FAULTS
    return report


def _drawn_config(draw: Random) -> dict[str, object]:
    return {
        "broker.session.timeout.ms": draw.choice([3000, 9000]),
        "broker.heartbeat.interval.ms": 1000,
        "replica.fetch.wait.max.ms": 1000,
        "replica.fetch.backoff.ms": 200,
        "offsets.topic.num.partitions": INTERNAL[OFFSETS_TOPIC],
        "share.coordinator.state.topic.num.partitions": INTERNAL[SHARE_STATE_TOPIC],
        "share.coordinator.snapshot.update.records.per.snapshot": draw.choice([1, 4, 20]),
        "share.coordinator.write.timeout.ms": draw.choice([1000, 5000]),
        "group.share.min.record.lock.duration.ms": 1000,
        "group.share.min.session.timeout.ms": 1500,
        "group.share.min.heartbeat.interval.ms": 300,
        # Measured by the wall clock, as in Apache Kafka: after a jump back there would be no assignment.
        "group.share.assignment.interval.ms": 0,
        "log.message.timestamp.after.max.ms": 2**62,
    }


def _drawn_rules(draw: Random) -> GroupRules:
    topic = draw.choice([DEAD, DEAD, ""])
    return GroupRules(
        draw.choice([1.0, 2.0]), draw.choice([2, 3, 5]), topic, bool(topic) and draw.random() < 0.5
    )


def _options_of(rules: GroupRules) -> dict[str, str]:
    """The options of a group, by Kafka's names."""
    return {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(round(rules.lock_seconds * 1000)),
        "share.delivery.count.limit": str(rules.delivery_limit),
        "share.session.timeout.ms": "3000",
        "share.heartbeat.interval.ms": "300",
        "errors.deadletterqueue.topic.name": rules.dead_letter_topic,
        "errors.deadletterqueue.copy.record.enable": str(rules.copies_records).lower(),
    }


class QueueStory:
    """One play of the story; belongs to the simulation's main actor."""

    def __init__(self, simulation: Simulation, shape: QueueShape, report: Report) -> None:
        self._simulation = simulation
        self._shape = shape
        self._report = report
        draw = Random(f"{simulation.seed}/shape")
        dead_letters = {"errors.deadletterqueue.group.enable": "true"}
        self._cluster = simulation.cluster(
            brokers=3,
            topics={
                ORDERS: Topic(TOPICS[ORDERS], replication_factor=3),
                DEAD: Topic(TOPICS[DEAD], replication_factor=3, configs=dead_letters),
            },
            config=_drawn_config(draw),
        )
        self.world = World(simulation, self._cluster, dict(TOPICS))
        self._rules = {group: _drawn_rules(draw) for group in GROUPS}
        self._ledger = Ledger(self.world, {group: one.lock_seconds for group, one in self._rules.items()})
        self._diary = Diary()
        self._stop = simulation.event()
        self._producer = simulation.producer(self._cluster, linger_ms=5, delivery_timeout_ms=60_000)
        self._members: list[Member | AioMember] = [
            draw.choice(APPLICATIONS)(
                self.world,
                self._stop,
                self._diary,
                f"{group}-{one}",
                group,
                ORDERS,
                self._rules[group].lock_seconds,
            )
            for group in GROUPS
            for one in range(shape.members or draw.choice([2, 2, 3]))
        ]
        self._checkers: list[Checker] = [
            RecordHasOneHolder(self._ledger),
            OnlyHoldersAcknowledge(self._ledger),
            EndedStaysEnded(self._ledger),
            CountsGrowByOne(self._ledger, self._rules),
            ConfirmedMeansApplied(self._ledger),
            ClientsKeepTheirWord(self._ledger, self._diary),
            EveryRecordEnds(self._ledger, self._rules, ORDERS),
            DeadLettersAreComplete(self._ledger, self._rules),
            ReplicasAgree(),
        ]

    def play(self, sabotage: Sabotage | None) -> None:
        """From the first record to the last check; raises what went wrong."""
        world = self.world
        for one in self._members:
            is_aio = isinstance(one, AioMember)
            world.clients.append(f"{one.name}-1" if is_aio else f"share-consumer-{len(world.clients) + 1}")
        self._configure()
        if sabotage is not None:
            sabotage(world)
        with self._ledger.watching():
            self._play_with_faults()
            self._examine()
        for checker in self._checkers:
            checker.finish(world)

    def _configure(self) -> None:
        servers, runtime = self._cluster.bootstrap_servers, self._simulation.runtime.at("operator")
        with KafkaAdminClient(bootstrap_servers=servers, runtime=runtime) as admin:
            admin.alter_configs(
                {
                    ConfigResource(ConfigResourceType.GROUP, group): _options_of(rules)
                    for group, rules in self._rules.items()
                }
            )

    def _play_with_faults(self) -> None:
        simulation, shape, world = self._simulation, self._shape, self.world
        plan = FaultPlan.draw(simulation.seed, shape.seconds, shape.kinds, world, start=1.0, window=2.0)
        injector = Injector(world, plan, shape.kinds)
        actors = [simulation.spawn(one.run, one.name) for one in self._members]
        writer = simulation.spawn(self._write, "writer")
        faults = simulation.spawn(injector.run, "faults")
        try:
            simulation.sleep(max(0.0, shape.seconds - world.now))
            faults.result()
            simulation.note("peace")
            self._cluster.controls.clear()
            world.heal()
            self._recover()
            self._stop.set()
            for actor in [writer, *actors]:
                actor.result()
        finally:
            self._fill_report(injector)

    def _write(self) -> None:
        random = Random(f"{self._simulation.seed}/writer")
        number = 0
        while not self._stop.is_set():
            for _ in range(random.randint(1, 5)):
                self._producer.send(ORDERS, b"%d" % number, partition=random.randrange(TOPICS[ORDERS]))
                number += 1
            self._stop.wait(random.expovariate(1.5))
        self._producer.flush(timeout=RECOVERY_TIME)

    def _fill_report(self, injector: Injector) -> None:
        report = self._report
        report.outcomes = {
            **summary(self._ledger),
            "lives": sum(one.lives for one in self._members),
            "failures": sum(one.failures for one in self._members),
        }
        report.records = len(self._ledger.fates)
        report.reads = report.outcomes["deliveries"]
        report.operations = report.reads + sum(len(fate.attempts) for fate in self._ledger.fates.values())
        report.effective_faults = injector.effective
        report.tallies = injector.tallies

    # ------------------------------------------------------------------ the examination

    def _examine(self) -> None:
        self._let_locks_expire()
        self._move_all_leaders()
        for group in GROUPS:
            self._accept_the_rest(group)
        self._move_all_leaders()
        for group in GROUPS:
            self._expect_nothing(group)

    def _consumer(self, group: str) -> KafkaShareConsumer[Any, Any]:
        consumer = self._simulation.share_consumer(
            self._cluster,
            ORDERS,
            group_id=group,
            share_acknowledgement_mode="explicit",
            fetch_max_wait_ms=100,
            max_poll_records=10,
        )
        self._diary.watch(consumer, group)
        return consumer

    def _let_locks_expire(self) -> None:
        """Members take records and do nothing, while their sessions stay open."""
        since = self.world.now
        holders = {group: self._consumer(group) for group in GROUPS}
        for holder in holders.values():
            holder.poll(timeout_ms=3000)
            holder.poll(timeout_ms=500)
        self._simulation.sleep(max(one.lock_seconds for one in self._rules.values()) + STORING_TIME)
        for fate in (one for group in GROUPS for one in self._ledger.delivered_since(group, since)):
            group, topic, partition, offset = fate.key
            try:
                view = self._cluster.share_partition(group, (topic, partition))
            except GroupIdNotFound:  # the leader has moved, and no member has fetched from the new one
                continue
            record, share = view.records.get(offset), fate.deliveries[-1].share
            if record is not None and record.state == "ACQUIRED":
                raise InvariantViolated(f"LocksExpire: {record} at {self.world.now:.3f}; {fate}")
            if view.leader_epoch == share.leader_epoch:  # a former leader does not store its deliveries
                self._ledger.note_stored(fate)
        for holder in holders.values():
            holder.close()

    def _move_all_leaders(self) -> None:
        """New leaders read the states, from new coordinators."""
        places = [(topic, number) for topic in (ORDERS, SHARE_STATE_TOPIC) for number in range(2)]
        for place in places:
            state = self.world.partition(*place)
            others = [broker for broker in state.isr if broker != state.leader]
            if others:
                self.world.move_leader(*place, others[0])
        self._recover()

    def _accept_the_rest(self, group: str) -> None:
        """Members accept what is left; the first one closes at once, which sends its last decisions."""
        consumer, is_first = self._consumer(group), True
        deadline = self.world.now + RECOVERY_TIME
        while self._is_left(group):
            decided = self._accept_polled(consumer, group)
            if decided and is_first:
                consumer.close()
                self._check_sent(member_id(consumer), decided)
                consumer, is_first = self._consumer(group), False
            if self.world.now >= deadline:
                raise InvariantViolated(
                    f"EveryRecordEnds: not within {RECOVERY_TIME:g} s in {group}: "
                    f"{self._cluster.share_group(group)}; {consumer.explain()}"
                )
        consumer.close()

    def _accept_polled(self, consumer: KafkaShareConsumer[Any, Any], group: str) -> list[RecordKey]:
        accepted = []
        for records in consumer.poll(timeout_ms=200).values():
            for record in records:
                with suppress(InvalidRecordState), record:
                    self._diary.decide(group, member_id(consumer), record, ACCEPT)
                    accepted.append(key_of(group, record))
        return accepted

    def _check_sent(self, member: str, decided: Sequence[RecordKey]) -> None:
        for key in decided:
            fate = self._ledger.fate(key)
            if not any(one.member == member and one.is_confirmed for one in fate.attempts):
                raise InvariantViolated(f"CloseSendsDecisions: {member} accepted it, and closed; {fate}")

    def _is_left(self, group: str) -> bool:
        """Whether a record of the group has not ended yet."""
        for number in range(TOPICS[ORDERS]):
            end = self.world.high_watermark(ORDERS, number)
            try:
                view = self._cluster.share_partition(group, (ORDERS, number))
            except (GroupIdNotFound, LeaderNotAvailable):
                return True
            ended = len(view.offsets("ACKNOWLEDGED")) + len(view.offsets("ARCHIVED"))
            if view.status != "active" or view.start_offset + ended < end:
                return True
        return False

    def _expect_nothing(self, group: str) -> None:
        since, deadline = self.world.now, self.world.now + RECOVERY_TIME
        consumer = self._consumer(group)
        while self._is_left(group):
            consumer.poll(timeout_ms=200)
            for fate in self._ledger.delivered_since(group, since):
                raise InvariantViolated(f"NothingComesAfterTheEnd: {fate}")
            if self.world.now >= deadline:
                raise InvariantViolated(f"EveryRecordEnds: {self._cluster.share_group(group)}")
        consumer.close()

    def _recover(self) -> None:
        """Until all replicas are in sync again, those of the coordinators, too."""
        wait_until_recovered(self.world, all_brokers_know=True)

        def is_in_sync() -> bool:
            topics = [topic for topic in INTERNAL if topic in self._cluster.controller.image.topics]
            states = [self.world.partition(topic, one) for topic in topics for one in range(INTERNAL[topic])]
            return all(state.leader >= 0 and len(state.isr) == len(state.replicas) for state in states)

        self._wait_for("the coordinators' replicas are in sync", is_in_sync)

    def _wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        if not self._simulation.wait_until(holds, RECOVERY_TIME):
            raise InvariantViolated(f"liveness: not in {RECOVERY_TIME:g} s: {what}")
