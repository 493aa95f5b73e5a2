"""Crash a broker under load and prove that no record is lost.

Starts a cluster in this process on real sockets and sends records with acks=all and idempotence.  Half-way it
crashes the leader of a partition, which loses its records that are not replicated.  Then it reads all records
back and checks their number, offsets, order for each key, and checksums.  The exit code is 0 if every record
arrived once, in order and unchanged, and otherwise 1; the message names the records.

examples:
  pykafka2 demo
  pykafka2 demo --input access.log                        the lines of a file, keyed by their first word
  pykafka2 demo --sabotage lose                           damage the log to show that the check notices
  pykafka2 demo --bootstrap-servers localhost:9092        use another cluster (without the crash)
"""

from __future__ import annotations

import argparse
import secrets
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.cli.common.output import NoProgress, Output
from pykafka2.cli.common.parsing import positive
from pykafka2.cli.demo.crash import Crash, crash_leader, look_again, stop_replication, wait_until_in_sync
from pykafka2.cli.demo.data import DemoRecord, lines_of, order_events
from pykafka2.cli.demo.proof import Proof, Verdict
from pykafka2.cli.demo.sabotage import KINDS, sabotage
from pykafka2.cli.demo.table import Figures, table
from pykafka2.errors import ConfigurationError, KafkaError, KafkaTimeoutError
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2 import KafkaConsumer, KafkaProducer, RecordMetadata
    from pykafka2.testing import KafkaCluster

