"""The controller and its brokers, in virtual time.

Elections of partition leaders by themselves are in test_controller.py and replication/test_replication.py.
Versions follow Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import errors
from pykafka2.broker.lifecycle import LEGAL_MOVES
from pykafka2.broker.lifecycle import BrokerState as BrokerLifeState
from pykafka2.errors import CoordinatorLoadInProgress, IllegalTransition, KafkaTimeoutError
from pykafka2.protocol.messages.broker_lifecycle import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerHeartbeatRequest,
    BrokerState,
)
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.protocol.messages.quotas import AlterClientQuotasRequest
from pykafka2.protocol.messages.topics import CreateTopicsRequest
from pykafka2.protocol.struct import Request
from pykafka2.testing.cluster import KafkaCluster, Topic
from pykafka2.testing.simulation import Simulation
from tests.broker.support.admin_requests import topic_of
from tests.broker.support.leaders import append, ends, settled, try_append
from tests.broker.support.raw_client import RawClient

KEY = ("t", 0)
NEW_TOPIC = topic_of("new")
SESSION = 9.0


def call_controller(
    cluster: KafkaCluster, simulation: Simulation, source: int, request: Request[Any], version: int
) -> Any:
    """Send a request of a broker to the controller, and return the response or the error."""
    results: list[Any] = []
    with cluster.lock:
        cluster.links.call(
            source,
            cluster.controller.id,
            request,
            version,
            lambda response, at: results.append(response),
            lambda error, at: results.append(error),
            simulation.clock.monotonic(),
        )
    assert simulation.wait_until(lambda: bool(results), 5)
    return results[0]


# ---------------------------------------------------------------------- producer ids


def test_producer_ids_never_repeat_across_brokers_and_controllers(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3)
    ids: list[int] = []

    def take(count: int) -> None:
        for broker in (one for one in cluster.brokers if one.is_running):
            for _ in range(3):
                ids.extend(broker.services.next_producer_id() for _ in range(count // 3))
                simulation.run_for(0.1)  # until the next block is allocated

    take(1500)
    cluster.controls.crash_broker(cluster.controller.id)
    take(1500)
    cluster.controls.restart_broker(0)
    simulation.run_for(0.1)
    take(1500)
    assert len(ids) == len(set(ids)) == 4500 + 3000 + 4500


def test_without_a_controller_producers_wait_for_the_next_block(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3)
    cluster.controls.hold_elections()
    cluster.controls.crash_broker(0)
    broker = cluster.brokers[1]
    for _ in range(1000):
        broker.services.next_producer_id()
    with pytest.raises(CoordinatorLoadInProgress):
        broker.services.next_producer_id()
    cluster.controls.release_elections()
    simulation.run_for(2)
    assert broker.services.next_producer_id() >= 3000


# ---------------------------------------------------------------------- AlterPartition


def test_alter_partition_with_an_old_epoch_is_rejected(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3, topics={"t": 1})
    leader = cluster.partition(*KEY).leader
    topic = cluster.controller.image.topics["t"]

    def change(
        partition_epoch: int, broker_epoch: int | None = None, stale: int | None = None
    ) -> tuple[int, int]:
        brokers = cluster.controller.image.brokers
        isr = [
            BrokerState(broker_id=one, broker_epoch=brokers[one].epoch if stale is None else stale)
            for one in range(3)
        ]
        request = AlterPartitionRequest(
            broker_id=leader,
            broker_epoch=brokers[leader].epoch if broker_epoch is None else broker_epoch,
            topics=[
                AlterPartitionRequestTopicData(
                    topic_id=topic.id,
                    partitions=[
                        AlterPartitionRequestPartitionData(
                            partition_index=0,
                            leader_epoch=0,
                            new_isr_with_epochs=isr,
                            partition_epoch=partition_epoch,
                        )
                    ],
                )
            ],
        )
        response = call_controller(cluster, simulation, leader, request, 3)
        return response.error_code, response.topics[0].partitions[0].error_code if response.topics else 0

    assert change(0, broker_epoch=0) == (errors.StaleBrokerEpoch.code, 0)
    assert change(0, stale=999) == (0, errors.IneligibleReplica.code)
    assert change(7) == (0, errors.NotController.code)
    assert change(0) == (0, 0)
    assert cluster.controller.partition(*KEY).partition_epoch == 1
    assert change(0) == (0, errors.InvalidUpdateVersion.code)


def test_isr_change_waits_for_a_controller(simulation: Simulation) -> None:
    """A produce with acks=all that needs a smaller ISR waits with it."""
    cluster = settled(
        simulation,
        brokers=3,
        topics={"t": Topic(configs={"min.insync.replicas": 1})},
        config={"replica.lag.time.max.ms": 2000},
    )
    leader = cluster.partition(*KEY).leader
    follower = next(one for one in range(3) if one not in (leader, cluster.controller.id))
    gone = cluster.controller.id if cluster.controller.id != leader else follower
    if gone != cluster.controller.id:
        cluster.controls.move_controller(gone)
    cluster.controls.hold_elections()
    cluster.controls.crash_broker(gone)
    append(cluster, KEY, b"a")
    simulation.run_for(20)
    assert gone in cluster.partition(*KEY).isr
    assert cluster.partition(*KEY).high_watermark == 0
    cluster.controls.release_elections()
    simulation.run_for(3)
    assert gone not in cluster.partition(*KEY).isr
    assert cluster.partition(*KEY).high_watermark == 1


# ---------------------------------------------------------------------- forwarding, Metadata's controller


def test_every_broker_forwards_changes_and_names_a_live_broker_as_controller(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3, controller=2)
    assert cluster.controller.id == 2
    named: set[int] = set()
    for broker in cluster.brokers:
        wire = RawClient(broker.address, simulation=simulation)
        topic = topic_of(f"from-{broker.id}")
        (result,) = wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7).topics
        assert result.error_code == 0
        named.update(wire.call(MetadataRequest(topics=[]), 12).controller_id for _ in range(20))
        wire.close()
    assert cluster.topics() == ["from-0", "from-1", "from-2"]
    assert named == {0, 1, 2}
    created = [
        event.facts["broker"]
        for event in cluster.events.events("controller")
        if event.facts.get("event") == "CreateTopics"
    ]
    assert created == [2, 2, 2], "one controller makes every change, one after another"
    cluster.controls.crash_broker(2)
    wire = RawClient(cluster.brokers[0].address, simulation=simulation)
    assert {wire.call(MetadataRequest(topics=[]), 12).controller_id for _ in range(20)} == {0, 1}
    wire.close()


# ---------------------------------------------------------------------- sessions


def test_broker_without_heartbeats_is_fenced_and_its_leaderships_move(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3, topics={"t": 3}, controller=0)
    led = next(number for number in range(3) if cluster.partition("t", number).leader == 1)
    before = cluster.controller.partition("t", led)
    cluster.controls.crash_broker(1, unnoticed=True)
    died = simulation.now
    simulation.run_for(SESSION - 2.5)  # its last heartbeat is at most two seconds old
    assert cluster.controller.partition("t", led) == before
    simulation.wait_until(lambda: cluster.controller.image.brokers[1].is_fenced, 10)
    assert simulation.now - died <= SESSION + 0.1
    after = cluster.controller.partition("t", led)
    assert after.leader not in (1, -1)
    assert (after.leader_epoch, after.partition_epoch) == (
        before.leader_epoch + 1,
        before.partition_epoch + 1,
    )
    assert 1 not in after.isr


def test_restarted_broker_stays_fenced_until_it_has_the_metadata(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3, topics={"t": 1})
    follower = next(one for one in (1, 2) if one != cluster.partition(*KEY).leader)
    cluster.controls.crash_broker(follower)
    cluster.controls.hold_metadata(follower)
    cluster.controls.restart_broker(follower)
    simulation.run_for(30)
    assert cluster.controller.image.brokers[follower].is_fenced
    assert follower not in cluster.partition(*KEY).isr
    cluster.controls.release_metadata(follower)
    simulation.run_for(2)
    assert not cluster.controller.image.brokers[follower].is_fenced
    assert follower in cluster.partition(*KEY).isr


def test_paused_broker_is_fenced_and_returns_as_a_follower(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3, topics={"t": 1})
    leader = cluster.partition(*KEY).leader
    epoch = cluster.controller.image.brokers[leader].epoch
    if leader == cluster.controller.id:
        cluster.controls.move_controller((leader + 1) % 3)
    append(cluster, KEY, b"a")
    simulation.run_for(1)
    cluster.controls.pause_broker(leader)
    simulation.run_for(SESSION + 1)
    view = cluster.partition(*KEY)
    assert view.leader != leader
    assert leader not in view.isr
    append(cluster, KEY, b"b")
    cluster.controls.resume_broker(leader)
    # Its metadata is old, so it still leads.
    assert cluster.brokers[leader].replicas.replicas[KEY].is_leader
    simulation.run_for(3)
    assert not cluster.brokers[leader].replicas.replicas[KEY].is_leader
    assert cluster.controller.image.brokers[leader].epoch == epoch, "the registration is the same"
    assert leader in cluster.partition(*KEY).isr
    assert ends(cluster, KEY) == [2, 2, 2]


def test_idle_brokers_send_heartbeats(simulation: Simulation) -> None:
    """There are no topics and no clients; one broker was restarted."""
    cluster = simulation.cluster(brokers=3)
    cluster.controls.crash_broker(2)
    cluster.controls.restart_broker(2)
    version = cluster.controller.image.version
    simulation.run_for(60)
    assert not any(broker.is_fenced for broker in cluster.controller.image.brokers.values())
    assert (cluster.controller.id, cluster.controller.epoch) == (0, 1)
    assert cluster.controller.image.version <= version + 1, "heartbeats change nothing"


def test_heartbeat_of_an_older_registration_is_rejected(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3)

    def beat(broker: int, epoch: int) -> int:
        request = BrokerHeartbeatRequest(
            broker_id=broker,
            broker_epoch=epoch,
            current_metadata_offset=99,
            want_fence=False,
            want_shut_down=False,
        )
        return int(call_controller(cluster, simulation, 1, request, 1).error_code)

    epoch = cluster.controller.image.brokers[1].epoch
    assert beat(1, epoch) == 0
    assert beat(1, epoch - 1) == errors.StaleBrokerEpoch.code
    assert beat(7, epoch) == errors.BrokerIdNotRegistered.code


def test_controlled_shutdown_moves_leaders_before_the_broker_stops(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3, topics={"t": 9})
    changes: list[tuple[int, bool]] = []
    stop = cluster.brokers[0].replicas.apply

    def apply(image: Any, changed: Any, now: float) -> None:
        changes.append((image.brokers[0].is_shutting_down, cluster.brokers[0].is_running))
        stop(image, changed, now)

    cluster.brokers[0].replicas.apply = apply  # type: ignore[method-assign]
    cluster.controls.stop_broker(0)
    assert (True, True) in changes
    assert {cluster.partition("t", number).leader for number in range(9)} == {1, 2}
    assert cluster.controller.image.brokers[0].is_fenced
    assert cluster.controller.id != 0, "another broker is the controller at once"


@pytest.mark.gate
def test_leadership_returns_to_preferred_replicas(simulation: Simulation) -> None:
    """auto.leader.rebalance.enable, every leader.imbalance.check.interval.seconds."""
    for enabled in (True, False):
        cluster = simulation.cluster(
            brokers=3,
            topics={"t": 3},
            config={"leader.imbalance.check.interval.seconds": 20, "auto.leader.rebalance.enable": enabled},
        )
        preferred = [cluster.partition("t", number).leader for number in range(3)]
        simulation.run_for(1)
        cluster.controls.crash_broker(1)
        cluster.controls.restart_broker(1)
        simulation.run_for(2)
        moved = [cluster.partition("t", number).leader for number in range(3)]
        assert 1 not in moved
        simulation.run_for(21)
        now = [cluster.partition("t", number).leader for number in range(3)]
        assert now == (preferred if enabled else moved)
        cluster.close()


# ---------------------------------------------------------------------- late metadata


def test_old_leader_with_late_metadata_accepts_records_that_are_lost(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3, topics={"t": 1})
    old = cluster.partition(*KEY).leader
    new = (old + 1) % 3
    cluster.controls.delay_metadata(old, 5.0)
    cluster.controls.move_leader(KEY, new)
    simulation.run_for(2)
    assert try_append(cluster, KEY, b"lost", broker=old).error is None
    assert try_append(cluster, KEY, b"kept", broker=new).error is None
    wire = RawClient(cluster.brokers[old].address, simulation=simulation)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert wire.call(request, 12).topics[0].partitions[0].leader_id == old
    simulation.run_for(4)
    assert wire.call(request, 12).topics[0].partitions[0].leader_id == new
    assert isinstance(try_append(cluster, KEY, b"x", broker=old).error, errors.NotLeaderOrFollower)
    simulation.run_for(2)
    assert [cluster.log(*KEY, broker=one).values() for one in range(3)] == [[b"kept"]] * 3
    wire.close()


@pytest.mark.parametrize("late", [1, 2])
def test_new_controller_publishes_the_whole_image_to_every_broker(simulation: Simulation, late: int) -> None:
    """It waits neither for updates of the old one nor for the end of a session."""
    cluster = settled(simulation, brokers=3, topics={"t": 1}, controller=0)
    cluster.controls.delay_metadata(late, 60.0)
    cluster.create_topic("new", 1, 2)
    cluster.controls.crash_broker(0, unnoticed=True)
    cluster.controls.delay_metadata(late, 0.0)
    assert simulation.wait_until(lambda: cluster.controller.epoch == 2, 20)
    simulation.run_for(0.1)
    assert not cluster.controller.image.brokers[0].is_fenced, "no other change was published"
    assert all("new" in cluster.brokers[one].image.topics for one in (1, 2))
    assert all(cluster.brokers[one].image is cluster.controller.image for one in (1, 2))


def test_slow_change_of_the_controller_delays_only_later_changes(simulation: Simulation) -> None:
    """Changes are in one queue, which the timeline shows; records do not wait."""
    cluster = settled(simulation, brokers=3, topics={"t": 1})
    cluster.controls.slow_controller(5.0)
    began = simulation.now
    actors = []
    for name in ("first", "second", "third"):
        actors.append(simulation.spawn(lambda name=name: cluster.create_topic(name), name))  # type: ignore[misc]
        simulation.run_for(0.01)
    simulation.run_for(1)
    append(cluster, KEY, b"a")
    simulation.run_for(1)
    assert cluster.partition(*KEY).high_watermark == 1
    assert cluster.topics() == ["t"]
    for actor in actors:
        actor.result()
    assert simulation.now - began == pytest.approx(5.0, abs=0.1)
    done = [
        event
        for event in cluster.events.events("controller")
        if str(event.facts.get("event")).startswith("create topic")
    ]
    waited = [float(str(event.facts["waited"])) for event in done[1:]]
    assert [event.facts["event"] for event in done] == [
        f"create topic {name}" for name in ("t", "first", "second", "third")
    ]
    assert waited == pytest.approx([5.0] * 3, abs=0.1)


@pytest.mark.parametrize("waits", [False, True])
def test_error_message_longer_than_a_string_of_the_protocol_is_cut(
    simulation: Simulation, waits: bool
) -> None:
    """The error of a name of 32 KiB quotes it; the request goes to the controller and to other brokers."""
    cluster = settled(simulation, brokers=3)
    if waits:
        # The controller creates the response in its own turn, not in that of the request.
        cluster.controls.slow_controller(2.0)
    topic = topic_of("x" * 32_767)
    for broker in cluster.brokers:
        wire = RawClient(broker.address, simulation=simulation)
        (result,) = wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
        assert (result.name, result.error_code) == (topic.name, errors.InvalidTopicException.code)
        assert result.error_message is not None
        assert result.error_message.endswith("x...")
        wire.close()
    cluster.create_topic("after")
    cluster.check()


def test_change_that_times_out_in_the_controllers_queue_is_not_made(simulation: Simulation) -> None:
    """The request waits behind a slow change, at the controller and forwarded by another broker."""
    cluster = settled(simulation, brokers=3)
    cluster.controls.slow_controller(10.0)
    first = simulation.spawn(lambda: cluster.create_topic("slow"))
    simulation.run_for(0.1)
    for broker in cluster.brokers:
        wire = RawClient(broker.address, simulation=simulation)
        began = simulation.now
        (result,) = wire.call(CreateTopicsRequest(topics=[NEW_TOPIC], timeout_ms=1000), 7).topics
        assert result.error_code == errors.RequestTimedOut.code
        assert simulation.now - began == pytest.approx(1.0, abs=0.05)
        wire.close()
    first.result()
    simulation.run_for(5)
    assert cluster.topics() == ["slow"]


def begin_slow_change(cluster: KafkaCluster, simulation: Simulation, seconds: float) -> RawClient:
    """Have a client make a change for which the controller takes this long; return its connection."""
    cluster.controls.slow_controller(seconds)
    wire = RawClient(cluster.brokers[0].address, simulation=simulation)
    wire.send(CreateTopicsRequest(topics=[NEW_TOPIC], timeout_ms=200_000), 7)
    simulation.run_for(0.1)
    return wire


def test_change_without_a_timeout_of_its_own_times_out_after_30_seconds(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=2)
    other = begin_slow_change(cluster, simulation, 100.0)
    request = AlterClientQuotasRequest(entries=[], validate_only=False)
    for broker in cluster.brokers:
        with RawClient(broker.address, simulation=simulation) as wire:
            wire.send(request, 1)
            simulation.run_for(29.9)
            assert not wire.has_response()
            simulation.run_for(0.2)
            assert wire.has_response()
    other.close()


def test_change_of_a_broker_waits_behind_a_slow_one_for_as_long_as_that_takes(simulation: Simulation) -> None:
    cluster = settled(
        simulation,
        brokers=2,
        topics={"t": Topic(assignment=[[1, 0]])},
        config={"replica.lag.time.max.ms": 2000},
    )
    slow = begin_slow_change(cluster, simulation, 60.0)
    cluster.controls.pause_followers(KEY, brokers=[0])
    append(cluster, KEY, b"x")
    simulation.run_for(60.0)
    slow.close()
    assert cluster.partition(*KEY).isr == (1,)
    changes = [event.facts for event in cluster.events.events("controller") if event.facts.get("waited")]
    assert {"AlterPartition", "CreateTopics"} <= {str(one["event"]) for one in changes}
    assert {one["outcome"] for one in changes} == {"done"}


def test_change_of_a_client_that_disconnected_meanwhile_is_made(simulation: Simulation) -> None:
    """Kafka does so, too, at the controller and forwarded by another broker."""
    cluster = settled(simulation, brokers=2)
    cluster.controls.slow_controller(5.0)
    slow = simulation.spawn(lambda: cluster.create_topic("slow"))
    simulation.run_for(0.1)
    for broker in cluster.brokers:
        topic = topic_of(f"by-{broker.id}")
        with RawClient(broker.address, simulation=simulation) as wire:
            wire.send(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 7)
            simulation.run_for(0.1)
    slow.result()
    simulation.run_for(1)
    assert cluster.topics() == ["by-0", "by-1", "slow"]


def test_broker_state_changes_follow_the_table_or_raise(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1)
    lifecycle = cluster.brokers[0].lifecycle
    for before in BrokerLifeState:
        for after in BrokerLifeState:
            lifecycle.state = before
            if after in LEGAL_MOVES[before]:
                lifecycle._move_to(after)
                assert lifecycle.state is after
            else:
                with pytest.raises(IllegalTransition):
                    lifecycle._move_to(after)
                assert lifecycle.state is before
    lifecycle.state = BrokerLifeState.RUNNING


def test_create_topic_without_a_controller_raises_no_active_controller(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3)
    cluster.controls.hold_elections()
    cluster.controls.crash_broker(0)
    assert cluster.controller.id == -1
    with pytest.raises(KafkaTimeoutError, match="no active controller"):
        cluster.create_topic("t")
    cluster.controls.release_elections()
    cluster.create_topic("t")


def test_recreated_topic_has_a_new_id_on_every_broker(simulation: Simulation) -> None:
    cluster = settled(simulation, brokers=3, topics={"t": 1})
    append(cluster, KEY, b"old")
    old = cluster.controller.image.topics["t"].id
    cluster.controls.hold_metadata(2)
    cluster.delete_topic("t")
    cluster.create_topic("t")
    cluster.controls.release_metadata(2)
    new = cluster.controller.image.topics["t"].id
    assert new != old
    for broker in cluster.brokers:
        assert broker.image.topic_by_id(old) is None
        wire = RawClient(broker.address, simulation=simulation)
        by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=old, name=None)])
        assert wire.call(by_id, 12).topics[0].error_code == errors.UnknownTopicId.code
        wire.close()
    simulation.run_for(1)
    assert ends(cluster, KEY) == [0, 0, 0]
