"""Every control and every fault, with the brokers in this process, in a child and in the simulation.

One story for each action and each group of controls, played in all three places; the stories are counted, so
a control that is new tomorrow is missed here.  The details of each are in test_controls.py,
test_rules_as_data.py and tests/broker/test_network_faults.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from pykafka2 import errors
from pykafka2.broker.faults.rule import Action
from pykafka2.errors import CoordinatorLoadInProgress, GroupIdNotFound, KafkaTimeoutError, NotLeaderOrFollower
from pykafka2.producer.producer import KafkaProducer
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.protocol.messages.share_fetch import ShareFetchRequest
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.testing import QUICK, STANDARD_AUTHORIZER, KafkaCluster, Simulation, Topic
from pykafka2.testing.controls.controls import Controls
from pykafka2.types import TopicPartition
from tests.broker.support.raw_client import RawClient

TOPICS = {"t": Topic(2, 3), "other": 1}
T0 = ("t", 0)
APP = "app"
EVERYBODY = "User:*"
CONFIG = {
    **QUICK,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": True,
}


@attrs.define
class World:
    """A cluster somewhere, clients for it, and which controls were used."""

    cluster: KafkaCluster
    make_producer: Callable[..., KafkaProducer]
    make_wire: Callable[[str], Any]
    used: set[str] = attrs.field(factory=set)

    @property
    def controls(self) -> Any:
        """The cluster's, remembering which."""
        return Recorder(self.cluster.controls, self.used)

    def producer(self, **options: Any) -> KafkaProducer:
        quick = {"linger_ms": 0, "retry_backoff_ms": 5, "reconnect_backoff_ms": 5, "client_id": APP}
        return self.make_producer(self.cluster, **{**quick, **options})

    def send(self, *values: bytes, **options: Any) -> None:
        """Send to t-0, one after the other, and wait for each."""
        with self.producer(**options) as producer:
            for value in values:
                producer.send("t", value, partition=0).result(timeout=30)

    def values(self) -> list[bytes | None]:
        return self.cluster.log(*T0).values()

    @property
    def leader(self) -> int:
        return self.cluster.partition(*T0).leader

    def ask(self, broker: int, request: Any, version: int) -> Any:
        wire = self.make_wire(self.cluster.brokers[broker].address)
        try:
            return wire.call(request, version)
        finally:
            wire.close()

    def begin(self) -> None:
        """Restored to its first state, for the next story."""
        cluster = self.cluster
        self.controls.reset()
        assert all(broker.is_running and not broker.is_paused for broker in cluster.brokers)
        for name in ("t", "other"):
            cluster.delete_topic(name)
        cluster.create_topic("t", 2, 3)
        cluster.create_topic("other")
        cluster.forget()


class Recorder:
    def __init__(self, controls: Controls, used: set[str]) -> None:
        self._controls, self._used = controls, used

    def __getattr__(self, name: str) -> Any:
        self._used.add(name)
        return getattr(self._controls, name)


def real_producer(cluster: KafkaCluster, **options: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **options)


