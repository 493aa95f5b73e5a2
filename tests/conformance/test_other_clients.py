"""Other people's clients produce to and consume from the bundled broker as they do with Apache Kafka.

Each pair of libraries exchanges records of every codec; on Apache Kafka the same tests show that it is not
the clients, nor these tests, that misbehave.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from .brokers import Cluster
from .group_peers import LIBRARIES, GroupMember, group_member
from .peers import TIMEOUT, Peer, Row
from .real_kafka import QUICK_GROUPS

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
JAVA = pytest.param("java", marks=pytest.mark.real_kafka)
OTHERS = ["kafka-python", "aiokafka", "confluent", JAVA]


def rows_for(*libraries: str, count: int = 60) -> list[Row]:
    """Records that all these libraries can carry: the Python ones refuse null header values."""
    rng = random.Random(str(libraries))
    null = [] if {"kafka-python", "aiokafka"} & {*libraries} else [None]
    started = int(time.time() * 1000) - 60_000

    def data() -> bytes | None:
        return rng.choice((None, b"", b"x", rng.randbytes(100), rng.randbytes(2000) * 2))

    def headers() -> list[tuple[str, bytes | None]]:
        values = [b"", b"v", rng.randbytes(50), *null]
        return [(rng.choice(("trace", "ключ")), rng.choice(values)) for _ in range(rng.choice((0, 1, 3)))]

    # kafka-python wants a key or a value.
    return [(started + n, data() or b"k", data(), headers()) for n in range(count)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", OTHERS)
def test_others_produce(cluster: Cluster, peer_of: Callable[[str], Peer], writer: str, codec: str) -> None:
    topic, rows = cluster.new_topic(), rows_for(writer)
    peer_of(writer).produce(cluster.bootstrap_servers, topic, rows, codec)
    assert peer_of("confluent").consume(cluster.bootstrap_servers, topic, len(rows)) == rows


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", OTHERS)
def test_others_consume(cluster: Cluster, peer_of: Callable[[str], Peer], reader: str, codec: str) -> None:
    topic, rows = cluster.new_topic(), rows_for(reader)
    peer_of("confluent").produce(cluster.bootstrap_servers, topic, rows, codec)
    assert peer_of(reader).consume(cluster.bootstrap_servers, topic, len(rows)) == rows


def until(members: list[GroupMember], done: Callable[[list[list[bytes]]], bool]) -> list[list[bytes]]:
    """Poll all members in turn until `done` says so of the values that each has read."""
    read: list[list[bytes]] = [[] for _ in members]
    deadline = time.monotonic() + TIMEOUT
    while not done(read):
        assert time.monotonic() < deadline, f"{[len(values) for values in read]} values were read"
        for member, values in zip(members, read, strict=True):
            values += member.poll(0.05)
    return read


@pytest.mark.parametrize("library", LIBRARIES)
def test_others_share_a_topic_in_a_group(
    cluster: Cluster, peer_of: Callable[[str], Peer], library: str
) -> None:
    """Join, consume, commit, rebalance, leave, resume: nothing is read twice after it was committed."""
    topic = cluster.new_topic(partitions=4)
    group_id = f"{topic}-group"

    def write(name: str) -> list[bytes]:
        values = [f"{name}-{number}".encode() for number in range(40)]
        write_everywhere(cluster, topic, values)
        return sorted(values)

    def join() -> GroupMember:
        member = group_member(library, cluster.bootstrap_servers, group_id, topic)
        members.append(member)
        return member

    members: list[GroupMember] = []
    try:
        expected = write("first")
        one = join()
        (read,) = until([one], lambda read: len(read[0]) >= 40)
        assert (sorted(read), one.owned()) == (expected, {0, 1, 2, 3})
        one.commit()

        two = join()
        until([one, two], lambda read: (len(one.owned()), len(two.owned())) == (2, 2))
        assert one.owned() | two.owned() == {0, 1, 2, 3}
        expected = write("second")
        shares = until([one, two], lambda read: sum(map(len, read)) >= 40)
        assert sorted([*shares[0], *shares[1]]) == expected
        assert [len(share) for share in shares] == [20, 20]
        for member in (one, two):
            member.commit()

        members.remove(one)
        one.close()
        until([two], lambda read: two.owned() == {0, 1, 2, 3})
        members.remove(two)
        two.close()

        expected = write("third")
        three = join()
        (read,) = until([three], lambda read: len(read[0]) >= 40)
        assert sorted(read) == expected, "it resumes where the group has committed"
    finally:
        for member in members:
            member.close()


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_group_of_others_outlives_its_coordinator(library: str) -> None:
    """Its broker crashes: the group goes on under the next one, from its members' commits."""
    from pykafka2.testing import KafkaCluster

    with KafkaCluster(brokers=3, topics={"t": 4}, config=QUICK_GROUPS) as cluster:
        at = Cluster("bundled", cluster.bootstrap_servers, replicas=3)
        write_everywhere(at, "t", [b"first-%d" % number for number in range(40)])
        member = group_member(library, cluster.bootstrap_servers, "g", "t")
        try:
            until([member], lambda read: len(read[0]) >= 40)
            member.commit()
            generation = cluster.group("g").epoch
            cluster.controls.crash_broker(cluster.coordinator("g"))
            values = [b"second-%d" % number for number in range(40)]
            write_everywhere(at, "t", values)
            (read,) = until([member], lambda read: len(read[0]) >= 40)
            assert sorted(read) == sorted(values)
            member.commit()
            view = cluster.group("g")
            assert (view.state, view.epoch) == ("Stable", generation)
            assert sorted(view.offsets.values()) == [20] * 4
        finally:
            member.close()


def write_everywhere(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    """Produce the values round the topic's four partitions."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 4)
    assert producer.flush(TIMEOUT) == 0