SUMMARY = "crash a broker under load and prove that no record is lost"
CHUNK = 1000
FLUSH_TIMEOUT = 60.0
READ_TIMEOUT = 60.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", type=positive, default=3, help="number of brokers (default 3)")
    parser.add_argument("--partitions", type=positive, default=6, help="number of partitions (default 6)")
    parser.add_argument(
        "--records",
        type=positive,
        default=None,
        help="number of records (default 200000, or the whole file)",
    )
    parser.add_argument(
        "--input", type=Path, metavar="FILE", help="send the lines of a file, one record each"
    )
    parser.add_argument("--seed", type=int, default=7, help="seed of the generated records (default 7)")
    parser.add_argument(
        "--bootstrap-servers", metavar="LIST", help="use this cluster instead of starting one"
    )
    parser.add_argument(
        "--sabotage", choices=sorted(KINDS), help="damage the log after the producer; the exit code must be 1"
    )
    parser.add_argument("--no-progress", action="store_true", help="hide progress bars")


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Carry the demo out; the exit code."""
    if arguments.sabotage and arguments.bootstrap_servers:
        raise ConfigurationError("--sabotage needs the demo's own cluster; leave --bootstrap-servers away")
    records = _read_input(arguments)
    with ExitStack() as stack:
        cluster: KafkaCluster | None = None
        if arguments.bootstrap_servers is None:
            from pykafka2.testing import KafkaCluster

            cluster = stack.enter_context(KafkaCluster(brokers=arguments.brokers))
        servers = cluster.bootstrap_servers if cluster else arguments.bootstrap_servers
        demo = Demo(arguments, output, records, servers, cluster)
        verdict = demo.carry_out()
    print(table(demo.figures, verdict, demo.crash))
    for finding in verdict.findings:
        output.note(str(finding))
    if verdict.is_clean:
        return 0
    output.error("what came back is not what was sent")
    return 1


@attrs.define
class Demo:
    """One run, step by step."""

    arguments: argparse.Namespace
    output: Output
    records: list[DemoRecord]
    servers: str
    cluster: KafkaCluster | None
    topic: str = ""
    crash: Crash | None = None
    figures: Figures = attrs.field(factory=Figures)
    failures: list[str] = attrs.field(factory=list)

    def carry_out(self) -> Verdict:
        self.topic = self._create_topic()
        proof = Proof(self.records)
        self._produce(proof)
        if self.cluster and self.crash:
            look_again(self.cluster, self.topic, self.crash)
            self.cluster.controls.restart_broker(self.crash.broker)
            self.figures.rejoined = wait_until_in_sync(self.cluster, self.topic, self.arguments.partitions)
        if self.cluster and self.arguments.sabotage:
            done = sabotage(self.cluster, self.arguments.sabotage, self.topic, self.arguments.partitions)
            print(f"sabotage: {done}")
        return proof.verdict(self._consume(proof))

    def _create_topic(self) -> str:
        """Return the demo's topic: `demo-orders`, with a suffix on an existing cluster."""
        from pykafka2 import KafkaAdminClient, NewTopic

        name = "demo-orders" if self.cluster else f"demo-orders-{secrets.token_hex(4)}"
        with KafkaAdminClient(bootstrap_servers=self.servers) as admin:
            brokers = len(admin.describe_cluster().nodes)
            replication = min(3, brokers)
            admin.create_topics([NewTopic(name, self.arguments.partitions, replication)])
            admin.wait_for_topics([name], timeout=30.0)
        self.figures.brokers, self.figures.replication = brokers, replication
        self.figures.partitions = self.arguments.partitions
        return name

    # ------------------------------------------------------------------ produce

    def _produce(self, proof: Proof) -> None:
        from pykafka2 import KafkaProducer

        with KafkaProducer(bootstrap_servers=self.servers, acks="all", enable_idempotence=True) as producer:
            with self._progress("produced") as bar:
                started = time.perf_counter()
                for first in range(0, len(self.records), CHUNK):
                    crash_now = self._is_half_way(first)
                    if self.cluster and crash_now:
                        stop_replication(self.cluster)
                    self._send_chunk(producer, proof, first)
                    bar.update(min(CHUNK, len(self.records) - first))
                    if self.cluster and crash_now:
                        self.crash = crash_leader(self.cluster, self.topic, self.arguments.partitions)
                producer.flush(timeout=FLUSH_TIMEOUT)
                self.figures.produce_seconds = time.perf_counter() - started
            self.figures.retries = int(producer.metrics().get("record-retry-total", 0))
        if self.failures:
            raise KafkaError(f"{counted(self.failures, 'record')} failed, the first: {self.failures[0]}")

    def _is_half_way(self, first: int) -> bool:
        """Return True for the one chunk in whose midst the leader is to die."""
        half = len(self.records) // 2
        return self.figures.replication > 1 and first <= half < first + CHUNK

    def _send_chunk(self, producer: KafkaProducer, proof: Proof, first: int) -> None:
        for number in range(first, min(first + CHUNK, len(self.records))):
            record = self.records[number]
            producer.send(
                self.topic,
                record.value,
                key=record.key,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
                on_delivery=_Acknowledgement(number, proof, self.figures.latencies, self.failures),
            )

    # ------------------------------------------------------------------ consume

    def _consume(self, proof: Proof) -> dict[int, tuple[int, int]]:
        from pykafka2 import KafkaConsumer, TopicPartition

        partitions = [TopicPartition(self.topic, index) for index in range(self.arguments.partitions)]
        with KafkaConsumer(bootstrap_servers=self.servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(partitions)
            first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
            started = time.perf_counter()
            with self._progress("read back") as bar:
                self._read_until(consumer, proof, sum(end.values()) - sum(first.values()), bar)
            self.figures.consume_seconds = time.perf_counter() - started
        return {partition.partition: (first[partition], end[partition]) for partition in partitions}

    def _read_until(self, consumer: KafkaConsumer, proof: Proof, expected: int, bar: Any) -> None:
        received = 0
        deadline = time.monotonic() + READ_TIMEOUT
        while received < expected:
            if time.monotonic() > deadline:
                raise KafkaTimeoutError(f"{received} of {expected} records were read in {READ_TIMEOUT:.0f} s")
            for partition, records in consumer.poll(timeout_ms=500, max_records=5000).items():
                proof.received[partition.partition].extend(records)
                received += len(records)
                bar.update(len(records))

    def _progress(self, text: str) -> Any:
        if self.arguments.no_progress:
            return NoProgress()
        return self.output.progress(len(self.records), text, leave=True)


class _Acknowledgement:
    """A callback that records where the broker has a record and how long it took."""

    __slots__ = ("failures", "latencies", "number", "proof", "sent_at")

    def __init__(self, number: int, proof: Proof, latencies: list[float], failures: list[str]) -> None:
        self.number = number
        self.proof = proof
        self.latencies = latencies
        self.failures = failures
        self.sent_at = time.perf_counter()

    def __call__(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if metadata is None:
            self.failures.append(f"record {self.number}: {type(error).__name__}: {error}")
            return
        self.proof.acknowledged[self.number] = (metadata.partition, metadata.offset)
        self.latencies.append(time.perf_counter() - self.sent_at)


def _read_input(arguments: argparse.Namespace) -> list[DemoRecord]:
    if arguments.input is None:
        return list(order_events(arguments.records or 200_000, arguments.seed))
    try:
        records = list(lines_of(arguments.input))[: arguments.records]
    except OSError as error:
        raise ConfigurationError(f"--input {arguments.input}: {error.strerror}") from error
    if not records:
        raise ConfigurationError(f"--input {arguments.input}: the file has no lines")
    return records