@pytest.fixture(
    scope="module", params=["here", pytest.param("process", marks=pytest.mark.gate), "simulation"]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "simulation":
        with Simulation(seed=1) as simulation:
            cluster = simulation.cluster(brokers=3, topics=TOPICS, config=CONFIG)
            yield World(
                cluster, simulation.producer, lambda address: RawClient(address, simulation=simulation)
            )
        return
    with KafkaCluster(3, TOPICS, config=CONFIG, process=request.param == "process") as cluster:
        yield World(cluster, real_producer, RawClient)


# ---------------------------------------------------------------------- every action of a rule


def refused(world: World) -> None:
    rule = world.controls.rule(then=NotLeaderOrFollower, **MATCHING)
    world.send(b"1", b"2", b"3")
    assert (rule.seen, rule.fired, rule.is_spent) == (2, 1, True)
    world.cluster.history.exactly(4, ProduceRequest, client_id=APP)


def later(world: World) -> None:
    world.controls.rule(then="delay:1", **MATCHING)
    # Only the rule delays: with acks=all the first would also wait for followers that begin to fetch.
    world.send(b"1", b"2", b"3", acks=1, enable_idempotence=False)
    first, second, third = (entry.latency or 0 for entry in world.cluster.history.entries("Produce"))
    assert second >= 1 > first
    assert third < 0.05 or third < second


def held(world: World) -> None:
    world.controls.rule(then="hold", **MATCHING)
    with world.producer() as producer:
        futures = [producer.send("t", value, partition=0) for value in (b"1",)]
        futures[0].result(timeout=30)
        futures += [producer.send("t", value, partition=0) for value in (b"2", b"3")]
        world.cluster.wait_until(lambda: world.controls.held("Produce") == 1)
        assert not futures[1].done()
        world.controls.release()
        for future in futures:
            future.result(timeout=30)


def swallowed(world: World) -> None:
    world.controls.rule(then="swallow", **MATCHING)
    world.send(b"1", b"2", b"3", request_timeout_ms=100)
    assert world.cluster.history.count("Produce") > 3


def reply_replaced(world: World) -> None:
    lie = {
        "responses": [
            {"partition_responses": [{"error_code": errors.NotLeaderOrFollower.code, "base_offset": -1}]}
        ]
    }
    world.controls.rule(then="replace_reply", reply=lie, **MATCHING)
    world.send(b"1", b"2", b"3")
    world.cluster.history.exactly(4, "Produce")


def stale(world: World) -> None:
    old = world.leader
    rule = world.controls.rule(api="Metadata", client_id=APP, topic="t", times=1, then="stale_metadata")
    world.controls.move_leader(T0, to=(old + 1) % 3)
    world.send(b"1", b"2", b"3")
    assert rule.fired == 1
    assert world.cluster.history.entries("Produce")[0].broker == old


def lost(then: str) -> Callable[[World], None]:
    def story(world: World) -> None:
        rule = world.controls.rule(then=then, **MATCHING)
        world.send(b"1", b"2", b"3")
        assert rule.fired == 1
        history = world.cluster.history
        world.cluster.wait_until(lambda: all(entry.answered_at for entry in history.entries("Produce")))

    return story


def replayed(world: World) -> None:
    lost("replay:0.01")(world)
    # What comes from the dead connection must have come before the next story begins.
    history = world.cluster.history
    world.cluster.wait_until(lambda: any("(dead)" in one.peer for one in history.entries("Produce")))


# The second produce to t-0 of one client; `broker` is filled in when a story begins.
MATCHING: dict[str, Any] = {"api": "Produce", "topic": "t", "partition": 0, "client_id": APP, "nth": 2}

ACTIONS: dict[Action, Callable[[World], None]] = {
    Action.ERROR: refused,
    Action.DELAY: later,
    Action.HOLD: held,
    Action.SWALLOW: swallowed,
    Action.LOSE_REPLY: lost("apply_then_lose_reply"),
    Action.HALF_FRAME: lost("half_frame"),
    Action.CLOSE_BEFORE: lost("close_before"),
    Action.CLOSE_AFTER: lost("close_after"),
    Action.REPLAY: replayed,
    Action.STALE_METADATA: stale,
    Action.REPLACE_REPLY: reply_replaced,
}


def test_every_action_has_a_story() -> None:
    assert set(ACTIONS) == set(Action)


@pytest.mark.slow
@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: str(action.value))
def test_an_action(world: World, action: Action) -> None:
    """An idempotent producer writes each value once, in order, whatever happens."""
    world.begin()
    MATCHING["broker"] = world.leader
    elsewhere = [
        world.cluster.controls.rule(api="Produce", then="close_before", **one)
        for one in (
            {"topic": "other"},
            {"partition": 1},
            {"client_id": "x"},
            {"broker": (world.leader + 2) % 3},
        )
    ]
    ACTIONS[action](world)
    assert world.values() == [b"1", b"2", b"3"]
    assert [rule.seen for rule in elsewhere] == [0, 0, 0, 0]


# ---------------------------------------------------------------------- every control


