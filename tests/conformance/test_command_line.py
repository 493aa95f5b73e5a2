"""`pykafka2 produce` and `consume` as typed, on the bundled broker and Apache Kafka, compared with kcat."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.cli.typed import Terminal, pykafka2, started

from .brokers import Cluster
from .test_kcat import kcat


def typed(cluster: Cluster, verb: str, *words: str, stdin: bytes = b"") -> bytes:
    """The command's stdout; the process ended with 0 and printed nothing else."""
    done = pykafka2(verb, "-b", cluster.bootstrap_servers, *words, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.parametrize(
    "codec",
    ["none", "zstd", *(pytest.param(codec, marks=pytest.mark.long) for codec in ("gzip", "snappy", "lz4"))],
)
def test_kcat_reads_the_records_of_produce(cluster: Cluster, codec: str) -> None:
    topic = cluster.new_topic()
    lines = [f"key{n}:value{n}" for n in range(200)]
    typed(cluster, "produce", topic, "-K", ":", "-z", codec, "-H", "trace=1", stdin="\n".join(lines).encode())
    read = kcat(cluster, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%o %k:%s %h\n")
    assert read.splitlines() == [f"{n} {line} trace=1" for n, line in enumerate(lines)]


def test_format_prints_the_bytes_that_kcat_prints(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=3)
    kcat(cluster, "-P", "-t", topic, "-K", ":", "-H", "a=1", "-Z", stdin="k:v\nother:é\ntombstone:\n")
    letters = r"%t %p %o %k %K %s %S %h %T\n"
    ours = typed(cluster, "consume", topic, "-e", "-f", letters).splitlines()
    theirs = (
        kcat(cluster, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", letters).encode().splitlines()
    )
    assert sorted(ours) == sorted(theirs)
    assert len(ours) == 3


def test_positions_and_times_bound_the_records(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=2)
    lines = [
        json.dumps({"value": f"v{n}", "partition": n % 2, "timestamp": 1_700_000_000_000 + 1000 * n})
        for n in range(20)
    ]
    result = json.loads(typed(cluster, "produce", topic, "--json", stdin="\n".join(lines).encode()))
    assert (result["delivered"], result["failed"]) == (20, 0)

    def values(*words: str) -> list[int]:
        return sorted(int(line[1:]) for line in typed(cluster, "consume", topic, *words).splitlines())

    assert values("-e") == list(range(20))
    assert values("-e", "-o", "-2") == [16, 17, 18, 19]
    assert values("-e", "-o", "+9") == [18, 19]
    assert values("-e", "-o", "@2023-11-14T22:13:35Z") == [15, 16, 17, 18, 19]
    assert values("-u", "@1700000003000") == [0, 1, 2]
    assert values("-u", "2", "-p", "1") == [1, 3]
    assert len(values("-c", "7")) == 7


def test_committed_transactions_alone_are_printed(cluster: Cluster) -> None:
    topic = cluster.new_topic()
    transactional = ["-X", f"transactional.id={topic}"]
    typed(cluster, "produce", topic, *transactional, stdin=b"a\nb\n")
    failed = pykafka2(
        "produce", "-b", cluster.bootstrap_servers, topic, "--json", *transactional, stdin=b'{"value":"c"}\n{'
    )
    assert failed.returncode == 1
    committed = typed(cluster, "consume", topic, "-e", "--isolation-level", "read_committed")
    assert committed.split() == [b"a", b"b"]
    assert kcat(cluster, "-C", "-t", topic, "-e", "-q", "-X", "isolation.level=read_committed").split() == [
        "a",
        "b",
    ]


def test_group_continues_after_the_printed_records_also_in_kcat(cluster: Cluster) -> None:
    topic = cluster.new_topic()
    typed(cluster, "produce", topic, stdin="\n".join(f"v{n}" for n in range(10)).encode())
    group = f"{topic}-group"
    assert typed(cluster, "consume", topic, "-g", group, "-c", "4").split() == [b"v0", b"v1", b"v2", b"v3"]
    assert typed(cluster, "consume", topic, "-g", group, "-e").split() == [b"v%d" % n for n in range(4, 10)]
    typed(cluster, "produce", topic, stdin=b"w")
    assert kcat(cluster, "-G", group, "-q", "-e", topic).split() == ["w"]


def test_record_that_the_broker_rejects_is_reported_with_its_line(cluster: Cluster) -> None:
    topic = cluster.new_topic(max_message_bytes="1000")
    lines = b"a\n" + b"x" * 2000 + b"\nb\n"
    done = pykafka2("produce", "-b", cluster.bootstrap_servers, topic, stdin=lines)
    assert done.returncode == 1
    assert b"stdin:2: MessageTooLarge" in done.stderr
    assert typed(cluster, "consume", topic, "-e").split() == [b"a", b"b"]


def test_missing_topic_is_reported_by_both_verbs(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    done = pykafka2("consume", "-b", servers, "no-such-topic")
    assert done.returncode == 1
    assert b"topic 'no-such-topic' does not exist" in done.stderr
    words = ["-X", "allow.auto.create.topics=false", "-X", "max.block.ms=500"]
    done = pykafka2("produce", "-b", servers, "no-such-topic", *words, stdin=b"x\n")
    assert done.returncode == 1
    assert b"topic 'no-such-topic' does not exist" in done.stderr


def test_records_are_followed_in_a_terminal_and_in_a_pipe(cluster: Cluster) -> None:
    topic = cluster.new_topic()
    terminal = Terminal("consume", "-b", cluster.bootstrap_servers, topic)
    process = started("consume", "-b", cluster.bootstrap_servers, topic)
    with process:
        typed(cluster, "produce", topic, stdin=b"first\n")
        terminal.wait_for("first")
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    terminal.type("\x03")
    code, shown = terminal.end()
    assert code == 130
    assert "Traceback" not in shown
