"""The consumer on real sockets and threads, against the bundled cluster."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.consumer.fetch.requests import FetchRequests
from pykafka2.errors import (
    ConcurrentUse,
    ForkedClientError,
    NoBrokersAvailable,
    TlsError,
)
from pykafka2.network.tls import TlsContext
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.testing import KafkaCluster
from tests.ctrl_c import interrupted
from tests.forks import in_child
from tests.producer.certificates import certificates_in

pytestmark = pytest.mark.slow

ORDERS = {"orders": 6}


def produce(cluster: KafkaCluster, count: int, start: int = 0, **options: Any) -> list[bytes]:
    values = [b"%d" % number for number in range(start, start + count)]
    servers = cluster.bootstrap_servers
    with KafkaProducer({"bootstrap_servers": servers, **options}) as producer:
        for value in values:
            producer.send("orders", value, key=value)
    return values


def read(consumer: KafkaConsumer, count: int, seconds: float = 60) -> list[bytes]:
    """That many values, or as many as come in time."""
    found: list[bytes] = []
    deadline = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=200).values():
            found += [record.value for record in records]
    return found


@pytest.mark.kafka(topics=ORDERS)
def test_produced_records_are_read_once(kafka_cluster: KafkaCluster) -> None:
    values = produce(kafka_cluster, 5000)
    with KafkaConsumer(
        "orders", bootstrap_servers=kafka_cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        assert sorted(read(consumer, len(values))) == sorted(values)
        assert consumer.poll(timeout_ms=100) == {}
        ends = consumer.end_offsets(consumer.assignment())
        assert {partition: consumer.position(partition) for partition in ends} == ends
        assert sum(ends.values()) == len(values)


@pytest.mark.kafka(brokers=1, topics={"orders": 1})
def test_endless_iteration_waits_for_new_records(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers
    with KafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        late = threading.Timer(0.2, lambda: produce(kafka_cluster, 10))
        late.start()
        found = []
        for record in consumer:
            found.append(record.value)
            if len(found) == 10:
                break
        late.join()
        assert found == [b"%d" % number for number in range(10)]


@pytest.mark.gate
@pytest.mark.kafka(topics=ORDERS)
def test_reading_continues_when_brokers_crash(kafka_cluster: KafkaCluster) -> None:
    values = produce(kafka_cluster, 2000)
    with KafkaConsumer(
        "orders",
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        max_poll_records=100,
    ) as consumer:
        found = read(consumer, 500)
        kafka_cluster.controls.crash_broker(kafka_cluster.partition("orders", 0).leader)
        values += produce(kafka_cluster, 1000, start=2000)
        found += read(consumer, len(values) - len(found))
        assert sorted(found) == sorted(values)


@pytest.mark.gate
@pytest.mark.kafka(topics=ORDERS)
def test_lost_replies_and_refused_fetches_repeat_nothing(kafka_cluster: KafkaCluster) -> None:
    values = produce(kafka_cluster, 3000)
    kafka_cluster.controls.lose_reply(FetchRequest, times=3)
    kafka_cluster.controls.disconnect_next(FetchRequest, times=2)
    with KafkaConsumer(
        "orders",
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        request_timeout_ms=1000,
    ) as consumer:
        assert sorted(read(consumer, len(values))) == sorted(values)
        assert consumer.poll(timeout_ms=300) == {}


@pytest.mark.gate
@pytest.mark.kafka(topics=ORDERS)
def test_every_codec_is_read(kafka_cluster: KafkaCluster) -> None:
    values: list[bytes] = []
    for index, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
        values += produce(kafka_cluster, 200, start=index * 200, compression_type=codec)
    with KafkaConsumer(
        "orders", bootstrap_servers=kafka_cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        assert sorted(read(consumer, len(values))) == sorted(values)


@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_a_real_second_thread_is_refused_and_a_wakeup_is_not(kafka_cluster: KafkaCluster) -> None:
    with KafkaConsumer("orders", bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
        started = threading.Event()
        polls: list[float] = []

        def poll() -> None:
            started.set()
            before = time.monotonic()
            consumer.poll(timeout_ms=30_000)
            polls.append(time.monotonic() - before)

        thread = threading.Thread(target=poll)
        thread.start()
        started.wait()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                consumer.assignment()
            except ConcurrentUse:
                break
        else:
            pytest.fail("the second thread was let in")
        consumer.wakeup()
        thread.join(30)
        assert polls
        assert polls[0] < 10


@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_ctrl_c_ends_a_poll_at_once_and_the_consumer_continues(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers
    with KafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.poll(timeout_ms=200)
        with interrupted():
            consumer.poll(timeout_ms=30_000)
        values = produce(kafka_cluster, 50)
        assert sorted(read(consumer, 50)) == sorted(values)


@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_a_signal_handler_wakes_a_poll_up(kafka_cluster: KafkaCluster) -> None:
    with KafkaConsumer("orders", bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
        before_handler = signal.signal(signal.SIGUSR1, lambda number, frame: consumer.wakeup())
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        try:
            timer.start()
            began_at = time.monotonic()
            assert consumer.poll(timeout_ms=30_000) == {}
            assert time.monotonic() - began_at < 20
        finally:
            timer.join()
            signal.signal(signal.SIGUSR1, before_handler)


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_a_dropped_consumer_warns_and_ends_its_thread(kafka_cluster: KafkaCluster) -> None:
    before = set(threading.enumerate())
    consumer = KafkaConsumer("orders", bootstrap_servers=kafka_cluster.bootstrap_servers)
    consumer.poll(timeout_ms=300)
    gc.collect()
    with pytest.warns(ResourceWarning, match="KafkaConsumer"):
        del consumer
    deadline = time.monotonic() + 30
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    left = [t.name for t in set(threading.enumerate()) - before if not t.name.startswith("kafka-cluster")]
    assert left == []


@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_forked_child_gets_forked_client_error_and_the_parent_continues(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers
    with KafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.poll(timeout_ms=200)

        def is_refused() -> bool:
            with pytest.raises(ForkedClientError):
                consumer.poll()
            consumer.close()
            return True

        assert in_child(is_refused)
        values = produce(kafka_cluster, 20)
        assert sorted(read(consumer, 20)) == sorted(values)


# ---------------------------------------------------------------------------------------- bad input


def test_no_broker_listening_is_named_within_the_timeout() -> None:
    with KafkaConsumer(
        "orders", bootstrap_servers="127.0.0.1:1,localhost:2", default_api_timeout_ms=500
    ) as consumer:
        before = time.monotonic()
        with pytest.raises(NoBrokersAvailable, match=r"127\.0\.0\.1:1.*refused") as caught:
            consumer.topics()
        assert "localhost:2" in str(caught.value)
        assert consumer.poll(timeout_ms=1000) == {}
        with pytest.raises(NoBrokersAvailable):
            consumer.bootstrap()
        assert time.monotonic() - before < 30


@pytest.mark.gate
def test_a_name_that_does_not_resolve_is_named() -> None:
    with (
        KafkaConsumer(
            "orders", bootstrap_servers="no-such-host.invalid:9092", default_api_timeout_ms=1000
        ) as consumer,
        pytest.raises(NoBrokersAvailable, match=r"no-such-host\.invalid"),
    ):
        consumer.topics()


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics=ORDERS)
def test_tls_to_a_plaintext_port_is_named(kafka_cluster: KafkaCluster) -> None:
    with KafkaConsumer(
        "orders",
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        security_protocol="SSL",
        default_api_timeout_ms=500,
    ) as consumer:
        before = time.monotonic()
        for call in (consumer.topics, lambda: consumer.poll(timeout_ms=20_000)):
            with pytest.raises(TlsError, match=kafka_cluster.bootstrap_servers):
                call()
        assert time.monotonic() - before < 15


def test_plaintext_to_a_tls_port_is_named(tmp_path: Path) -> None:
    files = certificates_in(tmp_path)
    context = TlsContext(cert_file=files.chain, key_file=files.key, server_side=True, verify=False)
    with (
        KafkaCluster(brokers=1, topics=ORDERS, tls=context) as cluster,
        KafkaConsumer(
            "orders", bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=1000
        ) as consumer,
        pytest.raises((TlsError, NoBrokersAvailable), match="security_protocol"),
    ):
        consumer.topics()


@pytest.mark.gate
def test_a_cluster_with_tls_is_read(tmp_path: Path) -> None:
    files = certificates_in(tmp_path)
    context = TlsContext(cert_file=files.chain, key_file=files.key, server_side=True, verify=False)
    with KafkaCluster(brokers=3, topics=ORDERS, tls=context) as cluster:
        secure: dict[str, Any] = {"security_protocol": "SSL", "ssl_cafile": files.authority}
        values = produce(cluster, 500, **secure)
        config = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "auto_offset_reset": "earliest",
            **secure,
        }
        with KafkaConsumer(config, "orders") as consumer:
            assert sorted(read(consumer, len(values))) == sorted(values)
        with (
            KafkaConsumer(
                "orders", bootstrap_servers=cluster.bootstrap_servers, security_protocol="SSL"
            ) as wrong,
            pytest.raises(TlsError, match="certificate"),
        ):
            wrong.topics()


@pytest.mark.gate
@pytest.mark.kafka(topics=ORDERS)
def test_positions_by_number_time_and_end(kafka_cluster: KafkaCluster) -> None:
    produce(kafka_cluster, 100)
    first = TopicPartition("orders", 0)
    with KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
        consumer.assign([first])
        end = consumer.end_offsets([first])[first]
        assert consumer.beginning_offsets([first]) == {first: 0}
        assert consumer.position(first) == end, "latest is the default"
        consumer.seek(first, end - 1)
        assert [record.offset for record in consumer.poll(timeout_ms=5000)[first]] == [end - 1]
        found = consumer.offsets_for_times({first: 0})[first]
        assert found is not None
        assert found.offset == 0
        assert consumer.offsets_for_times({first: 2**50}) == {first: None}


@pytest.mark.kafka(topics={"one": 1})
def test_poll_has_its_records_before_the_next_fetch_is_written(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_awaited, has_polled, waited = threading.Event(), threading.Event(), []
    make = FetchRequests.make

    def slow_make(self: FetchRequests, *arguments: Any) -> Any:
        if is_awaited.is_set():
            waited.append(has_polled.wait(30))
        return make(self, *arguments)

    def read_one() -> None:
        # Not on the main thread, which looks by itself now and then, for the sake of signals.
        while not consumer.poll(timeout_ms=10_000):
            pass
        has_polled.set()

    monkeypatch.setattr(FetchRequests, "make", slow_make)
    servers = kafka_cluster.bootstrap_servers
    with (
        KafkaConsumer(bootstrap_servers=servers, fetch_max_wait_ms=10_000) as consumer,
        KafkaProducer(bootstrap_servers=servers) as producer,
    ):
        partition = TopicPartition("one", 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        reader = threading.Thread(target=read_one)
        reader.start()
        kafka_cluster.wait_until(lambda: consumer._core.fetcher.fetches == 1)
        is_awaited.set()
        producer.send("one", b"a").get(30)
        reader.join(60)
    assert waited[0], "poll() waited for the next fetch"
