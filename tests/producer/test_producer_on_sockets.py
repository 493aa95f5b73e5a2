"""The producer on real sockets and threads: what virtual time cannot show."""

from __future__ import annotations

import gc
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import (
    ClientClosed,
    ClientFailed,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    TlsError,
    TlsNotSpoken,
)
from pykafka2.network.tls import TlsContext
from pykafka2.network.transport import Ready
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.testing import KafkaCluster
from tests.producer.certificates import Certificates, certificates_in

pytestmark = pytest.mark.slow


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return certificates_in(tmp_path)


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3, topics={"orders": 1, "spread": 6}) as cluster:
        yield cluster


def test_records_arrive_from_several_threads(cluster: KafkaCluster) -> None:
    deliveries: list[Delivery] = []

    def send_some(thread: int) -> None:
        key = b"%d" % thread
        deliveries.extend([producer.send("spread", b"%d" % number, key) for number in range(500)])

    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=1) as producer:
        threads = [threading.Thread(target=send_some, args=(thread,)) for thread in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(delivery.result(0).offset >= 0 for delivery in deliveries)
    by_key: dict[bytes | None, list[bytes | None]] = {}
    for partition in range(6):
        for record in cluster.log("spread", partition).records():
            by_key.setdefault(record.key, []).append(record.value)
    assert by_key == {b"%d" % thread: [b"%d" % number for number in range(500)] for thread in range(4)}


@pytest.mark.gate
def test_a_leader_that_crashes_costs_nothing(cluster: KafkaCluster) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0, batch_size=500) as producer:
        deliveries = [producer.send("orders", b"%d" % number) for number in range(1000)]
        cluster.controls.crash_broker(cluster.partition("orders", 0).leader)
        deliveries += [producer.send("orders", b"%d" % number) for number in range(1000, 2000)]
        producer.flush(timeout=30)
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(2000))
    assert cluster.log("orders", 0).values() == [b"%d" % number for number in range(2000)]


def test_send_without_a_listening_broker_raises_within_max_block_ms() -> None:
    started = time.monotonic()
    with (
        KafkaProducer(bootstrap_servers="127.0.0.1:1", max_block_ms=200) as producer,
        pytest.raises(NoBrokersAvailable, match=r"127\.0\.0\.1:1.*refused"),
    ):
        producer.send("orders", b"v")
    assert time.monotonic() - started < 20  # 60 s by default


@pytest.mark.gate
def test_tls_to_a_plaintext_port_raises_tls_not_spoken(cluster: KafkaCluster) -> None:
    with (
        KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, security_protocol="SSL", max_block_ms=10_000
        ) as producer,
        pytest.raises(TlsNotSpoken, match=r"without TLS on this port. .*security_protocol=PLAINTEXT"),
    ):
        producer.send("orders", b"v")


def test_tls_delivers_and_plaintext_to_a_tls_port_raises_tls_error(certificates: Certificates) -> None:
    tls = TlsContext(cert_file=certificates.chain, key_file=certificates.key, verify=False, server_side=True)
    with KafkaCluster(brokers=1, topics={"orders": 1}, tls=tls) as cluster:
        servers = cluster.bootstrap_servers
        with KafkaProducer(
            bootstrap_servers=servers, security_protocol="SSL", ssl_cafile=certificates.authority
        ) as producer:
            assert producer.send("orders", b"v").result(10).offset == 0
        with (
            KafkaProducer(bootstrap_servers=servers, max_block_ms=3000) as producer,
            pytest.raises(TlsError, match="security_protocol"),
        ):
            producer.send("orders", b"v")


@pytest.mark.gate
def test_a_callback_that_blocks_holds_close_up_no_longer_than_its_timeout(cluster: KafkaCluster) -> None:
    blocks, may_end = threading.Event(), threading.Event()

    def block(*_: object) -> None:
        blocks.set()
        may_end.wait(60)

    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, batch_size=0, linger_ms=0)
    producer.send("orders", b"first", on_delivery=block)
    assert blocks.wait(10)
    stuck = producer.send("orders", b"second")
    started = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match=r"2 records remain after 0\.3 s"):
        producer.close(timeout=0.3)
    assert time.monotonic() - started < 20  # the callback takes 60 s
    may_end.set()
    with pytest.raises(ClientClosed):
        stuck.result(10)


