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
from .peers import Peer, Row

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
