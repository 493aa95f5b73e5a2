"""Coordinators on real partitions: elected with the leader, loaded from its log, used over the wire."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pykafka2 import errors
from pykafka2.broker.coordinators.coordinators import caller_of
from pykafka2.broker.coordinators.internal_topics import partition_for, share_partition_key
from pykafka2.broker.coordinators.replay import record_of
from pykafka2.broker.faults.engine import DeadOrigin
from pykafka2.broker.security.principal import Caller
from pykafka2.broker.server.request_context import ReceivedRequest, RequestContext
from pykafka2.clock import FOREVER
from pykafka2.errors import ConfigurationError, CoordinatorNotAvailable, GroupIdNotFound
from pykafka2.protocol.messages.coordinator import Coordinator, FindCoordinatorRequest
from pykafka2.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from pykafka2.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.protocol.messages.transaction_records import TransactionLogKey
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from pykafka2.types import TopicPartition
from tests.broker.support.batches import batch
from tests.broker.support.bench import PARTITION as IN_LOG
from tests.broker.support.bench import ClusterBench, commit_code, commit_request, fetch_all_request
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.broker.support.transactions import ClusterTransactions
from tests.connections import LiveCluster
from tests.error_codes import COORDINATOR_NOT_AVAILABLE, INVALID_REQUEST, NOT_COORDINATOR

GROUP, TRANSACTION, SHARE = 0, 1, 2
PARTITION = ("__consumer_offsets", 3)  # of the group "g"

pytestmark = pytest.mark.kafka(brokers=3, topics={"t": 2}, config={"group.initial.rebalance.delay.ms": 0})


def find(wire: RawClient, key: str, kind: int = GROUP) -> Coordinator:
    return wire.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6).coordinators[0]


def commit(wire: RawClient, offset: int, group: str = "g") -> int:
    return commit_code(wire.call(commit_request(group, offset, topic="t"), 9))


def committed(wire: RawClient, group: str = "g") -> tuple[int, int]:
    """Return the error code and the offset of partition 0, or -1 without one."""
    response = wire.call(fetch_all_request(group), 8).groups[0]
    offsets = [one.committed_offset for topic in response.topics for one in topic.partitions]
    return response.error_code, offsets[0] if offsets else -1


def check_due(cluster: KafkaCluster) -> list[float]:
    """Compare `Coordinators.due` of each broker, which is set where it changes, with what it depends on."""
    for broker in cluster.running.brokers:
        one = broker.coordinators
        services = [
            service.due for service in (one._groups, one._transactions, one._shares) if service is not None
        ]
        is_loading = bool(one._to_load) and not one.is_loading_held
        assert one.due == (0.0 if is_loading else min(services, default=FOREVER))
    return [broker.coordinators.due for broker in cluster.running.brokers]


@pytest.mark.gate
def test_due_time_of_coordinators_follows_elections_timers_and_held_loading(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 2}, config={"group.initial.rebalance.delay.ms": 0})
    assert check_due(cluster) == [FOREVER, FOREVER]
    address = cluster.brokers[0].address
    with RawClient(address, simulation=simulation) as wire:
        find(wire, "g")
        find(wire, "x", TRANSACTION)
        simulation.run_for(1.0)
        assert FOREVER not in check_due(cluster)  # both brokers lead partitions, whose offsets expire
        with simulation.consumer(cluster, "t", group_id="g") as consumer:
            consumer.poll(timeout_ms=5000)
            before = check_due(cluster)
            simulation.run_for(2.5)  # heartbeats
            assert check_due(cluster) != before
        for change in (cluster.controls.hold_loading, cluster.controls.release_loading):
            change()
            check_due(cluster)
            cluster.controls.move_coordinator("g", 1 - cluster.coordinator("g"))
            check_due(cluster)
            simulation.run_for(0.2)
            check_due(cluster)
    with cluster.lock:  # so that no timer loads the partition in between
        home = cluster.coordinator("g")
        one = cluster.running.brokers[home].coordinators
        epoch, before = one.epochs[PARTITION], one.due
        assert (
            epoch == cluster.controller.image.topics[PARTITION[0]].partitions[PARTITION[1]].leader_epoch > 0
        )
        for _ in range(2):
            one._resign(PARTITION)
            assert check_due(cluster)[home] >= before
            one._elect(PARTITION, epoch)
            assert check_due(cluster)[home] == 0.0


def test_first_find_coordinator_creates_the_internal_topic(live: LiveCluster) -> None:
    assert live.cluster.topics() == ["t"]
    found = find(live.connect(), "g")
    topic = live.cluster.controller.image.topics["__consumer_offsets"]
    assert (len(topic.partitions), len(topic.partitions[0].replicas)) == (50, 3)
    assert (topic.is_internal, topic.config.is_compacted) == (True, True)
    assert found.node_id == live.cluster.partition(*PARTITION).leader
    assert find(live.connect(1), "g") == found
    assert "__transaction_state" not in live.cluster.topics()


@pytest.mark.kafka(brokers=1, config={"offsets.topic.replication.factor": 3})
def test_offsets_topic_with_too_few_brokers_has_no_coordinator(live: LiveCluster) -> None:
    assert find(live.connect(), "g").error_code == COORDINATOR_NOT_AVAILABLE
    assert find(live.connect(), "x", TRANSACTION).error_code == 0  # its default is one replica here


@pytest.mark.kafka(brokers=2, topics={"t": 2}, config={"log.validate": "headers"})
def test_unreadable_offsets_partition_has_no_coordinator_until_the_next_election(
    live: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """The client id of the admin client can write any record there. Only that partition is lost, and clients
    are not sent to it.
    """
    old = find(live.connect(), "g").node_id
    assert commit(live.connect(old), 7) == 0
    admin = RawClient(live.cluster.brokers[old].address, "__admin_client")
    written = record_of(GroupMetadataKey(group="g"), None)
    assert produce(admin, *PARTITION, batch([b"\0\3garbage"], keys=[written.key])).error_code == 0
    admin.close()
    new = 1 - old
    live.controls.move_leader(PARTITION, to=new)
    wire = live.connect(new)
    live.wait_for(lambda: committed(wire)[0] == NOT_COORDINATOR)
    assert "cannot load __consumer_offsets-3" in caplog.text
    assert commit(wire, 8) == NOT_COORDINATOR
    assert find(wire, "g").node_id == new  # as in Kafka, where FindCoordinator checks only the leader
    with pytest.raises(CoordinatorNotAvailable):
        live.cluster.group("g")
    assert not live.cluster.problems
    # Once the log start offset has moved past the unreadable record, the next leader loads the partition.
    for broker in live.cluster.brokers:
        broker.replicas.log_of(PARTITION).advance_log_start(2)
    live.controls.move_leader(PARTITION, to=old)
    wire = live.connect(old)
    live.wait_for(lambda: committed(wire)[0] == 0)
    assert commit(wire, 8) == 0
    assert committed(wire) == (0, 8)


def test_first_commit_to_a_new_partition_is_replicated_at_once(simulation: Simulation) -> None:
    """Fetches of followers that wait for other partitions do not delay the first group by half a second."""
    bench = ClusterBench(simulation, brokers=3)
    started = simulation.now
    assert bench.commit(1) == 0
    assert simulation.now - started < 0.1


def test_share_coordinator_is_found_by_group_topic_id_and_partition(live: LiveCluster) -> None:
    key = share_partition_key("a:b", live.cluster.controller.image.topics["t"].id, 1)
    found = find(live.connect(), key, SHARE)
    assert found.node_id == live.cluster.coordinator(key, "share")
    assert live.cluster.controller.image.topics["__share_group_state"].is_internal
    for invalid in ("", "g", "g:0", "g:AAAA:0", key.removesuffix("1"), key.removeprefix("a:b")):
        assert find(live.connect(), invalid, SHARE).error_code == INVALID_REQUEST
    old = live.connect().call(FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key]), 5)
    assert old.coordinators[0].error_code == INVALID_REQUEST


@pytest.mark.kafka(brokers=1, as_version="4.0")
def test_releases_before_4_1_have_no_share_coordinator(live: LiveCluster) -> None:
    assert find(live.connect(), share_partition_key("g", b"t" * 16, 0), SHARE).error_code == INVALID_REQUEST


def test_coordinator_and_group_views_show_the_broker_and_state(live: LiveCluster) -> None:
    with pytest.raises(CoordinatorNotAvailable):
        live.cluster.coordinator("g")
    leader = find(live.connect(), "g").node_id
    assert live.cluster.coordinator("g") == leader
    with pytest.raises(GroupIdNotFound):
        live.cluster.group("g")
    assert commit(live.connect(leader), 7) == 0
    view = live.cluster.group("g")
    assert (view.kind, view.state, view.epoch, view.members) == ("classic", "Empty", 0, {})
    assert view.offsets == {TopicPartition("t", 0): 7}
    live.controls.move_coordinator("g", to=(leader + 1) % 3)
    assert live.cluster.coordinator("g") == (leader + 1) % 3
    with pytest.raises(ConfigurationError, match="'group', 'transaction' or 'share'"):
        live.cluster.coordinator("g", kind="streams")


def test_transaction_log_below_its_min_isr_is_rejected_without_an_append(simulation: Simulation) -> None:
    """transaction.state.log.min.isr is 2: no record is appended that could not be committed."""
    bench = ClusterBench(simulation, brokers=3)
    wire = bench.wire(0)
    find_request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"])
    coordinator = wire.call(find_request, 6).coordinators[0].node_id
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=10_000)
    simulation.run_for(0.5)
    wire = bench.wire(coordinator)
    assert wire.call(request, 5).error_code == 0
    for broker in range(3):
        if broker != coordinator:
            bench.cluster.controls.crash_broker(broker)
    simulation.run_for(12.0)  # their sessions end
    partition = ("__transaction_state", partition_for("x", 50))
    assert bench.cluster.partition(*partition).isr == (coordinator,)
    end = bench.cluster.log(*partition).log_end_offset
    assert wire.call(request, 5, timeout=1.0).error_code == COORDINATOR_NOT_AVAILABLE
    assert bench.cluster.log(*partition).log_end_offset == end


MEMBER = MemberMetadata(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    session_timeout=6000,
    rebalance_timeout=6000,
    subscription=b"",
    assignment=b"",
)
TWICE = GroupMetadataValue(
    protocol_type="consumer", generation=1, protocol="range", leader="m", members=[MEMBER, MEMBER]
)


@pytest.mark.parametrize(
    "value", [b"\xff" * 40, record_of(GroupMetadataKey(group="g"), TWICE).value], ids=["bytes", "members"]
)
def test_unreadable_group_log_affects_only_its_own_partition(live: LiveCluster, value: bytes) -> None:
    """The client id of the admin client can write there, so a bad record must not stop the cluster."""
    find(live.connect(), "g")
    leader = live.cluster.partition(*PARTITION).leader
    key = record_of(GroupMetadataKey(group="g"), None).key
    with RawClient(live.cluster.brokers[leader].address, "__admin_client") as admin:
        assert produce(admin, *PARTITION, batch([value], keys=[key])).error_code == 0
    following = (leader + 1) % 3
    live.controls.move_leader(PARTITION, following)
    wire = live.connect(following)
    live.wait_for(lambda: commit(wire, 1) == NOT_COORDINATOR)
    other = next(name for name in map(str, range(100)) if partition_for(name, 50) != PARTITION[1])
    assert commit(live.connect(find(live.connect(), other).node_id), 1, other) == 0
    live.cluster.check()


@pytest.mark.kafka(brokers=2, config={"log.validate": "headers", "transaction.state.log.min.isr": 1})
def test_transaction_coordinator_continues_with_the_readable_part_of_its_log(
    live: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's TransactionStateManager logs the error, too, and keeps the records before it."""
    old = find(live.connect(), "x", TRANSACTION).node_id
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=10_000)
    wire = live.connect(old)
    live.wait_for(lambda: wire.call(request, 5).error_code == 0)
    before = wire.call(request, 5)
    partition = ("__transaction_state", partition_for("x", 50))
    with RawClient(live.cluster.brokers[old].address, "__admin_client") as admin:
        key = record_of(TransactionLogKey(transactional_id="x"), None).key
        assert produce(admin, *partition, batch([b"\0\1garbage"], keys=[key])).error_code == 0
    live.controls.move_leader(partition, to=1 - old)
    wire = live.connect(1 - old)
    live.wait_for(lambda: wire.call(request, 5).error_code == 0)
    after = wire.call(request, 5)
    assert after.producer_id == before.producer_id
    assert after.producer_epoch > before.producer_epoch
    assert "cannot be loaded" in caplog.text


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_group_records_use_the_configured_compression(simulation: Simulation, codec: int) -> None:
    bench = ClusterBench(simulation, brokers=2, config={"offsets.topic.compression.codec": codec})
    assert bench.commit(7) == 0
    (batch_of_one,) = bench.cluster.log(*IN_LOG).batches()
    assert batch_of_one.codec_id == codec
    bench.reload()
    assert bench.committed() == 7
    with pytest.raises(ConfigurationError, match="must be no more than 4"):
        KafkaCluster(config={"offsets.topic.compression.codec": 5})


