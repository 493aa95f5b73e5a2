"""ShareFetch and ShareAcknowledge over real sockets: sessions, limits, locks, errors, access, leaders."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka2.protocol.messages.share_fetch import ShareFetchRequest
from pykafka2.protocol.messages.share_group import ShareGroupHeartbeatRequest
from pykafka2.protocol.messages.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster
from tests.broker.share.live import SMALL, configure, fill, initialize, member, wait_until_active
from tests.broker.support.admin_requests import delete
from tests.broker.support.batches import batch, in_transaction
from tests.broker.support.data_requests import mark, produce, write
from tests.broker.support.share_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    acquired,
    values,
)
from tests.connections import LiveCluster
from tests.error_codes import (
    GROUP_AUTHORIZATION_FAILED,
    INVALID_RECORD_STATE,
    INVALID_REQUEST,
    INVALID_SHARE_SESSION_EPOCH,
    NOT_LEADER_OR_FOLLOWER,
    SHARE_SESSION_LIMIT_REACHED,
    SHARE_SESSION_NOT_FOUND,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_VERSION,
)

one_broker = pytest.mark.kafka(brokers=1, topics={"t": 2}, config=SMALL)


@one_broker
def test_member_acquires_and_accepts_records(live: LiveCluster) -> None:
    configure(live)
    produce(live.leader(), "t", 0, batch([b"a", b"b", b"c"]))
    one = member(live)
    data = one.fetch()
    assert acquired(data) == [(0, 2, 1)]
    assert values(data) == [b"a", b"b", b"c"]
    assert one.settle(0, 1, ACCEPT) == 0
    assert one.settle(2, 2, RELEASE) == 0
    data = one.fetch()
    assert (acquired(data), values(data)) == ([(2, 2, 2)], [b"c"])


@one_broker
def test_group_starts_at_the_latest_offset_by_default(live: LiveCluster) -> None:
    initialize(live)
    fill(live, 3)
    one = member(live)
    assert acquired(one.fetch(max_wait_ms=1)) == []
    wait_until_active(live, 1)
    fill(live, 1)
    assert acquired(one.fetch()) == [(3, 3, 1)]


@pytest.mark.gate
@one_broker
def test_group_starts_by_duration(live: LiveCluster) -> None:
    configure(live, share_auto_offset_reset="by_duration:PT1H")
    wall_ms = live.cluster.runtime.clock.wall_ms()
    for age_ms in (7_200_000, 60_000, 0):
        produce(live.leader(), "t", 0, batch([b"x"], timestamp=wall_ms - age_ms))
    assert acquired(member(live).fetch()) == [(1, 2, 1)]


@one_broker
def test_long_poll_returns_new_records_and_released_ones(live: LiveCluster) -> None:
    configure(live)
    one, two = member(live), member(live, "n")
    one.fetch(max_wait_ms=1)
    two.fetch(max_wait_ms=1)
    one.wire.send(one.request(max_wait_ms=20_000), 2)
    fill(live, 1)
    _, response = one.wire.receive(ShareFetchRequest, 2)
    assert acquired(response.responses[0].partitions[0]) == [(0, 0, 1)]
    one.epoch += 1
    two.wire.send(two.request(max_wait_ms=20_000), 2)
    one.settle(0, 0, RELEASE)
    _, response = two.wire.receive(ShareFetchRequest, 2)
    assert acquired(response.responses[0].partitions[0]) == [(0, 0, 2)]


@pytest.mark.gate
@one_broker
def test_fetch_waits_for_min_bytes(live: LiveCluster) -> None:
    configure(live)
    one = member(live)
    one.fetch(max_wait_ms=1)
    wait_until_active(live, 1)
    fill(live, 1)
    one.wire.send(one.request(max_wait_ms=20_000, min_bytes=1000), 2)
    fill(live, 1)
    produce(live.leader(), "t", 0, batch([b"x" * 1000]))
    _, response = one.wire.receive(ShareFetchRequest, 2)
    assert acquired(response.responses[0].partitions[0]) == [(0, 2, 1)]


@pytest.mark.gate
@pytest.mark.kafka(
    brokers=1, topics={"t": 1}, config={**SMALL, "transaction.partition.verification.enable": False}
)
@pytest.mark.parametrize("committed", [False, True])
def test_read_committed_group_waits_for_the_end_of_a_transaction(live: LiveCluster, committed: bool) -> None:
    configure(live, share_isolation_level="read_committed")
    other = member(live, group_id="h")
    configure(live, "h")
    fill(live, 1)
    wire = live.leader()
    assert write(wire, "tid", in_transaction([b"a", b"b"], 7)).error_code == 0
    fill(live, 1)
    one = member(live)
    assert acquired(one.fetch()) == [(0, 0, 1)]
    assert acquired(other.fetch()) == [(0, 3, 1)]
    assert acquired(one.fetch(max_wait_ms=50)) == []
    one.wire.send(one.request(max_wait_ms=20_000), 2)
    assert mark(wire, 7, committed=committed) == 0
    _, response = one.wire.receive(ShareFetchRequest, 2)
    one.epoch += 1
    data = response.responses[0].partitions[0]
    assert acquired(data) == [(1 if committed else 3, 4, 1)]
    assert values(data) == ([b"a", b"b", b"0"] if committed else [b"0"])


@one_broker
def test_two_members_never_hold_the_same_record(live: LiveCluster) -> None:
    configure(live)
    fill(live, 2, 2, 2)
    one, two = member(live), member(live, "n")
    assert acquired(one.fetch(max_records=1)) == [(0, 1, 1)]
    assert acquired(two.fetch(max_records=3)) == [(2, 5, 1)]
    assert two.settle(0, 1, ACCEPT) == INVALID_RECORD_STATE
    assert one.settle(0, 1, ACCEPT) == 0


@pytest.mark.gate
@one_broker
def test_fetch_divides_max_records_and_bytes_among_partitions(live: LiveCluster) -> None:
    configure(live)
    configure(live, "h")
    one, two = member(live), member(live, "n", group_id="h")
    for reader in (one, two):
        reader.call((0, 1), max_wait_ms=1)
    wait_until_active(live, 4)
    for partition in (0, 1):
        fill(live, 3, 3, partition=partition)
    response = one.call((), max_records=4)
    found = {data.partition_index: acquired(data) for data in response.responses[0].partitions}
    assert found == {1: [(0, 5, 1)]}, "the order rotates with the epoch"
    response = two.call((), max_bytes=200)
    found = {data.partition_index: acquired(data) for data in response.responses[0].partitions}
    assert found == {0: [(0, 2, 1)], 1: [(0, 2, 1)]}


@pytest.mark.gate
@one_broker
def test_only_the_first_batch_of_a_response_may_exceed_max_bytes(live: LiveCluster) -> None:
    configure(live)
    one = member(live)
    one.call((0, 1), max_wait_ms=1)
    wait_until_active(live, 2)
    for partition in (0, 1):
        fill(live, 3, partition=partition)
    for partition in (1, 0):
        response = one.call((), max_bytes=10)
        found = {data.partition_index: acquired(data) for data in response.responses[0].partitions}
        assert found == {partition: [(0, 2, 1)]}


@pytest.mark.gate
@one_broker
def test_record_limit_mode_is_strict(live: LiveCluster) -> None:
    configure(live)
    fill(live, 5)
    one = member(live)
    assert acquired(one.fetch(max_records=2, share_acquire_mode=1)) == [(0, 1, 1)]
    assert acquired(one.fetch(max_records=2, share_acquire_mode=1)) == [(2, 3, 1)]


@one_broker
def test_fetch_carries_acknowledgements(live: LiveCluster) -> None:
    configure(live)
    fill(live, 2, 2)
    one = member(live)
    one.fetch(max_records=2)
    data = one.fetch(acks={0: [(0, 1, [ACCEPT])]})
    assert (data.acknowledge_error_code, acquired(data)) == (0, [(2, 3, 1)])
    data = one.fetch(acks={0: [(0, 1, [ACCEPT]), (3, 4, [ACCEPT])]}, max_wait_ms=1)
    assert data.acknowledge_error_code == INVALID_REQUEST


@one_broker
def test_renewed_records_stay_with_their_member(live: LiveCluster) -> None:
    configure(live, share_record_lock_duration_ms=15_000)
    fill(live, 2)
    one = member(live)
    assert one.call().acquisition_lock_timeout_ms == 15_000
    assert one.settle(0, 0, RENEW) == INVALID_REQUEST, "without is_renew_ack"
    assert one.settle(0, 0, RENEW, is_renew_ack=True) == 0
    response = one.call(acks={0: [(0, 1, [RENEW])]}, is_renew_ack=True)
    assert response.error_code == INVALID_REQUEST
    zeros = dict.fromkeys(("max_bytes", "min_bytes", "max_records", "max_wait_ms"), 0)
    data = one.fetch(acks={0: [(0, 1, [RENEW])]}, is_renew_ack=True, **zeros)
    assert (data.error_code, data.acknowledge_error_code, acquired(data)) == (0, 0, [])


@one_broker
def test_session_epochs(live: LiveCluster) -> None:
    initialize(live)
    one = member(live)
    assert one.call(share_session_epoch=1).error_code == SHARE_SESSION_NOT_FOUND
    assert one.call(acks={0: [(0, 0, [ACCEPT])]}).error_code == INVALID_REQUEST
    assert one.call(max_wait_ms=1).error_code == 0
    assert one.call(share_session_epoch=7).error_code == INVALID_SHARE_SESSION_EPOCH
    assert one.call((), max_wait_ms=1).responses == [], "nothing to report"
    assert one.acknowledge({0: []}, share_session_epoch=0).error_code == INVALID_SHARE_SESSION_EPOCH
    assert one.acknowledge({0: []}, share_session_epoch=9).error_code == INVALID_SHARE_SESSION_EPOCH
    assert one.acknowledge({0: []}).error_code == 0
    assert one.call((), max_wait_ms=1).error_code == 0
    assert one.call((), share_session_epoch=-1).error_code == 0
    assert one.call((), share_session_epoch=-1).error_code == SHARE_SESSION_NOT_FOUND
    assert one.acknowledge({}, share_session_epoch=-1).error_code == SHARE_SESSION_NOT_FOUND


@one_broker
def test_session_continues_with_its_partitions_until_they_are_forgotten(live: LiveCluster) -> None:
    configure(live)
    one = member(live)
    one.call((0, 1), max_wait_ms=1)
    wait_until_active(live, 2)
    fill(live, 1, partition=1)
    response = one.call(())
    assert [data.partition_index for data in response.responses[0].partitions] == [1]
    one.call((), forgotten=(1,), max_wait_ms=1)
    fill(live, 1, partition=1)
    assert one.call((), max_wait_ms=100).responses == []


@one_broker
def test_first_fetch_with_acknowledgements_is_invalid_even_if_its_partition_is_named_again(
    live: LiveCluster,
) -> None:
    configure(live)
    one = member(live)
    request = one.request(acks={0: [(0, 0, [ACCEPT])]})
    request.topics += one.request().topics
    assert one.wire.call(request, 2).error_code == INVALID_REQUEST


@one_broker
def test_final_epoch_acknowledges_and_releases_the_rest(live: LiveCluster) -> None:
    configure(live)
    fill(live, 3)
    one, two = member(live), member(live, "n")
    one.fetch()
    response = one.call(acks={0: [(0, 0, [ACCEPT])]}, share_session_epoch=-1)
    assert response.responses[0].partitions[0].acknowledge_error_code == 0
    assert acquired(two.fetch()) == [(1, 2, 2)]


@pytest.mark.gate
@one_broker
def test_final_share_acknowledge_releases_the_rest(live: LiveCluster) -> None:
    configure(live)
    fill(live, 3)
    one, two = member(live), member(live, "n")
    one.fetch()
    response = one.acknowledge({0: [(0, 0, [ACCEPT])]}, share_session_epoch=-1)
    assert response.responses[0].partitions[0].error_code == 0
    assert acquired(two.fetch()) == [(1, 2, 2)]


@pytest.mark.gate
@one_broker
def test_connection_of_an_earlier_session_releases_nothing_and_the_last_one_all(live: LiveCluster) -> None:
    configure(live)
    fill(live, 2)
    one, again, two = member(live), member(live), member(live, "n")
    one.call((1,), max_wait_ms=1)
    assert acquired(again.fetch()) == [(0, 1, 1)]
    shares = live.cluster.running.broker(0).parts.services.shares
    one.wire.close()
    live.wait_for(lambda: len(shares.sessions._groups) == 1)
    assert acquired(two.fetch(max_wait_ms=50)) == []
    assert again.settle(0, 0, ACCEPT) == 0
    again.wire.close()
    assert acquired(two.fetch()) == [(1, 1, 2)]
    two.wire.close()
    live.wait_for(lambda: not shares.partitions)


@one_broker
def test_closed_connection_releases_the_records_of_its_member(live: LiveCluster) -> None:
    configure(live)
    fill(live, 2)
    one, two = member(live), member(live, "n")
    one.fetch()
    assert acquired(two.fetch(max_wait_ms=1)) == []
    one.wire.close()
    assert acquired(two.fetch(max_wait_ms=5000)) == [(0, 1, 2)]


@pytest.mark.gate
@pytest.mark.parametrize("is_active", [False, True])
@one_broker
def test_fetch_of_a_closed_connection_holds_nothing(live: LiveCluster, is_active: bool) -> None:
    """The connection closes before the request is handled, so its end cannot be noticed later."""
    configure(live)
    one, two = member(live), member(live, "n")
    if is_active:
        two.fetch(max_wait_ms=1)
        wait_until_active(live, 1)
    fill(live, 2)
    live.controls.rule(api="ShareFetch", then="replay", times=1)
    one.wire.send(one.request(), 2)
    live.wait_for(lambda: live.controls.held("ShareFetch") == 1)
    live.controls.release("ShareFetch")
    if is_active:
        live.wait_for(lambda: live.cluster.share_partition("g", ("t", 0)).offsets("AVAILABLE") == [0, 1])
    assert acquired(two.fetch()) == [(0, 1, 2 if is_active else 1)]
    assert len(live.cluster.running.broker(0).parts.services.shares.sessions) == 1


@pytest.mark.gate
@one_broker
def test_lag_is_without_records_that_have_ended(live: LiveCluster) -> None:
    configure(live)
    fill(live, 5)
    one = member(live)
    one.fetch()
    assert one.settle(1, 3, ACCEPT, RELEASE, REJECT) == 0
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    described = live.connect().call(DescribeShareGroupOffsetsRequest(groups=[group]), 1).groups[0]
    (topic,) = described.topics
    found = {
        entry.partition_index: (entry.start_offset, entry.lag)
        for entry in topic.partitions
        if entry.start_offset >= 0
    }
    assert found == {0: (0, 3)}


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={**SMALL, "group.share.max.share.sessions": 1})
def test_session_limit_is_reported_after_the_wait(live: LiveCluster) -> None:
    initialize(live)
    member(live).fetch(max_wait_ms=1)
    two = member(live, "n")
    assert two.call(max_wait_ms=1).error_code == SHARE_SESSION_LIMIT_REACHED


@one_broker
def test_invalid_requests(live: LiveCluster) -> None:
    initialize(live)
    one = member(live)
    for fields in ({"group_id": None}, {"member_id": ""}, {"member_id": "x" * 37}):
        assert one.call(**fields).error_code == INVALID_REQUEST  # type: ignore[arg-type]
        assert one.acknowledge({}, **fields).error_code == INVALID_REQUEST
    unknown = one.call(topic_id=b"\7" * 16).responses[0].partitions[0]
    assert unknown.error_code == UNKNOWN_TOPIC_ID
    assert one.fetch(7).error_code == UNKNOWN_TOPIC_OR_PARTITION
    for acks in (
        [(2, 1, [ACCEPT])],
        [(0, 1, [])],
        [(0, 1, [ACCEPT] * 3)],
        [(0, 1, [5])],
        [(0, 1, [-1])],
        [(5, 6, [ACCEPT]), (1, 2, [ACCEPT])],
    ):
        response = one.acknowledge({0: acks})  # type: ignore[dict-item]
        assert response.responses[0].partitions[0].error_code == INVALID_REQUEST, acks
    gone = one.acknowledge({0: [(0, 0, [ACCEPT])]}, topic_id=b"\7" * 16)
    assert gone.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config=SMALL, features={"share.version": 0})
def test_share_groups_can_be_disabled(live: LiveCluster) -> None:
    one = member(live)
    assert one.call().error_code == UNSUPPORTED_VERSION
    assert one.acknowledge({}).error_code == UNSUPPORTED_VERSION


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={**SMALL, "authorizer.class.name": STANDARD_AUTHORIZER})
def test_group_and_topic_need_read(live: LiveCluster) -> None:
    live.cluster.acls.allow("User:ANONYMOUS", "READ", group="g")
    live.cluster.acls.allow("User:ANONYMOUS", "READ", topic="t")
    initialize(live)
    live.controls.revoke_access()
    one = member(live)
    assert one.call().error_code == GROUP_AUTHORIZATION_FAILED
    assert one.acknowledge({}).error_code == GROUP_AUTHORIZATION_FAILED
    live.cluster.acls.allow("User:ANONYMOUS", "READ", group="g")
    assert one.fetch().error_code == TOPIC_AUTHORIZATION_FAILED
    assert one.settle(0, 0, ACCEPT) == TOPIC_AUTHORIZATION_FAILED
    live.cluster.acls.allow("User:ANONYMOUS", "READ", topic="t")
    assert one.fetch(max_wait_ms=1).error_code == 0


@pytest.mark.kafka(brokers=3, topics={"t": 1}, config=SMALL)
def test_new_leader_delivers_records_that_were_not_accepted(live: LiveCluster) -> None:
    configure(live)
    fill(live, 3, 3)
    one = member(live)
    assert acquired(one.fetch()) == [(0, 5, 1)]
    assert one.settle(0, 2, ACCEPT, REJECT, RELEASE) == 0
    old = live.leader_id()
    new = (old + 1) % 3
    live.controls.move_leader(("t", 0), to=new)
    live.wait_for(lambda: live.leader_id() == new)
    response = one.call()
    (data,) = response.responses[0].partitions
    assert data.error_code == NOT_LEADER_OR_FOLLOWER
    assert data.current_leader.leader_id == new
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [
        (new, live.cluster.brokers[new].port)
    ]
    assert one.settle(2, 5, ACCEPT) == UNKNOWN_TOPIC_OR_PARTITION
    two = member(live, "n")
    assert acquired(two.fetch(max_wait_ms=5000)) == [(2, 2, 2), (3, 5, 1)]
    assert two.settle(2, 5, ACCEPT) == 0


@pytest.mark.gate
@pytest.mark.kafka(brokers=2, topics={"t": 1}, config=SMALL)
def test_latest_offset_is_the_high_watermark(live: LiveCluster) -> None:
    initialize(live)
    fill(live, 2)
    live.controls.pause_followers()
    assert produce(live.leader(), "t", 0, batch([b"late"]), acks=1).error_code == 0
    one = member(live)
    assert acquired(one.fetch(max_wait_ms=1)) == []
    wait_until_active(live, 1)
    live.controls.resume_followers()
    data = one.fetch()
    assert (acquired(data), values(data)) == ([(2, 2, 1)], [b"late"])


@pytest.mark.gate
@pytest.mark.kafka(brokers=2, topics={"t": 1}, config=SMALL)
def test_leadership_that_returned_unnoticed_ends_the_share_partition(live: LiveCluster) -> None:
    configure(live)
    fill(live, 2)
    one = member(live)
    assert acquired(one.fetch()) == [(0, 1, 1)]
    leader = live.leader_id()
    live.controls.hold_metadata(leader)
    for to in (1 - leader, leader):
        live.controls.move_leader(("t", 0), to=to)
    live.controls.release_metadata(leader)
    assert one.settle(0, 0, ACCEPT) == UNKNOWN_TOPIC_OR_PARTITION
    assert acquired(one.fetch()) == [(0, 1, 1)]


@pytest.mark.gate
@one_broker
def test_changed_start_offset_ends_the_share_partition(live: LiveCluster) -> None:
    configure(live)
    fill(live, 4)
    one = member(live)
    one.fetch()
    wire = live.connect()
    leave = ShareGroupHeartbeatRequest(group_id="g", member_id="first", member_epoch=-1)
    assert wire.call(leave, 1).error_code == 0
    start = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=2)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[start])
    altered = wire.call(AlterShareGroupOffsetsRequest(group_id="g", topics=[topic]), 0)
    assert altered.responses[0].partitions[0].error_code == 0
    assert one.settle(0, 0, ACCEPT) == NOT_LEADER_OR_FOLLOWER
    assert acquired(one.fetch()) == [(2, 3, 1)]


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config=SMALL)
def test_restarted_broker_delivers_no_accepted_record(live: LiveCluster) -> None:
    configure(live)
    fill(live, 4)
    one = member(live)
    one.fetch()
    assert one.settle(1, 2, ACCEPT) == 0
    live.controls.restart_broker(0)
    live.wait_for(lambda: live.leader_id() == 0)
    assert acquired(member(live, "n").fetch(max_wait_ms=5000)) == [(0, 0, 1), (3, 3, 1)]


@pytest.mark.gate
@one_broker
def test_deleted_topic_ends_its_share_partitions(live: LiveCluster) -> None:
    configure(live)
    fill(live, 1)
    one = member(live)
    one.fetch()
    delete(live.connect(), "t")
    assert one.call(()).responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID


@pytest.mark.gate
def test_cluster_on_disk_continues_where_its_group_was(tmp_path: Path) -> None:
    with KafkaCluster(brokers=1, topics={"t": 1}, config=SMALL, data_dir=tmp_path) as cluster:
        live = LiveCluster(cluster)
        configure(live)
        fill(live, 3, 3, 3)
        one = member(live)
        assert acquired(one.fetch(max_records=4)) == [(0, 5, 1)]
        assert one.settle(0, 4, ACCEPT) == 0
        assert one.settle(5, 5, RELEASE) == 0
        live.close()
    with KafkaCluster(brokers=1, topics={"t": 1}, config=SMALL, data_dir=tmp_path) as cluster:
        live = LiveCluster(cluster)
        live.wait_for(lambda: live.leader_id() == 0)
        data = member(live, "n").fetch(max_records=1)
        assert (acquired(data), values(data)) == ([(5, 5, 2)], [b"2"])
        live.close()
