"""kcat, Debian's command line on librdkafka, against the bundled broker and Apache Kafka.

Where kcat is not installed the tests are skipped loudly; with PYKAFKA2_REQUIRE_KCAT=1 that is a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from .brokers import Cluster

REQUIRE = "PYKAFKA2_REQUIRE_KCAT"
TIMEOUT = 60


def kcat(cluster: Cluster, *arguments: str, stdin: str = "") -> str:
    """The command's output; raises AssertionError if it fails."""
    program = shutil.which("kcat")
    if program is None:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"no kcat on PATH ({REQUIRE}=1, so this is a failure)", pytrace=False)
        pytest.skip("!!! NOT CHECKED WITH KCAT: no kcat on PATH (apt-get install kcat)")
    done = subprocess.run(
        [program, "-b", cluster.bootstrap_servers, *arguments],
        input=stdin.encode(),
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode()


def test_kcat_lists_the_cluster(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=3)
    listed = json.loads(kcat(cluster, "-L", "-J", "-t", topic))
    assert [broker["id"] for broker in sorted(listed["brokers"], key=lambda one: one["id"])] == [0, 1, 2]
    (described,) = listed["topics"]
    assert described["topic"] == topic
    assert len(described["partitions"]) == 3
    assert all(len(one["isrs"]) == 3 for one in described["partitions"])


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_produces_and_consumes(cluster: Cluster, codec: str) -> None:
    topic = cluster.new_topic()
    lines = [f"key{n}:value{n}" for n in range(200)]
    kcat(cluster, "-P", "-t", topic, "-K", ":", "-z", codec, "-H", "trace=1", stdin="\n".join(lines))
    read = kcat(cluster, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %k:%s %h\n")
    assert read.splitlines() == [f"{n} {line} trace=1" for n, line in enumerate(lines)]


def test_kcat_asks_for_offsets_by_time(cluster: Cluster) -> None:
    topic = cluster.new_topic()
    kcat(cluster, "-P", "-t", topic, stdin="a\nb\nc")
    answer = kcat(cluster, "-Q", "-t", f"{topic}:0:-1")
    assert answer.strip().endswith("offset 3"), answer


def test_kcat_consumes_in_a_group_and_resumes(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=2)
    group = f"{topic}-group"
    kcat(cluster, "-P", "-t", topic, stdin="\n".join(f"v{n}" for n in range(20)))
    first = kcat(cluster, "-G", group, "-q", "-e", "-X", "auto.offset.reset=earliest", topic)
    assert sorted(first.split()) == sorted(f"v{n}" for n in range(20))
    kcat(cluster, "-P", "-t", topic, stdin="w0\nw1")
    again = kcat(cluster, "-G", group, "-q", "-e", "-X", "auto.offset.reset=earliest", topic)
    assert sorted(again.split()) == ["w0", "w1"]


def test_kcat_produces_in_a_transaction(cluster: Cluster) -> None:
    topic = cluster.new_topic()
    kcat(cluster, "-P", "-t", topic, "-X", f"transactional.id={topic}", stdin="a\nb")
    committed = kcat(cluster, "-C", "-t", topic, "-e", "-q", "-X", "isolation.level=read_committed")
    assert committed.split() == ["a", "b"]