def test_coordinators_of_grown_internal_topics_use_the_new_number_of_partitions(
    simulation: Simulation,
) -> None:
    names = {"offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2}
    cluster = simulation.cluster(brokers=1, config=names)
    with RawClient(cluster.brokers[0].address, simulation=simulation) as wire:
        for kind in (GROUP, TRANSACTION):
            find(wire, "x", kind)
        simulation.run_for(1)
        topics = [
            CreatePartitionsTopic(name=name, count=3, assignments=None)
            for name in ("__consumer_offsets", "__transaction_state")
        ]
        grown = CreatePartitionsRequest(topics=topics, timeout_ms=5000, validate_only=False)
        assert [one.error_code for one in wire.call(grown, 3).results] == [0, 0]
    simulation.run_for(1)
    hosted = cluster.running.brokers[0].coordinators
    assert (hosted.groups.partitions, hosted.transactions.partitions) == (3, 3)


def test_restarted_coordinator_knows_the_topics_of_before(simulation: Simulation) -> None:
    world = ClusterTransactions(simulation, brokers=1)
    producer = world.begin()
    world.cluster.controls.restart_broker(0)
    world.begin(name="another")  # once it has loaded its log
    codes = world.try_add(producer, [("t", 0), ("absent", 0)], version=3)
    assert codes == [errors.OperationNotAttempted.code, errors.UnknownTopicOrPartition.code]


def test_due_time_of_coordinators_follows_the_timeouts_of_transactions(simulation: Simulation) -> None:
    world = ClusterTransactions(simulation, brokers=1)
    found = []
    for number in (1, 2):
        producer = world.begin(name=f"tid-{number}", timeout_ms=number * 10_000)
        assert world.add(producer, name=f"tid-{number}") == {0}
        found += check_due(world.cluster)
    assert max(found) < FOREVER
    simulation.run_for(30)
    check_due(world.cluster)
    assert [world.state_of(f"tid-{number}") for number in (1, 2)] == ["CompleteAbort"] * 2


@pytest.mark.parametrize("kind", ["groups", "transactions"])
def test_bug_in_a_timer_of_a_coordinator_is_a_problem(simulation: Simulation, kind: str) -> None:
    cluster = simulation.cluster(brokers=1)
    hosted = cluster.running.brokers[0].coordinators
    with cluster.lock:
        service: Any = getattr(hosted, kind)
        service.on_problem("planted", ZeroDivisionError())
    assert [one.where for one in cluster.problems.take()] == ["planted"]


def test_coordinators_see_grown_and_recreated_topics(simulation: Simulation) -> None:
    world = ClusterTransactions(simulation, brokers=1)
    world.begin()
    cluster = world.cluster
    hosted = cluster.running.brokers[0].coordinators
    notified: list[str] = []
    with cluster.lock:
        for name in ("groups", "transactions"):
            service: Any = getattr(hosted, name)
            service.on_topics = lambda *topics, name=name: notified.append(name)
    image = cluster.controller.image
    changed = image.topics["t"]
    grown = attrs.evolve(changed, partitions=(*changed.partitions, changed.partitions[0]))
    recreated = attrs.evolve(grown, id=bytes([9] * 16))
    for topic in (changed, grown, recreated, None):
        with cluster.lock:
            hosted.apply(image, {"t": topic}, simulation.now)
            hosted.apply(image, {"t": topic} if topic else {}, simulation.now)
    assert notified == ["groups", "transactions"] * 3
    with cluster.lock:
        for name in ("groups", "transactions"):
            del getattr(hosted, name).on_topics


@pytest.mark.parametrize(("peer", "host"), [("127.0.0.1:5000", "/127.0.0.1"), ("[::1]:5000", "/::1")])
def test_host_of_a_caller_starts_with_a_slash_and_has_no_brackets(peer: str, host: str) -> None:
    received = ReceivedRequest(FindCoordinatorRequest(), 4, 1, None, 10, 0.0)
    caller = caller_of(RequestContext(DeadOrigin(peer, Caller()), received))
    assert (caller.client_host, caller.client_id, caller.version) == (host, "", 4)


@pytest.mark.parametrize(
    ("release", "flags"), [("3.9", (True, True)), ("4.3", (False, True)), ("4.4", (False, False))]
)
def test_group_coordinator_has_the_differences_of_its_release(
    simulation: Simulation, release: str, flags: tuple[bool, bool]
) -> None:
    cluster = simulation.cluster(brokers=2, as_version=release)
    with cluster.lock:
        for broker in cluster.running.brokers:
            settings = broker.coordinators.groups.settings
            assert (settings.is_before_4_0, settings.is_before_4_4) == flags
