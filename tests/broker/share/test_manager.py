"""The share partitions of one broker over real sockets: late results, and connections of several members."""

from __future__ import annotations

import pytest

from pykafka2.broker.share.manager import SharePartitionManager
from pykafka2.protocol.messages.share_fetch import ShareFetchRequest
from pykafka2.testing.views.share_groups import ShareRecordView
from tests.broker.coordinators.share.bench import initialize_request
from tests.broker.share.live import SMALL, configure, fill, member, topic_id, wait_until_active
from tests.broker.support.share_member import ACCEPT, ShareMember, acquired
from tests.connections import LiveCluster

one_broker = pytest.mark.kafka(brokers=1, topics={"t": 2}, config=SMALL)


def shares_of(live: LiveCluster) -> SharePartitionManager:
    shares = live.cluster.running.broker(0).parts.shares_or_none
    assert shares is not None
    return shares


@pytest.mark.gate
@one_broker
def test_late_fencing_of_an_ended_share_partition_leaves_its_successor(live: LiveCluster) -> None:
    configure(live)
    fill(live, 2)
    one = member(live)
    one.fetch()
    rule = live.controls.rule(api="WriteShareGroupState", then="hold", between_brokers=True)
    live.leader().send(one.request(acks={0: [(0, 0, [ACCEPT])]}), 2)  # not on the session's connection
    live.wait_for(lambda: rule.fired == 1)
    one.wire.close()
    live.wait_for(lambda: not shares_of(live).partitions)
    reset = live.connect().call(initialize_request("g", topic_id(live), 0, 100, 0), 0)
    assert reset.results[0].partitions[0].error_code == 0
    two = member(live, "n")
    two.wire.send(two.request(), 2)  # its share partition is read after the write
    live.wait_for(lambda: len(shares_of(live).partitions) == 1)
    live.controls.clear()
    _, response = two.wire.receive(ShareFetchRequest, 2)
    assert acquired(response.responses[0].partitions[0]) == [(0, 1, 1)]


@pytest.mark.gate
@one_broker
def test_closed_connection_ends_the_sessions_of_all_its_members(live: LiveCluster) -> None:
    configure(live)
    configure(live, "h")
    fill(live, 2)
    first = member(live)
    wire, topic = first.wire, first.topic_id
    others = [ShareMember(wire, topic, member_id=name, group_id=group) for name in "ab" for group in "gh"]
    for one in (first, *others):
        one.fetch(max_wait_ms=1)
    assert len(shares_of(live).sessions) == 5
    others[0].call((), share_session_epoch=-1)
    wire.close()
    live.wait_for(lambda: not len(shares_of(live).sessions))
    assert shares_of(live).partitions == {}
    assert acquired(member(live, "n").fetch()) == [(0, 1, 2)]


@pytest.mark.gate
@one_broker
def test_fetch_that_outlives_its_connection_leaves_no_session(live: LiveCluster) -> None:
    configure(live)
    member(live, "n").fetch(max_wait_ms=1)
    wait_until_active(live, 1)
    fill(live, 2)
    rule = live.controls.rule(api="ShareFetch", then="replay", times=1)
    one = member(live)
    one.wire.send(one.request(), 2)
    live.wait_for(lambda: rule.fired == 1)
    live.controls.release()
    released = {offset: ShareRecordView("AVAILABLE", 1, "") for offset in (0, 1)}
    live.wait_for(lambda: live.cluster.share_partition("g", ("t", 0)).records == released)
    assert shares_of(live).sessions.members_of("g") == ["n"]
