"""Compares fetches from log segments on disk with Apache Kafka 4.3.1 and with the log in memory.

    python -m benchmarks.zero_copy [--mib 1024] [--rounds 3] [--seconds 5] [--without-apache]

One broker in a process of its own; one partition; records of 1 KB in batches of 16 KB; warm page cache. A raw
socket reads everything with fetches of up to 1, 8 and 50 MiB (the default of fetch.max.bytes), one at a time,
and discards the bytes (MSG_TRUNC), because a client that decodes would be the bottleneck. The table has MB/s
and the processor time of the broker per MB, then the p99 of a produce of one record (acks=1, one at a time)
alone and beside a reader with fetches of 8 MiB.

The brokers take turns. Each figure is the best of its rounds; the first round warms up the JVM. On a busy
machine compare ratios only.
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
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator

import attrs

from pykafka2.protocol.framing import decode_response, encode_request
from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pykafka2.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pykafka2.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from pykafka2.protocol.struct import Request
from pykafka2.records.encoder import BatchBuilder

RECORD_BYTES = 1000
BATCH_RECORDS = 16  # as with the default batch.size
FETCH_MIB = (1, 8, 50)
FETCH_MIB_BESIDE = 8
FETCH_VERSION = 11  # with names instead of topic ids
PRODUCE_VERSION = 9
READ_TOPIC, PRODUCE_TOPIC = "read", "produced"
LENGTH = struct.Struct(">i")
# In a response of Fetch v11 with one partition, after the length: correlation id, throttle time, error,
# session id, topics, name, partitions, then partition, error, high watermark, last stable and log start
# offset, aborted transactions, preferred replica, size of the records.
BEFORE_RECORDS = 4 + 4 + 2 + 4 + 4 + 2 + len(READ_TOPIC) + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4


def batch_of(records: int) -> bytes:
    builder = BatchBuilder(max_bytes=1 << 20)
    for _ in range(records):
        builder.append(0, None, os.urandom(RECORD_BYTES))
    return builder.build()


class RawConnection:
    """One connection of a client that does no more than it must."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: Request, version: int) -> None:  # type: ignore[type-arg]
        self.socket.sendall(b"".join(encode_request(request, version, 1, "raw")))

    def receive(self, size: int) -> bytes:
        data = self.socket.recv(size, socket.MSG_WAITALL)
        if len(data) < size:
            raise RuntimeError("the broker closed the connection")
        return data

    def receive_frame(self) -> bytes:
        return self.receive(LENGTH.unpack(self.receive(4))[0])

    def discard(self, size: int) -> None:
        while size:
            taken = len(self.socket.recv(min(size, 1 << 20), socket.MSG_TRUNC))
            if not taken:
                raise RuntimeError("the broker closed the connection")
            size -= taken

    def close(self) -> None:
        self.socket.close()


@attrs.define
class Subject:
    """A broker that is measured, with its figures of each round."""

    name: str
    address: str
    pid: int
    mb_per_second: dict[int, list[float]] = attrs.field(factory=lambda: defaultdict(list))
    """By the size of the fetches in MiB, like the next."""
    cpu_ms_per_mb: dict[int, list[float]] = attrs.field(factory=lambda: defaultdict(list))
    p99_alone_ms: list[float] = attrs.field(factory=list)
    p99_beside_ms: list[float] = attrs.field(factory=list)

    def connect(self) -> RawConnection:
        return RawConnection(self.address)

    def cpu_seconds(self) -> float:
        """User and system time of the process."""
        return time.clock_gettime((~self.pid << 3) | 2)  # Linux: CPUCLOCK_SCHED of a process

    def create_topics(self) -> None:
        topics = [
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
            for name in (READ_TOPIC, PRODUCE_TOPIC)
        ]
        with contextlib.closing(self.connect()) as connection:
            connection.send(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
            connection.receive_frame()
        time.sleep(1)  # Apache answers before the leader is ready


@contextlib.contextmanager
def bundled(name: str, data_dir: str | None = None) -> Iterator[Subject]:
    command = [sys.executable, "-m", "pykafka2.cli", "broker", "--port", "0", "--brokers", "1"]
    if data_dir is not None:
        command += ["--data-dir", data_dir]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield Subject(name, process.stdout.readline().strip().partition("=")[2], process.pid)
        finally:
            process.send_signal(signal.SIGTERM)


@contextlib.contextmanager
def apache() -> Iterator[Subject]:
    from tests.conformance.maven import kafka_jars
    from tests.conformance.real_kafka import RealKafka

    with RealKafka(kafka_jars(), flags=("-Xmx1g", "-Xms1g"), brokers=1) as kafka:
        address = kafka.bootstrap_servers  # starts it
        assert kafka._process is not None
        yield Subject("Apache Kafka", address, kafka._process.pid)


# ---------------------------------------------------------------------- what is measured


def produce_request(topic: str, records: bytes, acks: int) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def fill(subject: Subject, mib: int) -> int:
    """Produce this much. Return the number of bytes."""
    records = batch_of(BATCH_RECORDS)
    count = (mib << 20) // len(records)
    request = produce_request(READ_TOPIC, records, 1)
    with contextlib.closing(subject.connect()) as connection:
        for number in range(count):
            connection.send(request, PRODUCE_VERSION)
            response = decode_response(connection.receive_frame(), ProduceRequest, PRODUCE_VERSION)[1]
            code = response.responses[0].partition_responses[0].error_code
            if code:
                raise RuntimeError(f"{subject.name} rejected batch {number} with error {code}")
    return count * len(records)


def read_all(connection: RawConnection, total: int, batch_bytes: int, fetch_mib: int) -> int:
    """Read the topic from its start. Return the number of bytes of records."""
    offset = received = 0
    while received < total:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=fetch_mib << 20)
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=fetch_mib << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic=READ_TOPIC, partitions=[partition])],
        )
        connection.send(request, FETCH_VERSION)
        size = LENGTH.unpack(connection.receive(4))[0]
        head = connection.receive(BEFORE_RECORDS + 4)
        if LENGTH.unpack(head[-4:])[0] != size - len(head):
            raise RuntimeError(f"an unexpected response: {head!r}")
        connection.discard(size - len(head))
        batches = (size - len(head)) // batch_bytes  # Apache also sends the start of another one
        if not batches:
            raise RuntimeError(f"no records at offset {offset}")
        offset += batches * BATCH_RECORDS
        received += batches * batch_bytes
    return received


