"""Compares the bundled broker with Apache Kafka 4.3.1 in one run, both driven by confluent-kafka.

    python -m benchmarks.broker_speed [--records 200000] [--rounds 2] [--without-apache]

Each cluster has three brokers in one process (Apache Kafka's in one JVM).

  share        messages acquired and accepted per second by one member of a share group: 100 B, replication 1,
               all partitions on one broker
  throughput   messages produced and consumed per second: 100 B and 1 KB, replication factors 1 and 3
  latency      one record at a time, with acks 0, 1 and all
  own          costs of the bundled broker alone: start, memory, idle processor time, 1,000 partitions

The clusters take turns. Each figure is the best of its rounds (the least median of latencies); the first
round warms up the JVM. On a busy machine compare ratios only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

import attrs
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

PARTITIONS = 6
BROKERS = 3
SIZES = (100, 1000)
FACTORS = (1, 3)
PRODUCE_TARGETS = {100: 1.3, 1000: 1.2}
"""By size, the rate over Apache Kafka's."""
FETCH_TARGET = 1.2
SHARE_TARGET = 1.0
# What is usual for a Kafka broker by acks, in milliseconds, for orientation.
USUAL_LATENCY = {0: "0.1", 1: "1-2", -1: "3-10"}
# The bundled broker when it checks every record, as it does in tests.
STRICT = "pykafka2, strict"
METADATA_V1 = struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0)