def brokers_go_and_come(world: World) -> None:
    controls, cluster = world.controls, world.cluster
    first = world.leader
    controls.pause_followers()
    with world.producer(acks=1, enable_idempotence=False) as producer:
        producer.send("t", b"lost", partition=0).result(timeout=30)
    controls.kill_broker(first)
    assert [broker.is_running for broker in cluster.brokers].count(False) == 1
    controls.resume_followers()
    controls.restart_broker(first)
    assert world.leader != first
    world.send(b"kept")
    assert world.values() == [b"kept"]
    controls.stop_broker(first)
    controls.restart_broker(first)
    controls.crash_broker(first, unnoticed=True)
    assert cluster.partition("t", 0).leader != first
    controls.restart_broker(first)
    controls.pause_broker(first)
    assert cluster.brokers[first].is_paused
    controls.resume_broker(first)
    cluster.wait_until(lambda: len(cluster.partition(*T0).isr) == 3)


def an_unflushed_tail_is_kept(world: World) -> None:
    world.cluster.create_topic("single", replication_factor=1)
    (broker,) = world.cluster.partition("single", 0).isr
    with world.producer(acks=1, enable_idempotence=False) as producer:
        producer.send("single", b"kept", partition=0).result(timeout=30)
    world.controls.kill_broker(broker, keep_unflushed=True)
    world.controls.restart_broker(broker)
    world.cluster.wait_until(lambda: world.cluster.partition("single", 0).leader == broker)
    assert world.cluster.log("single", 0).values() == [b"kept"]
    world.cluster.delete_topic("single")


def who_is_in_sync(world: World) -> None:
    follower = (world.leader + 1) % 3
    world.controls.shrink_isr(T0, follower)
    assert follower not in world.cluster.partition(*T0).isr
    world.controls.expand_isr(T0, follower)
    assert follower in world.cluster.partition(*T0).isr
    world.controls.move_leader(TopicPartition(*T0), to=follower)
    assert world.leader == follower


def coordinators(world: World) -> None:
    controls, cluster = world.controls, world.cluster

    def is_found(kind: int, key: str) -> bool:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        return not world.ask(0, request, 4).coordinators[0].error_code

    cluster.wait_until(lambda: is_found(0, "g") and is_found(1, "tx"))
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    commit = OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])]
    )
    world.ask(cluster.coordinator("g"), commit, 8)
    begin = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
    cluster.wait_until(
        lambda: not world.ask(cluster.coordinator("tx", "transaction"), begin, 4).error_code, what="tx"
    )
    for key, kind in (("g", "group"), ("tx", "transaction")):
        to = (cluster.coordinator(key, kind) + 1) % 3
        controls.hold_loading(to)
        controls.move_coordinator(key, to, kind)
        assert cluster.coordinator(key, kind) == to
        with pytest.raises(CoordinatorLoadInProgress):
            cluster.group("g") if kind == "group" else cluster.transaction("tx")
        controls.release_loading()

    def views() -> bool:
        try:
            return bool(cluster.group("g") and cluster.transaction("tx"))
        except CoordinatorLoadInProgress:
            return False

    cluster.wait_until(views)
    assert cluster.group("g").offsets == {TopicPartition("t", 0): 5}
    assert cluster.transaction("tx").state == "Empty"
    assert [one.transactional_id for one in cluster.transactions()] == ["tx"]


def share_groups(world: World) -> None:
    controls, cluster = world.controls, world.cluster
    with pytest.raises(GroupIdNotFound):
        cluster.share_group("s")
    fetch = ShareFetchRequest(
        group_id="s",
        member_id="m",
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1000,
        max_records=1,
        batch_size=1,
        topics=[],
        forgotten_topics_data=[],
    )
    assert world.ask(world.leader, fetch, 2).error_code == 0
    with pytest.raises(GroupIdNotFound):
        cluster.share_partition("s", T0)
    assert controls.expire_locks("s") == 0