def measure_reading(subject: Subject, total: int, batch_bytes: int, fetch_mib: int) -> None:
    with contextlib.closing(subject.connect()) as connection:
        cpu, started = subject.cpu_seconds(), time.perf_counter()
        received = read_all(connection, total, batch_bytes, fetch_mib)
        took, cpu = time.perf_counter() - started, subject.cpu_seconds() - cpu
    subject.mb_per_second[fetch_mib].append(received / 1e6 / took)
    subject.cpu_ms_per_mb[fetch_mib].append(cpu * 1e3 / (received / 1e6))


def p99_of_produces(subject: Subject, seconds: float) -> float:
    """Return the milliseconds of a produce with acks=1."""
    request = produce_request(PRODUCE_TOPIC, batch_of(1), 1)
    times = []
    with contextlib.closing(subject.connect()) as connection:
        until = time.perf_counter() + seconds
        while (started := time.perf_counter()) < until:
            connection.send(request, PRODUCE_VERSION)
            connection.receive_frame()
            times.append(time.perf_counter() - started)
    return sorted(times)[len(times) * 99 // 100] * 1e3


def measure_produces(subject: Subject, total: int, batch_bytes: int, seconds: float) -> None:
    subject.p99_alone_ms.append(p99_of_produces(subject, seconds))
    reader = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "benchmarks.zero_copy",
            "--read",
            subject.address,
            str(total),
            str(batch_bytes),
        ]
    )
    time.sleep(0.3)
    try:
        subject.p99_beside_ms.append(p99_of_produces(subject, seconds))
    finally:
        reader.kill()
        reader.wait()


def read_forever(address: str, total: int, batch_bytes: int) -> None:
    """Read the topic again and again: the process beside which produces are measured."""
    with contextlib.closing(RawConnection(address)) as connection:
        while True:
            read_all(connection, total, batch_bytes, FETCH_MIB_BESIDE)


# ---------------------------------------------------------------------- the report


def report(subjects: list[Subject]) -> None:
    disk, memory, *others = subjects
    print(f"{'fetches of':<12}" + "".join(f"{subject.name:>30}" for subject in subjects))
    for fetch_mib in FETCH_MIB:
        cells = [
            f"{max(subject.mb_per_second[fetch_mib]):.0f} MB/s,"
            f"{min(subject.cpu_ms_per_mb[fetch_mib]):>6.3f} CPU ms/MB"
            for subject in subjects
        ]
        print(f"{fetch_mib:>6} MiB  " + "".join(f"{cell:>30}" for cell in cells))
    for fetch_mib in FETCH_MIB:
        ratio = min(disk.cpu_ms_per_mb[fetch_mib]) / min(memory.cpu_ms_per_mb[fetch_mib])
        print(f"CPU per MB at {fetch_mib} MiB, disk to memory: {ratio:.2f} x (wanted: at most 0.3)")
        for other in others:
            rates = max(disk.mb_per_second[fetch_mib]) / max(other.mb_per_second[fetch_mib])
            print(f"MB/s at {fetch_mib} MiB, disk to {other.name}: {rates:.2f} x (wanted: at least 1.0)")
    for subject in subjects:
        alone, beside = min(subject.p99_alone_ms), min(subject.p99_beside_ms)
        print(f"p99 of a produce, {subject.name}: {alone:.2f} ms alone, {beside:.2f} ms beside the reader")
    beside = min(disk.p99_beside_ms) / min(disk.p99_alone_ms)
    print(f"p99 of a produce on disk, beside to alone: {beside:.2f} x (wanted: at most 2)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=1024, help="size of the log (default 1024)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each figure (default 3)")
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="time of each run of the produce (default 5)"
    )
    parser.add_argument("--without-apache", action="store_true", help="measure the bundled broker only")
    parser.add_argument("--read", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read_forever(options.read[0], int(options.read[1]), int(options.read[2]))
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        subjects = [
            stack.enter_context(bundled("pykafka2 on disk", directory)),
            stack.enter_context(bundled("pykafka2 in memory")),
        ]
        if not options.without_apache:
            subjects.append(stack.enter_context(apache()))
        batch_bytes = len(batch_of(BATCH_RECORDS))
        totals = {}
        for subject in subjects:
            subject.create_topics()
            totals[subject.name] = fill(subject, options.mib)
        for _ in range(options.rounds):
            for subject in subjects:
                for fetch_mib in FETCH_MIB:
                    measure_reading(subject, totals[subject.name], batch_bytes, fetch_mib)
        for _ in range(options.rounds):
            for subject in subjects:
                measure_produces(subject, totals[subject.name], batch_bytes, options.seconds)
        report(subjects)


if __name__ == "__main__":
    main()
