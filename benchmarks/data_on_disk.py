"""Recovery, start and memory of a broker with its data on disk, beside their targets.

    python -m benchmarks.data_on_disk [--gib 10] [--partitions 1000] [--only recovery start memory]

The broker is a process of its own with one data directory below --directory (by default a temporary one,
which is removed). Segments of 1 GiB with records of 1 KB are written into the directory of a topic while the
broker is down, so that it has to recover them: the time is that from the start of the process to its first
response, with Python's own start. Records are in batches of 16, as with the default batch.size; or one in a
batch, with and without a producer id. Memory is the resident memory of the process with --gib segments: after
their recovery, and after a clean stop, a new start and a read of everything. The exit status is 1 if a target
is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.zero_copy import BATCH_RECORDS, RawConnection, batch_of, read_all
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.records.batch import with_producer

TOPIC = "read"  # the one that zero_copy.read_all fetches
SEGMENT_BYTES = 1 << 30
WRITTEN_BYTES = 4 << 20
READ_MIB = 50
METADATA_VERSION = 9
PRODUCER = (1000, 0)
TARGET_RECOVERY_SECONDS = 10.0
TARGET_START_SECONDS = 1.0
TARGET_MEMORY_MB = 150.0


class Broker:
    """A broker in a process of its own, which has answered a request.

    `seconds` is the time that this took, `cpu_seconds` the processor time.
    """

    def __init__(self, directory: Path, *arguments: str) -> None:
        started = time.perf_counter()
        command = [sys.executable, "-m", "pykafka2.cli", "broker", "--port", "0", "--brokers", "1"]
        self._process = subprocess.Popen(
            [*command, "--data-dir", str(directory), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip().partition("=")[2]
        with contextlib.closing(RawConnection(self.address)) as connection:
            connection.send(MetadataRequest(topics=None), METADATA_VERSION)
            connection.receive_frame()
        self.seconds = time.perf_counter() - started
        self.cpu_seconds = time.clock_gettime((~self._process.pid << 3) | 2)  # as in zero_copy.py

    @property
    def resident_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 / 1e6 for line in status.splitlines() if "VmRSS" in line)

    def stop(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def write_segments(directory: Path, count: int, batch: bytes, batch_records: int) -> int:
    """Write segments without indexes, which recovery makes. Return the number of bytes."""
    per_segment = SEGMENT_BYTES // len(batch)
    offset = 0
    for _ in range(count):
        with (directory / f"{offset:020d}.log").open("wb") as file:
            pieces = []
            for _ in range(per_segment):
                pieces += (struct.pack(">q", offset), batch[8:])
                offset += batch_records
                if len(pieces) * len(batch) > 2 * WRITTEN_BYTES:
                    file.write(b"".join(pieces))
                    pieces = []
            file.write(b"".join(pieces))
    return count * per_segment * len(batch)


@contextlib.contextmanager
def crashed(parent: Path, segments: int, batch: bytes, batch_records: int) -> Iterator[tuple[Path, int]]:
    """Yield the data directory of a broker that was killed, and the size of its log."""
    directory = Path(tempfile.mkdtemp(dir=parent))
    try:
        Broker(directory, "--topic", f"{TOPIC}:1").stop(signal.SIGKILL)
        yield directory, write_segments(directory / f"broker-0/{TOPIC}-0", segments, batch, batch_records)
    finally:
        shutil.rmtree(directory)


# ---------------------------------------------------------------------- what is measured


class Targets:
    """The printed figures, each beside its target."""

    def __init__(self) -> None:
        self.missed = 0

    def line(self, name: str, value: float, unit: str, target: float) -> None:
        is_missed = value > target
        self.missed += is_missed
        print(
            f"{name:<70}{value:>8.2f} {unit:<2}  <= {target:g}{'  MISSED' if is_missed else ''}", flush=True
        )

    def seconds(self, name: str, broker: Broker, target: float) -> None:
        self.line(f"{name} ({broker.cpu_seconds:.2f} s of CPU)", broker.seconds, "s", target)


def recovery(parent: Path, targets: Targets) -> None:
    one = batch_of(1)
    for name, batch, records in (
        (f"{BATCH_RECORDS} records in a batch", batch_of(BATCH_RECORDS), BATCH_RECORDS),
        ("1 record in a batch", one, 1),
        ("1 record in a batch, with a producer id", with_producer(one, *PRODUCER, 0), 1),
    ):
        with crashed(parent, 1, batch, records) as (directory, _):
            broker = Broker(directory)
            broker.stop(signal.SIGKILL)
        targets.seconds(f"recovery of 1 GiB, {name}", broker, TARGET_RECOVERY_SECONDS)


def start(parent: Path, partitions: int, targets: Targets) -> None:
    directory = Path(tempfile.mkdtemp(dir=parent))
    try:
        for arguments in (("--topic", f"{TOPIC}:{partitions}"), ()):
            broker = Broker(directory, *arguments)
            broker.stop(signal.SIGTERM)
    finally:
        shutil.rmtree(directory)
    targets.seconds(f"start with {partitions} partitions", broker, TARGET_START_SECONDS)


def memory(parent: Path, gib: int, targets: Targets) -> None:
    batch = batch_of(BATCH_RECORDS)
    with crashed(parent, gib, batch, BATCH_RECORDS) as (directory, total):
        broker = Broker(directory)
        targets.line(f"memory after the recovery of {gib} GiB", broker.resident_mb, "MB", TARGET_MEMORY_MB)
        broker.stop(signal.SIGTERM)
        broker = Broker(directory)
        with contextlib.closing(RawConnection(broker.address)) as connection:
            read_all(connection, total, len(batch), READ_MIB)
        targets.line(f"memory after a read of {gib} GiB", broker.resident_mb, "MB", TARGET_MEMORY_MB)
        broker.stop(signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--gib", type=int, default=10, help="segments of 1 GiB while memory is measured (default 10)"
    )
    parser.add_argument(
        "--partitions", type=int, default=1000, help="partitions while the start is measured (default 1000)"
    )
    parser.add_argument("--directory", type=Path, help="write below this existing directory")
    parser.add_argument("--only", nargs="+", choices=("recovery", "start", "memory"), help="only these parts")
    options = parser.parse_args()
    wanted = options.only or ("recovery", "start", "memory")
    targets = Targets()
    parent = Path(tempfile.mkdtemp(dir=options.directory))
    try:
        if "recovery" in wanted:
            recovery(parent, targets)
        if "start" in wanted:
            start(parent, options.partitions, targets)
        if "memory" in wanted:
            memory(parent, options.gib, targets)
    finally:
        shutil.rmtree(parent)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 1 if targets.missed else 0


if __name__ == "__main__":
    sys.exit(main())
