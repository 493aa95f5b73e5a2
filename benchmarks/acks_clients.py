"""Clients of `benchmarks.broker_acks`: our producer and confluent-kafka's, as fast as the brokers take it.

Each function produces for a while and returns what was acknowledged within the measured part, without the
warm-up and without requests that are still in flight at the end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

# As in the pipelining proposal's tables; with batch_size 16384 every Produce carries one of them.
RECORD_BYTES = 10_000
BATCH_BYTES = 16_384
WARM_UP = 0.4
# Records that can wait in a client, beyond those in flight: few, so that a run ends soon after its time.
BUFFER_BYTES = 4 << 20
# In Linux's struct tcp_info: microseconds of sending, and of these of waiting for the receiver's window.
BUSY_AND_WINDOW_LIMITED = struct.Struct("=QQ")
BUSY_AT = 168
TCP_INFO_BYTES = 256


@attrs.define(frozen=True)
class Load:
    """The work of a client."""

    bootstrap_servers: str
    topic: str = "t"
    acks: int = -1
    in_flight: int = 5
    idempotent: bool = False
    seconds: float = 1.5
    producers: int = 1
    record_bytes: int = RECORD_BYTES


@attrs.define
class Measured:
    """The result: bytes acknowledged per second, latencies of single records, depth in the client."""

    mb_per_second: float
    p50: float = 0.0
    p99: float = 0.0
    in_flight_max: int = 0
    failed: int = 0
    window_full: float | None = None
    """Share of the sending time in which the broker's TCP window was full or closed; None if unknown."""
    zero_windows: int | None = None
    """How often a receiver on this machine closed its window during the run; None if unknown."""


def window_full() -> float | None:
    """Return the share of this process's sending time in which the receivers' TCP windows were full.

    Sums the open TCP connections, as Linux counts for each of them. None elsewhere.
    """
    if not hasattr(socket, "TCP_INFO") or not os.path.isdir("/proc/self/fd"):
        return None
    busy = limited = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        except OSError:
            continue  # closed meanwhile, or not TCP
        if len(info) >= BUSY_AT + BUSY_AND_WINDOW_LIMITED.size:
            of_one = BUSY_AND_WINDOW_LIMITED.unpack_from(info, BUSY_AT)
            busy, limited = busy + of_one[0], limited + of_one[1]
    return limited / busy if busy else 0.0


def zero_windows() -> int | None:
    """Return how often receivers on this machine have advertised a window of zero; None if unknown."""
    try:
        with open("/proc/net/netstat", encoding="ascii") as lines:
            names, counts = [line.split() for line in lines if line.startswith("TcpExt:")]
        return int(counts[names.index("TCPToZeroWindowAdv")])
    except (OSError, ValueError):
        return None