def the_controller(world: World) -> None:
    controls, cluster = world.controls, world.cluster
    epoch = cluster.controller.epoch
    to = (cluster.controller.id + 1) % 3
    controls.move_controller(to)
    assert (cluster.controller.id, cluster.controller.epoch) == (to, epoch + 1)
    controls.slow_controller(0.05)
    controls.hold_elections()
    controls.crash_broker(to)
    assert cluster.controller.id != to
    controls.release_elections()
    cluster.wait_until(lambda: cluster.controller.id not in (to, -1))
    controls.restart_broker(to)
    for late in (lambda: controls.delay_metadata(to, 30.0), lambda: controls.hold_metadata(to)):
        late()
        cluster.create_topic("unheard-of")
        knows = world.ask(to, MetadataRequest(topics=None), 12).topics
        assert "unheard-of" not in [topic.name for topic in knows]
        controls.release_metadata()
        knows = world.ask(to, MetadataRequest(topics=None), 12).topics
        assert "unheard-of" in [topic.name for topic in knows]
        cluster.delete_topic("unheard-of")


def links(world: World) -> None:
    controls, cluster = world.controls, world.cluster
    leader = world.leader
    followers = sorted({0, 1, 2} - {leader})
    for slow in (
        lambda: [controls.delay_link(leader, one, 0.05) for one in followers],
        lambda: [controls.throttle_link(leader, one, 4000) for one in followers],
        lambda: controls.delay_client(APP, 0.05, broker=leader),
        lambda: controls.throttle_client(APP, 4000, broker=leader),
    ):
        cluster.forget()
        slow()
        world.send(b"x" * 400)
        (entry,) = cluster.history.entries("Produce")
        assert (entry.latency or 0) > 0.03
        controls.heal()
    for cut in (
        lambda: [controls.cut_link(leader, one, one_way=True) for one in followers],
        lambda: controls.cut_client(APP, silently=True),
    ):
        with world.producer() as producer:
            producer.send("t", b"before", partition=0).result(timeout=30)
            cut()
            waiting = producer.send("t", b"behind", partition=0)
            with pytest.raises(KafkaTimeoutError):
                cluster.wait_until(waiting.done, timeout=0.05)
            controls.heal()
            try:
                producer.close(timeout=0)
            except KafkaTimeoutError:
                pass  # says what it gave up
    with world.producer() as producer:
        producer.send("t", b"before", partition=0).result(timeout=30)
        controls.cut_client(APP)
        waiting = producer.send("t", b"behind", partition=0)
        controls.heal()
        waiting.result(timeout=30)


def rules(world: World) -> None:
    controls, cluster = world.controls, world.cluster
    word = controls.fail_next("Produce", NotLeaderOrFollower, topic="t")
    loses = controls.lose_reply("Produce", client_id=APP)
    closes = controls.disconnect_next("Produce", partition=0)
    slow = controls.delay("Metadata", 0.001)
    data = controls.add_rule({"api": "Produce", "nth": 100, "then": "hold"})
    controls.rule(api="Fetch", every=5, times=2, then="swallow")
    assert [rule.id for rule in controls.rules()] == [
        word.id,
        loses.id,
        closes.id,
        slow.id,
        data.id,
        data.id + 1,
    ]
    controls.remove_rule(data)
    world.send(b"1", b"2")
    assert (word.fired, loses.fired, closes.fired) == (1, 1, 1)
    assert slow.fired
    assert word.to_dict()["then"] == "error:NOT_LEADER_OR_FOLLOWER"
    controls.clear()
    assert controls.rules() == []
    controls.hold("Produce", broker=world.leader)
    with world.producer() as producer:
        waiting = producer.send("t", b"3", partition=0)
        cluster.wait_until(lambda: controls.held() == 1)
        controls.release("Produce")
        waiting.result(timeout=30)
    assert world.values() == [b"1", b"2", b"3"]
    throttled = controls.throttle(APP, "Produce", 0.01)
    cluster.forget()
    world.send(b"4")
    assert cluster.history.entries("Produce")[0].response.throttle_time_ms == 10
    assert [one.id for one in controls.throttles()] == [throttled.id]
    assert throttled.fired == 1
    controls.unthrottle(throttled)
    cluster.forget()
    world.send(b"5")
    assert cluster.history.entries("Produce")[0].response.throttle_time_ms == 0


