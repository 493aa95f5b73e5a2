"""Replicas in one process share their bytes, and removed replicas release them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pykafka2.broker.log import memory_storage as log_dir
from pykafka2.broker.log.batch import parse_batch
from pykafka2.broker.log.memory_storage import MemoryLogStorages
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import partition_of, produce_request
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

TOPIC_ID = bytes(16)


def held(log: PartitionLog) -> list[int]:
    """Return the ids of the buffers of a log's batches."""
    return [id(one.buffer.obj) for one in log.batches()]


class Replicas:
    """The logs of one partition on three brokers; the first one leads."""

    def __init__(self) -> None:
        dirs = MemoryLogStorages()
        self.dirs = [dirs.new() for _ in range(3)]
        self.leader, *self.followers = self.logs = [one.open("t", TOPIC_ID, 0) for one in self.dirs]

    def append(self, *values: bytes, leader_epoch: int = 0) -> None:
        self.leader.append_as_leader(parse_batch(batch(values)), leader_epoch)

    def follow(self, log: PartitionLog) -> None:
        """Copy all that `log` lacks into new bytes, as a link does."""
        fetched = self.leader.read(log.log_end_offset, self.leader.log_end_offset, 1 << 30, min_one=True)
        log.append_as_follower(bytes(bytearray(fetched.joined())))


def test_followers_share_the_bytes_of_the_leaders_batches() -> None:
    replicas = Replicas()
    for number in range(3):
        replicas.append(b"%d" % number)
        replicas.append(b"%d" % number, b"more")
        for log in replicas.followers:
            replicas.follow(log)
    assert [log.log_end_offset for log in replicas.logs] == [9, 9, 9]
    assert held(replicas.leader) == held(replicas.followers[0]) == held(replicas.followers[1])
    assert len(set(held(replicas.leader))) == 6


def test_removing_a_replica_keeps_the_data_of_the_others() -> None:
    replicas = Replicas()
    for number in range(4):
        replicas.append(b"%d" % number)
    for log in replicas.followers:
        replicas.follow(log)
    replicas.leader.truncate_to(2)
    replicas.dirs[1].remove(replicas.followers[0])
    assert [len(held(log)) for log in (replicas.leader, replicas.followers[1])] == [2, 4]
    replicas.append(b"another", leader_epoch=1)
    last = list(replicas.followers[1].batches())[2]
    assert b"another" not in bytes(last.buffer)


@pytest.mark.parametrize("differ", ["value", "leader epoch"])
def test_batches_that_differ_are_not_shared(differ: str) -> None:
    """The leader epoch is not covered by the checksum."""
    replicas = Replicas()
    replicas.append(b"leader's")
    if differ == "value":
        other = bytearray(batch([b"follower"]))
    else:
        other = bytearray(next(replicas.leader.batches()).buffer)
        struct.pack_into(">i", other, 12, 7)
    follower = replicas.followers[0]
    follower.append_as_follower(bytes(other))
    (kept,) = follower.batches()
    assert bytes(kept.buffer) == bytes(other)
    assert held(follower) != held(replicas.leader)


@pytest.mark.kafka(brokers=3, topics={"t": Topic(1, 3)})
def test_replicas_share_produced_bytes_across_leader_moves_and_crashes(live: LiveCluster) -> None:
    def logs() -> list[PartitionLog]:
        return [one.replicas.replicas["t", 0].log for one in live.cluster.brokers if one.is_running]

    def produce(*values: bytes) -> None:
        leader = live.cluster.brokers[live.leader_id()]
        with RawClient(leader.address) as wire:
            assert partition_of(wire.call(produce_request("t", 0, batch(values)), 12)).error_code == 0

    produce(b"first", b"second")
    follower = (live.leader_id() + 1) % 3
    live.controls.kill_broker(follower, keep_unflushed=True)
    produce(b"third")
    live.controls.restart_broker(follower)
    live.controls.move_leader(("t", 0), to=follower, unclean=True)
    produce(b"fourth")
    live.wait_for(lambda: len(logs()) == 3 and all(log.log_end_offset == 4 for log in logs()))
    first, *others = (held(log) for log in logs())
    assert others == [first, first]


def test_few_removed_bytes_do_not_release_memory_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[int] = []
    monkeypatch.setattr(log_dir, "release_free_memory", lambda: released.append(1))
    monkeypatch.setattr(log_dir, "MIN_RELEASED_BYTES", 1000)
    wanted: list[int]
    for size_bytes, wanted in ((500, []), (1000, [1])):
        replicas = Replicas()
        replicas.append(bytes(size_bytes))
        replicas.dirs[0].remove(replicas.leader)
        for _ in range(2):
            replicas.dirs[0].release_memory()
        assert released == wanted


PAYLOAD_MB = 64
BATCH_BYTES = 100_000


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_three_replicas_use_the_memory_of_one_and_release_it(live: LiveCluster) -> None:
    """The brokers' own process, without the history, which keeps up to 32 MB of requests."""
    with KafkaCluster(3, {"t": Topic(1, 3)}, process=True, history_entries=0) as cluster:
        address = cluster.bootstrap_servers.split(",")[cluster.partition("t", 0).leader]

        def resident_mb() -> float:
            text = Path(f"/proc/{cluster.pid}/status").read_text()
            return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")) / 1000

        def produce(wire: RawClient, *values: bytes) -> None:
            for value in values:
                wire.send(produce_request("t", 0, batch([value])), 12)
            for _ in values:
                assert partition_of(wire.receive(ProduceRequest, 12)[1]).error_code == 0

        with RawClient(address) as wire:
            produce(wire, b"warm")
            before = resident_mb()
            for _ in range(0, PAYLOAD_MB * 1_000_000, 10 * BATCH_BYTES):
                produce(wire, *[bytes(BATCH_BYTES)] * 10)
        grown = resident_mb() - before
        assert grown < 1.3 * PAYLOAD_MB, f"{grown:.0f} MB for {PAYLOAD_MB}"
        cluster.delete_topic("t")
        live.wait_for(lambda: resident_mb() - before < 0.2 * PAYLOAD_MB)


@pytest.mark.kafka(brokers=2, topics={"t": 1, "kept": 1})
def test_logs_of_topics_deleted_while_their_broker_was_down_are_removed(live: LiveCluster) -> None:
    """Later metadata does not have their ids, so only the start of the broker can remove them."""
    broker = live.cluster.brokers[1]
    found = broker.replicas.replicas["t", 0].log
    kept = broker.replicas.replicas["kept", 0].log
    live.controls.stop_broker(1)
    live.cluster.delete_topic("t")
    assert broker.logs.find(found.topic_id, 0) is found
    live.controls.restart_broker(1)
    live.wait_for(lambda: broker.logs.find(found.topic_id, 0) is None)
    assert broker.logs.find(kept.topic_id, 0) is kept


def test_crash_is_no_clean_shutdown_though_the_broker_is_stopped_again() -> None:
    """`restart_broker` stops a broker that has crashed, too. Its epoch would keep it eligible (KIP-966)."""
    storages = MemoryLogStorages()
    crashed, stopped = storages.new(), storages.new()
    for storage in (crashed, stopped):
        storage.start()
    crashed.stop(is_clean=False, broker_epoch=7)
    crashed.stop(is_clean=True, broker_epoch=7)
    stopped.stop(is_clean=True, broker_epoch=8)
    stopped.stop(is_clean=False, broker_epoch=8)
    assert (crashed.clean_epoch, stopped.clean_epoch) == (-1, 8)