class Meter:
    """Counts deliveries within the measured time and keeps each one's latency."""

    def __init__(self, load: Load) -> None:
        # Two thousand requests have to get under way first.
        self.begins_at = time.perf_counter() + WARM_UP + load.in_flight / 2000
        self.ends_at = self.begins_at + load.seconds
        self.zero_windows_before = zero_windows()
        self.load = load
        self.latencies: list[float] = []
        self.failed = 0

    def ours_delivered(self, sent_at: float, metadata: object, error: object) -> None:
        """The same as `delivered`, with our producer's order of arguments."""
        self.delivered(sent_at, error, metadata)

    def delivered(self, sent_at: float, error: object, _: object) -> None:
        now = time.perf_counter()
        if error is not None:
            self.failed += now < self.ends_at  # afterwards it is given up
        elif self.begins_at <= now < self.ends_at:
            self.latencies.append(now - sent_at)

    def measured(self, in_flight_max: int, full: float | None = None) -> Measured:
        times = sorted(self.latencies)
        before, after = self.zero_windows_before, zero_windows()
        zeros = None if before is None or after is None else after - before
        if not times:
            return Measured(
                0.0, in_flight_max=in_flight_max, failed=self.failed, window_full=full, zero_windows=zeros
            )
        rate = len(times) * self.load.record_bytes / self.load.seconds / 1e6
        return Measured(
            rate,
            times[len(times) // 2],
            times[len(times) * 99 // 100],
            in_flight_max,
            self.failed,
            full,
            zeros,
        )


def drive_pykafka2(load: Load) -> Measured:
    """With our producer."""
    from pykafka2 import KafkaProducer
    from pykafka2.errors import KafkaTimeoutError

    # 200 in flight without idempotence is what the pipelining proposal measured; the warning is known.
    logging.getLogger("pykafka2").setLevel(logging.ERROR)
    producers = [
        KafkaProducer(
            bootstrap_servers=load.bootstrap_servers,
            acks="all" if load.acks == -1 else load.acks,
            max_in_flight_requests_per_connection=load.in_flight,
            enable_idempotence=load.idempotent,
            batch_size=BATCH_BYTES,
            linger_ms=0,
            buffer_memory=max(BUFFER_BYTES, load.in_flight * BATCH_BYTES * 5 // 4),
        )
        for _ in range(load.producers)
    ]
    value = bytes(load.record_bytes)
    for producer in producers:
        producer.send(load.topic, value).result(10)
    meter = Meter(load)
    depth = look = 0
    while (now := time.perf_counter()) < meter.ends_at:
        for producer in producers:
            producer.send(load.topic, value, on_delivery=partial(meter.ours_delivered, now))
        look += 1
        if look % 16 == 0:
            depth = max(depth, int(producers[0].metrics()["requests-in-flight"]))
    full = window_full()
    for producer in producers:
        with contextlib.suppress(KafkaTimeoutError):
            producer.close(timeout=0)
    return meter.measured(depth, full)


def drive_confluent(load: Load) -> Measured:
    """With confluent-kafka's producer."""
    import json

    from confluent_kafka import Producer

    depth = [0]

    def look(text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        depth[0] = max([depth[0], *(broker["waitresp_cnt"] for broker in brokers)])

    producers = [
        Producer(
            {
                "bootstrap.servers": load.bootstrap_servers,
                "acks": load.acks,
                "max.in.flight": load.in_flight,
                "enable.idempotence": load.idempotent,
                "batch.size": BATCH_BYTES,
                "linger.ms": 0,
                "queue.buffering.max.messages": max(BUFFER_BYTES // load.record_bytes, 2 * load.in_flight),
                "statistics.interval.ms": 50,
                "stats_cb": look,
            }
        )
        for _ in range(load.producers)
    ]
    value = bytes(load.record_bytes)
    for producer in producers:
        producer.produce(load.topic, value)
        producer.flush(10)
    meter = Meter(load)
    while (now := time.perf_counter()) < meter.ends_at:
        idle = True
        for producer in producers:
            try:
                producer.produce(load.topic, value, on_delivery=partial(meter.delivered, now))
                idle = False
            except BufferError:
                pass
            producer.poll(0)
        if idle:
            producers[0].poll(0.001)
    full = window_full()
    for producer in producers:
        producer.purge()
        producer.flush(10)
    return meter.measured(depth[0], full)


DRIVERS: dict[str, Callable[[Load], Measured]] = {
    "pykafka2": drive_pykafka2,
    "confluent-kafka": drive_confluent,
}


def one_at_a_time(driver: str, load: Load, records: int) -> list[float]:
    """Return the seconds from handing over 100 bytes to their acknowledgement, one by one, sorted."""
    times: list[float] = []
    send = _single_sender(driver, load)
    for number in range(records + 20):
        started = time.perf_counter()
        send()
        if number >= 20:
            times.append(time.perf_counter() - started)
    return sorted(times)


def queued(driver: str, load: Load, records: int) -> list[float]:
    """Return the seconds until each of `records` that are handed over at once is acknowledged, sorted."""
    times: list[float] = []
    small = attrs.evolve(load, record_bytes=150)
    value = bytes(small.record_bytes)
    # One record a request, however small.
    if driver == "pykafka2":
        from pykafka2 import KafkaProducer

        with KafkaProducer(
            bootstrap_servers=load.bootstrap_servers,
            acks="all" if load.acks == -1 else load.acks,
            max_in_flight_requests_per_connection=load.in_flight,
            enable_idempotence=False,
            batch_size=200,
            linger_ms=0,
        ) as ours:
            ours.send(load.topic, value).result(10)
            begin = time.perf_counter()
            for _ in range(records):
                ours.send(load.topic, value, on_delivery=lambda *_: times.append(time.perf_counter() - begin))
            ours.flush(30)
        return sorted(times)
    from confluent_kafka import Producer

    theirs = Producer(
        {
            "bootstrap.servers": load.bootstrap_servers,
            "acks": load.acks,
            "max.in.flight": load.in_flight,
            "batch.num.messages": 1,
            "linger.ms": 0,
        }
    )
    theirs.produce(load.topic, value)
    theirs.flush(10)
    begin = time.perf_counter()
    for _ in range(records):
        theirs.produce(load.topic, value, on_delivery=lambda *_: times.append(time.perf_counter() - begin))
    theirs.flush(30)
    return sorted(times)


def _single_sender(driver: str, load: Load) -> Callable[[], Any]:
    value = bytes(load.record_bytes)
    if driver == "pykafka2":
        from pykafka2 import KafkaProducer

        ours = KafkaProducer(
            bootstrap_servers=load.bootstrap_servers,
            acks="all" if load.acks == -1 else load.acks,
            enable_idempotence=False,
            linger_ms=0,
        )
        return lambda: ours.send(load.topic, value).result(10)
    from confluent_kafka import Producer

    theirs = Producer(
        {
            "bootstrap.servers": load.bootstrap_servers,
            "acks": load.acks,
            "linger.ms": 0,
            "socket.nagle.disable": True,
        }
    )

    def send() -> None:
        theirs.produce(load.topic, value)
        theirs.flush(10)

    return send