def quotas(world: World) -> None:
    controls, cluster = world.controls, world.cluster
    controls.set_quota(client_id=APP, producer_byte_rate=100, consumer_byte_rate=1e6)
    controls.set_quota(user="<default>", client_id=APP, request_percentage=900)
    assert controls.quotas() == [
        {"client_id": APP, "quotas": {"producer_byte_rate": 100.0, "consumer_byte_rate": 1e6}},
        {"client_id": APP, "user": "<default>", "quotas": {"request_percentage": 900.0}},
    ]
    controls.set_quota(user="<default>", client_id=APP, request_percentage=None)
    world.send(b"x" * 1000)
    throttle_ms = cluster.history.entries("Produce")[0].response.throttle_time_ms
    assert 100 <= throttle_ms <= 2000
    with pytest.raises(errors.ConfigurationError, match="producer_byte_rate"):
        controls.set_quota(client_id=APP, producer_bite_rate=5)
    controls.clear_quotas()
    assert controls.quotas() == []
    cluster.forget()
    world.send(b"x" * 1000)
    assert cluster.history.entries("Produce")[0].response.throttle_time_ms == 0


def logs(world: World) -> None:
    cluster = world.cluster
    cluster.create_topic("short", replication_factor=3, configs={"retention.bytes": 0})
    with world.producer() as producer:
        producer.send("short", b"x" * 100, partition=0).result(timeout=30)
    world.controls.flush_logs(("short", 0))
    assert world.controls.roll_segments(("short", 0)) == 3
    cluster.wait_until(lambda: world.controls.apply_retention(("short", 0)))
    assert cluster.log("short", 0).log_start_offset == 1
    cluster.delete_topic("short")
    cluster.create_topic("latest", replication_factor=3, configs={"cleanup.policy": "compact"})
    with world.producer(acks="all") as producer:
        for value in (b"1", b"2"):
            producer.send("latest", value, key=b"k", partition=0).result(timeout=30)
    cluster.wait_until(
        lambda: world.controls.compact("latest") == 0 and cluster.log("latest", 0).values() == [b"2"]
    )
    assert world.controls.compact(("latest", 0)) == 0
    cluster.delete_topic("latest")


def access_rules(world: World) -> None:
    controls, cluster = world.controls, world.cluster
    controls.allow_access(EVERYBODY, "ALL", topic="t")
    controls.deny_access(EVERYBODY, "WRITE", topic="t")
    with pytest.raises(errors.TopicAuthorizationFailed):
        world.send(b"1")
    (denied,) = [one for one in cluster.acls.denials() if one.facts["api"] == "Produce"]
    assert (denied.facts["operation"], denied.facts["resource"]) == ("WRITE", "t")
    assert {one["permission"] for one in controls.access_rules()} == {"ALLOW", "DENY"}
    assert controls.revoke_access(EVERYBODY, "WRITE", topic="t") == 1
    world.send(b"2")
    assert cluster.acls.revoke() == 1
    assert controls.access_rules() == []
    world.send(b"3")
    assert world.values() == [b"2", b"3"]


def who_is_let_in(world: World) -> None:
    controls = world.controls
    controls.add_user("ann", "secret")
    controls.add_user("bob", "secret", ["PLAIN"])
    controls.remove_user("bob")
    with pytest.raises(errors.ResourceNotFound):
        controls.remove_user("bob")
    controls.remove_user("ann")
    controls.refuse_mechanism("PLAIN")
    controls.allow_mechanism("PLAIN")
    controls.allow_mechanism()
    assert controls.expire_sessions() == 0
    controls.reload_certificates()  # there are none here


CONTROLS = (
    brokers_go_and_come,
    an_unflushed_tail_is_kept,
    who_is_in_sync,
    coordinators,
    share_groups,
    the_controller,
    links,
    rules,
    quotas,
    logs,
    access_rules,
    who_is_let_in,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "story", [*CONTROLS, None], ids=lambda story: getattr(story, "__name__", "all-were-used")
)
def test_controls(world: World, story: Callable[[World], None] | None) -> None:
    if story is None:
        # In whatever order: what was not played yet is played now.
        for one in CONTROLS:
            if one.__name__ not in world.used:
                play(world, one)
        assert {name for name in dir(Controls) if not name.startswith("_")} <= world.used
    elif story.__name__ not in world.used:
        play(world, story)


def play(world: World, story: Callable[[World], None]) -> None:
    world.begin()
    story(world)
    world.used.add(story.__name__)