@pytest.mark.gate
def test_a_ctrl_c_at_any_moment_leaves_everything_in_order(cluster: KafkaCluster) -> None:
    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    chance = random.Random(7)
    deliveries: list[Delivery] = []
    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # Python swallows what is raised in a collector's callback, and Hypothesis has one
    try:
        with KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, batch_size=300, buffer_memory=200_000
        ) as producer:
            producer.partitions_for("orders")
            for _ in range(150):
                try:
                    # Inside: on a busy machine the alarm may go off before the next line.
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.005), 0.2)
                    while True:
                        deliveries.append(producer.send("orders", b"x" * chance.randrange(100)))
                except KeyboardInterrupt:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            producer.flush(timeout=30)
            assert producer.health()["buffer_available_bytes"] == 200_000
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    offsets = [delivery.result(0).offset for delivery in deliveries]
    assert offsets == sorted(set(offsets))
    # A record whose send was interrupted may have been appended, but nothing that was returned is missing.
    assert {record.offset for record in cluster.log("orders", 0).records()} >= set(offsets)


def end_the_io_thread(producer: KafkaProducer) -> None:
    """Fail like a bug in the loop."""
    driver = producer._core.client.driver

    def exit_thread(now: float) -> None:
        raise SystemExit("gone")

    driver.call_soon(exit_thread)
    assert driver.runtime.wait_until(lambda: driver.failure is not None, 5.0)


def break_the_selector(producer: KafkaProducer) -> None:
    """Fail like a file number that other code has closed."""
    driver = producer._core.client.driver

    def broken(timeout: float | None) -> list[Ready]:
        raise OSError("bad file descriptor")

    driver._selector.select = broken  # type: ignore[method-assign]
    driver.wake()
    assert driver.runtime.wait_until(lambda: driver.failure is not None, 5.0)


@pytest.mark.parametrize(
    ("end", "by"), [(end_the_io_thread, "SystemExit"), (break_the_selector, "bad file descriptor")]
)
def test_an_io_thread_that_ends_fails_everything_at_once_and_by_name(
    end: Callable[[KafkaProducer], None],
    by: str,
    cluster: KafkaCluster,
    caplog: pytest.LogCaptureFixture,
) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)
    errors = []
    waiting = producer.send("orders", b"1", on_delivery=lambda metadata, error: errors.append(error))
    started = time.monotonic()
    end(producer)
    for call in (
        lambda: waiting.result(5),
        lambda: producer.send("orders", b"2"),
        lambda: producer.send("another topic", b"2"),
        lambda: producer.partitions_for("unheard of"),
    ):
        with pytest.raises(ClientFailed, match=by):
            call()
    assert [type(error) for error in errors] == [ClientFailed]
    health = producer.health()
    assert (health["state"], health["records_waiting"]) == ("failed", 0)
    assert by in health["failure"]
    assert by in producer.explain()
    producer.close()
    assert time.monotonic() - started < 20  # linger_ms is 60 s


def test_io_thread_that_ends_wakes_waiting_calls(
    cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    producer.partitions_for("orders")
    cluster.controls.pause_broker(cluster.partition("orders", 0).leader)
    producer.send("orders", b"1")
    errors: list[BaseException] = []

    def flush() -> None:
        try:
            producer.flush(30)
        except KafkaError as error:
            errors.append(error)

    waiter = threading.Thread(target=flush)
    waiter.start()
    end_the_io_thread(producer)
    waiter.join(5.0)
    assert [type(error) for error in errors] == [ClientFailed]
    with suppress(ClientFailed):  # if flush was ended before it could name the record
        producer.close()
