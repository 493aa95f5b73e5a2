"""Views and controls of share groups, in this process and in a child process."""

from __future__ import annotations

import pytest

from pykafka2.errors import GroupIdNotFound
from pykafka2.testing import ShareGroupView, SharePartitionView
from pykafka2.testing.remote.as_data import from_data, to_data
from pykafka2.testing.remote.http_client import AdminClient
from tests.broker.share.live import SMALL, configure, fill, member
from tests.broker.support.share_member import ACCEPT, REJECT, acquired
from tests.connections import LiveCluster

one_broker = pytest.mark.kafka(brokers=1, topics={"t": 2}, config=SMALL)


@one_broker
def test_views_show_states_counts_and_members(live: LiveCluster) -> None:
    cluster = live.cluster
    configure(live)
    with pytest.raises(GroupIdNotFound):
        cluster.share_group("g")
    with pytest.raises(GroupIdNotFound, match="Broker 0, the leader of t-0, has no state of share group 'g'"):
        cluster.share_partition("g", ("t", 0))
    fill(live, 4)
    one = member(live)
    assert acquired(one.fetch()) == [(0, 3, 1)]
    assert one.settle(1, 2, ACCEPT, REJECT) == 0
    view = cluster.share_partition("g", ("t", 0))
    assert (view.status, view.leader, view.start_offset, view.end_offset) == ("active", 0, 0, 3)
    assert view.offsets("ACQUIRED") == [0, 3]
    assert {offset: record.state for offset, record in view.records.items()} == {
        0: "ACQUIRED",
        1: "ACKNOWLEDGED",
        2: "ARCHIVED",
        3: "ACQUIRED",
    }
    assert (view.records[3].delivery_count, view.records[3].member_id) == (1, "m")
    group = cluster.share_group("g")
    assert group.sessions == {0: ("m",)}
    assert list(group.partitions.values()) == [view]
    # As a cluster in another process sends them.
    assert from_data(SharePartitionView, to_data(view)) == view
    assert from_data(ShareGroupView, to_data(group)) == group


@one_broker
def test_expired_locks_release_the_records_of_one_member_or_all(live: LiveCluster) -> None:
    configure(live)
    fill(live, 2, 2)
    one, two = member(live), member(live, "n")
    one.fetch(max_records=1)
    two.fetch(max_records=1)
    assert live.controls.expire_locks("other") == 0
    assert live.controls.expire_locks("g", ("t", 1)) == 0
    assert live.controls.expire_locks("g", ("t", 0), member_id="n") == 2
    assert live.cluster.share_partition("g", ("t", 0)).offsets("AVAILABLE") == [2, 3]
    assert acquired(one.fetch()) == [(2, 3, 2)]
    assert live.controls.expire_locks("g") == 4


@one_broker
def test_views_are_served_by_the_admin_port(live: LiveCluster) -> None:
    configure(live)
    fill(live, 2)
    member(live).fetch()
    port = live.cluster.open_admin_port()
    client = AdminClient(port.address, port.token)
    try:
        partition = client.call("share_partition", group_id="g", partition=["t", 0])
        assert partition == to_data(live.cluster.share_partition("g", ("t", 0)))
        assert client.call("share_group", group_id="g") == to_data(live.cluster.share_group("g"))
    finally:
        client.close()