@attrs.define
class Subject:
    """A cluster that is measured."""

    name: str
    bootstrap_servers: str
    pid: int

    def create(self, topic: str, partitions: int, replicas: int, *, leader: int | None = None) -> None:
        """Create a topic, and with a leader all of its partitions on that broker alone."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        new = NewTopic(topic, partitions, replicas)
        if leader is not None:
            new = NewTopic(topic, partitions, replica_assignment=[[leader]] * partitions)
        created = admin.create_topics([new])
        for future in created.values():
            future.result(30)
        # Apache answers before every broker knows.
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            found = admin.list_topics(topic, timeout=10).topics[topic].partitions
            if len(found) == partitions and all(one.leader >= 0 for one in found.values()):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.name} did not create {topic}")

    def delete(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for future in admin.delete_topics([topic]).values():
            future.result(30)


# ---------------------------------------------------------------------- the subjects


@contextlib.contextmanager
def bundled(brokers: int = BROKERS, *, strict: bool = False) -> Iterator[Subject]:
    command = [sys.executable, "-m", "pykafka2.cli", "broker", "--port", "0", "--brokers", str(brokers)]
    # The usual environment: Python's compiled files are kept, whatever this shell sets.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        [*command, "--no-auto-create", "-c", f"log.validate={'strict' if strict else 'headers'}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield Subject(
                STRICT if strict else "pykafka2",
                process.stdout.readline().strip().partition("=")[2],
                process.pid,
            )
        finally:
            process.send_signal(signal.SIGTERM)


@contextlib.contextmanager
def apache() -> Iterator[Subject]:
    from tests.conformance.maven import kafka_jars
    from tests.conformance.real_kafka import RealKafka

    # The JVM's own collector and compilers, as operators run it.
    with RealKafka(kafka_jars(), flags=("-Xmx1g", "-Xms1g"), brokers=BROKERS) as kafka:
        servers = kafka.bootstrap_servers
        assert kafka._process is not None
        yield Subject("Apache Kafka", servers, kafka._process.pid)


# ---------------------------------------------------------------------- what is measured


def produce(subject: Subject, topic: str, records: int, size: int) -> float:
    """Return messages a second, all acknowledged, acks=all."""
    producer = Producer(
        {
            "bootstrap.servers": subject.bootstrap_servers,
            "acks": -1,
            "linger.ms": 5,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    value = os.urandom(size)
    producer.produce(topic, value)
    producer.flush(10)
    started = time.perf_counter()
    for number in range(records):
        producer.produce(topic, value, on_delivery=delivered)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(60)
    took = time.perf_counter() - started
    if failed or left:
        raise RuntimeError(f"{subject.name}: {len(failed)} failed, {left} left: {failed[:1]}")
    return records / took


def fetch(subject: Subject, topic: str, records: int) -> float:
    """Return the messages per second from the first one to the last."""
    consumer = Consumer(
        {
            "bootstrap.servers": subject.bootstrap_servers,
            "group.id": "speed",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
            "fetch.wait.max.ms": 100,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        first = consumer.consume(1, timeout=20)
        started = time.perf_counter()
        count = len(first)
        while count < records:
            messages = consumer.consume(min(10_000, records - count), timeout=20)
            if not messages:
                raise RuntimeError(f"{subject.name} gave only {count} of {records} messages")
            count += len(messages)
        return count / (time.perf_counter() - started)
    finally:
        consumer.close()


def share_fetch(subject: Subject, topic: str, records: int) -> float:
    """Return the messages per second from the first one to the last, accepted with the next fetch."""
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ResourceType.GROUP, topic, incremental_configs=[earliest])
    admin = AdminClient({"bootstrap.servers": subject.bootstrap_servers})
    for future in admin.incremental_alter_configs([group]).values():
        future.result(30)
    consumer = ShareConsumer({"bootstrap.servers": subject.bootstrap_servers, "group.id": topic})
    try:
        consumer.subscribe([topic])
        count = first = 0
        started = 0.0
        deadline = time.monotonic() + 60
        while count < records:
            messages = consumer.poll(5.0)
            if time.monotonic() > deadline:
                raise RuntimeError(f"{subject.name} gave only {count} of {records} messages in a minute")
            if not count:
                started, first = time.perf_counter(), len(messages)
            count += len(messages)
        return (count - first) / (time.perf_counter() - started)
    finally:
        consumer.close()


def latency(subject: Subject, topic: str, acks: int, records: int) -> tuple[float, float]:
    """Return p50 and p99 in seconds from `produce` of one record of 100 bytes to its delivery callback."""
    producer = Producer({"bootstrap.servers": subject.bootstrap_servers, "acks": acks, "linger.ms": 0})
    value = bytes(100)
    times: list[float] = []
    done: list[float] = []
    for number in range(records + 50):
        started = time.perf_counter()
        producer.produce(topic, value, partition=0, on_delivery=lambda *_: done.append(time.perf_counter()))
        while not done:
            producer.poll(1)
        if number >= 50:
            times.append(done[0] - started)
        done.clear()
    times.sort()
    return times[len(times) // 2], times[len(times) * 99 // 100]


# ---------------------------------------------------------------------- the tables


class Targets:
    """Prints the targets and counts those that are missed."""

    def __init__(self) -> None:
        self.missed = 0

    def line(self, name: str, text: str, reached: bool, wanted: str) -> None:
        self.missed += not reached
        print(f"{name:<58}{text:>26}  {wanted}{'' if reached else '  MISSED'}", flush=True)

    def ratio(self, name: str, best: dict[str, float], wanted: float, unit: str) -> None:
        ours = best["pykafka2"]
        theirs = best.get("Apache Kafka")
        if theirs is None:
            print(f"{name:<58}{ours:>14,.0f} {unit}", flush=True)
            return
        text = f"{ours:,.0f} / {theirs:,.0f} = {ours / theirs:.2f}x"
        self.line(name, text, ours >= wanted * theirs, f">= {wanted}x ({unit}, ours / Apache's)")


def throughput(subjects: list[Subject], records: int, rounds: int, targets: Targets) -> None:
    for size in SIZES:
        count = records if size < 1000 else records // 2
        for factor in FACTORS:
            produced: dict[str, float] = {}
            fetched: dict[str, float] = {}
            for number in range(rounds):
                topic = f"speed-{size}-{factor}-{number}"
                for subject in subjects:
                    subject.create(topic, PARTITIONS, factor)
                    rate = produce(subject, topic, count, size)
                    produced[subject.name] = max(produced.get(subject.name, 0.0), rate)
                    rate = fetch(subject, topic, count)
                    fetched[subject.name] = max(fetched.get(subject.name, 0.0), rate)
                    subject.delete(topic)
            what = f"{size} B, replication {factor}"
            targets.ratio(f"produce, acks=all, {what}", produced, PRODUCE_TARGETS[size], "messages/s")
            targets.ratio(f"fetch, {what}", fetched, FETCH_TARGET, "messages/s")
            print(
                f"  with log.validate=strict: produce {produced[STRICT]:,.0f}, fetch {fetched[STRICT]:,.0f}"
            )


def shares(subjects: list[Subject], records: int, rounds: int, targets: Targets) -> None:
    """Print the rate of a share group, and the brokers' processor time, which a busy machine changes less.

    One broker leads all partitions: librdkafka waits for one broker's ShareFetch before it sends the next
    broker's, so each broker whose partitions are empty would add its maximum wait to every round.
    """
    rates: dict[str, float] = {}
    costs: dict[str, float] = {}
    for number in range(rounds):
        topic = f"share-{number}"
        for subject in subjects:
            subject.create(topic, PARTITIONS, 1, leader=0)
            produce(subject, topic, records, SIZES[0])
            before = cpu_seconds(subject.pid)
            rate = share_fetch(subject, topic, records)
            cost = cpu_seconds(subject.pid) - before
            rates[subject.name] = max(rates.get(subject.name, 0.0), rate)
            costs[subject.name] = min(costs.get(subject.name, cost), cost)
            subject.delete(topic)
    for name, cost in costs.items():
        print(f"  {name}: {cost:.2f} s of processor time for {records:,} messages")
    targets.ratio(f"share fetch, {SIZES[0]} B, replication 1", rates, SHARE_TARGET, "messages/s")


def latencies(subjects: list[Subject], rounds: int, targets: Targets) -> None:
    """Print latencies by acks; the order acks=0 <= 1 <= all is shown, not asserted."""
    print("\nlatency of one record of 100 bytes at a time, p50 / p99 in ms" + " " * 19 + "typical of Kafka")
    for factor in FACTORS:
        topic = f"latency-{factor}"
        for subject in subjects:
            subject.create(topic, 1, factor)
        for acks in (0, 1, -1):
            found: dict[str, tuple[float, float]] = {}
            for _ in range(rounds):
                for subject in subjects:
                    measured = latency(subject, topic, acks, 400)
                    found[subject.name] = min(found.get(subject.name, measured), measured)
            texts = [f"{name} {p50 * 1000:.2f} / {p99 * 1000:.2f}" for name, (p50, p99) in found.items()]
            name = f"acks={acks if acks >= 0 else 'all'}, replication {factor}"
            print(f"  {name:<24}{'   '.join(texts):<52}{USUAL_LATENCY[acks]}", flush=True)
            if acks == 1 and "Apache Kafka" in found:
                ratio = found["pykafka2"][0] / found["Apache Kafka"][0]
                targets.line(f"  latency p50, {name}", f"{ratio:.2f}x", ratio <= 0.9, "<= 0.9x Apache's")


def own_costs(rounds: int, targets: Targets) -> None:
    print("\ncosts of the bundled broker alone")
    started = [start_seconds() for _ in range(rounds)]
    targets.line(
        "KafkaCluster(brokers=3) starts, warm",
        f"{1000 * min(started):.1f} ms",
        min(started) < 0.1,
        "< 100 ms",
    )
    cold = min(cold_seconds() for _ in range(rounds))
    targets.line(
        "Python's start to the first Metadata answer", f"{1000 * cold:.0f} ms", cold <= 0.5, "<= 500 ms"
    )
    with bundled() as subject:
        first_metadata(subject)
        time.sleep(0.3)
        cpu, begin = cpu_seconds(subject.pid), time.monotonic()
        time.sleep(4)
        share = (cpu_seconds(subject.pid) - cpu) / (time.monotonic() - begin)
        targets.line("three idle brokers, of a core", f"{100 * share:.2f} %", share < 0.01, "< 1 %")
        resident = rss_mb(subject.pid)
        targets.line("three idle brokers, resident", f"{resident:.1f} MB", resident < 60, "< 60 MB")
        begin = time.monotonic()
        subject.create("wide", 1000, 3)
        took = time.monotonic() - begin
        targets.line("1,000 partitions x 3, by an admin client", f"{took:.2f} s", took < 2, "< 2 s")


def start_seconds() -> float:
    from pykafka2.testing import KafkaCluster

    started = time.perf_counter()
    with KafkaCluster(brokers=3):
        return time.perf_counter() - started


def cold_seconds() -> float:
    started = time.perf_counter()
    with bundled() as subject:
        first_metadata(subject)
        return time.perf_counter() - started


def first_metadata(subject: Subject) -> None:
    host, _, port = subject.bootstrap_servers.split(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(METADATA_V1)
        assert connection.recv(4)


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1000 for line in status if line.startswith("VmRSS"))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.broker_speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--records",
        type=int,
        default=200_000,
        help="records of 100 bytes (default 200,000); half as many of 1 KB",
    )
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each figure (default 2)")
    parser.add_argument("--without-apache", action="store_true", help="measure the bundled broker only")
    parser.add_argument(
        "--only", choices=("throughput", "share", "latency", "own"), action="append", help="only this part"
    )
    arguments = parser.parse_args()
    only = arguments.only or ["throughput", "share", "latency", "own"]
    targets = Targets()
    from benchmarks.broker_acks import machine

    print(f"{machine()}; three brokers each, {PARTITIONS} partitions")
    if only != ["own"]:
        with contextlib.ExitStack() as stack:
            subjects = [stack.enter_context(bundled())]
            if not arguments.without_apache:
                subjects.append(stack.enter_context(apache()))
            if "throughput" in only:
                looking = stack.enter_context(bundled(strict=True))
                throughput([*subjects, looking], arguments.records, arguments.rounds, targets)
            if "share" in only:
                shares(subjects, arguments.records, arguments.rounds, targets)
            if "latency" in only:
                latencies(subjects, arguments.rounds, targets)
    if "own" in only:
        own_costs(arguments.rounds, targets)
    print(f"load average at the end {os.getloadavg()[0]:.1f}")
    return 1 if targets.missed else 0


if __name__ == "__main__":
    sys.exit(main())
