"""Clients at a fork, at exit, when pickled, and when dropped."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import threading
import time
import traceback
import warnings
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, aio, lifecycle
from pykafka2.errors import ClientClosed, ForkedClientError, UnknownOption
from pykafka2.network.selector import SocketSelector
from pykafka2.testing import KafkaCluster
from tests.forks import in_child


class Client:
    """The least that lifecycle asks of a client."""

    def __init__(self, remaining: int = 0) -> None:
        self.forked: ForkedClientError | None = None
        self.exits: list[float] = []
        self.remaining = remaining

    def _on_fork_in_child(self, error: ForkedClientError) -> None:
        self.forked = error

    def _on_exit(self, timeout: float) -> int:
        self.exits.append(timeout)
        return self.remaining


@pytest.mark.parametrize("kind", [KafkaProducer, KafkaConsumer])
def test_each_call_of_a_closed_client_raises_an_error_of_its_own(kind: type[Any]) -> None:
    """One error for all calls would keep the traceback of each of them."""
    client = kind(bootstrap_servers="127.0.0.1:1")
    client.close()
    raised = []
    for _ in range(2):
        with pytest.raises(ClientClosed) as caught:
            client.partitions_for("t") if kind is KafkaProducer else client.assignment()
        raised.append(caught.value)
    assert raised[0] is not raised[1]
    assert str(raised[0]) == str(raised[1])


def test_a_client_that_is_dropped_unclosed_is_reported_and_released() -> None:
    released: list[str] = []
    clients = [Client()]
    lifecycle.track(clients[0], "a client", lambda: released.append("released"))
    with pytest.warns(ResourceWarning, match=r"a client was dropped without close\(\)"):
        clients.clear()
    assert released == ["released"]


def test_a_client_is_released_where_warnings_are_errors() -> None:
    released: list[str] = []
    raised: list[object] = []
    clients = [Client()]
    lifecycle.track(clients[0], "a client", lambda: released.append("released"))
    before, sys.unraisablehook = sys.unraisablehook, lambda unraisable: raised.append(unraisable.exc_type)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            clients.clear()
    finally:
        sys.unraisablehook = before
    assert raised == [ResourceWarning]
    assert released == ["released"]


def test_a_client_that_was_ended_is_not_reported() -> None:
    client = Client()
    tracked = lifecycle.track(client, "a client", lambda: pytest.fail("released"))
    tracked.end()
    tracked.end()
    del client
    gc.collect()


def test_forked_child_gets_an_error_and_the_parent_continues() -> None:
    client = Client()
    tracked = lifecycle.track(client, "a client", lambda: None)
    assert in_child(lambda: "was created before a fork" in str(client.forked))
    assert client.forked is None
    tracked.end()


def test_forked_child_does_not_wait_at_its_exit_for_producers_that_its_parent_dropped() -> None:
    class Dropped:
        def await_end(self) -> None:
            """Wait for an IO thread that the child does not have."""

    dropped = Dropped()
    lifecycle.await_at_exit(dropped)
    try:
        assert in_child(lambda: not lifecycle._endings)
        assert dropped in lifecycle._endings
    finally:
        lifecycle.stop_awaiting(dropped)


def test_dropped_client_that_fails_at_exit_does_not_end_the_wait_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    awaited: list[object] = []

    class Dropped:
        def await_end(self) -> None:
            awaited.append(self)
            raise OSError("gone")

    dropped = {Dropped(), Dropped()}
    monkeypatch.setattr(lifecycle, "_tracked", set())
    monkeypatch.setattr(lifecycle, "_endings", {*dropped})
    lifecycle._at_exit()
    assert {*awaited} == dropped


def test_loading_lock_is_free_for_every_thread_after_a_fork() -> None:
    acquired: list[bool] = []

    def acquire() -> None:
        if lifecycle.loading.acquire(timeout=10):
            lifecycle.loading.release()
            acquired.append(True)

    def is_free() -> bool:
        acquired.clear()
        thread = threading.Thread(target=acquire)
        thread.start()
        thread.join()
        return acquired == [True]

    assert in_child(is_free)
    assert is_free()


def test_thread_that_loads_modules_can_load_others_and_fork() -> None:
    """A module that it imports can create a client or start a process."""
    with lifecycle.loading:
        assert lifecycle.loading.acquire(timeout=10)
        lifecycle.loading.release()
        assert lifecycle.load_for_io_thread(lambda: "loaded") == "loaded"
        assert in_child(lambda: True)


def test_clients_are_flushed_at_exit_and_undelivered_records_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Clients of other tests may still be alive in a cycle that is not collected yet.
    monkeypatch.setattr(lifecycle, "_tracked", set())
    clients = [Client(), Client(remaining=7)]
    tracked = [lifecycle.track(client, "a client", lambda: None) for client in clients]
    lifecycle._at_exit()
    assert [client.exits for client in clients] == [[lifecycle.EXIT_FLUSH_TIMEOUT / 2]] * 2
    assert "7 records were not delivered" in caplog.text
    for one in tracked:
        one.end()


def has_ended(driver: Any) -> bool:
    """Whether its thread comes to its end, by itself and soon."""
    driver._task._thread.join(15)
    return not driver._task.is_alive


class TestAProducer:
    @pytest.mark.gate
    def test_producer_call_in_a_forked_child_raises_and_the_parent_loses_no_record(self) -> None:
        with (
            KafkaCluster(brokers=1, topics={"orders": 1}) as cluster,
            KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=100) as producer,
        ):
            pending = producer.send("orders", b"before")

            def is_refused() -> bool:
                for call in (
                    lambda: producer.send("orders", b"child"),
                    lambda: producer.flush(),
                    lambda: pending.result(10),
                ):
                    try:
                        call()
                    except ForkedClientError:
                        continue
                    return False
                assert producer.health()["state"] == "failed"
                producer.close()
                return (
                    producer.health()["state"] == "failed" and "created before a fork" in producer.explain()
                )

            assert in_child(is_refused)
            assert producer.health()["state"] == "open"
            assert pending.result(10).offset == 0
            assert producer.send("orders", b"after").result(10).offset == 1

    def test_pickling_a_client_raises_with_the_alternative(self) -> None:
        producer = KafkaProducer()
        with pytest.raises(TypeError, match=r"create a KafkaProducer\(\*\*options\) there"):
            pickle.dumps(producer)
        producer.close()

    def test_dropping_it_ends_its_thread(self) -> None:
        producers = [KafkaProducer(client_id="dropped")]

        def is_alive() -> bool:
            return any("dropped" in thread.name for thread in threading.enumerate())

        assert is_alive()
        with pytest.warns(ResourceWarning, match=r"a KafkaProducer .* was dropped"):
            producers.clear()
        deadline = time.monotonic() + 30
        while is_alive() and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not is_alive()

    def test_dropped_producer_sends_its_queued_records(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pykafka2.producer.shutdown.DROP_TIMEOUT", 10)  # for machines with other work
        with KafkaCluster(brokers=1, topics={"orders": 1}) as cluster:
            producers = [KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)]
            pending = producers[0].send("orders", b"v")
            with pytest.warns(ResourceWarning, match=r"a KafkaProducer .* was dropped"):
                producers.clear()
            assert pending.result(0).offset == 0
            assert cluster.log("orders", 0).values() == [b"v"]

    @pytest.mark.parametrize("requested", [SystemExit, GeneratorExit])
    def test_dropping_it_ends_its_thread_though_a_callback_asks_for_the_end(
        self, requested: type[BaseException], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No other call ends it: the connections and the thread lived as long as the process."""
        unraisable: list[Any] = []
        monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
        monkeypatch.setattr("pykafka2.producer.shutdown.DROP_TIMEOUT", 10)

        def on_delivery(metadata: object, error: object) -> None:
            raise requested

        with KafkaCluster(brokers=1, topics={"orders": 1, "spread": 1}) as cluster:
            cluster.controls.rule(api="Produce", topic="spread", nth=1, then="error:NOT_ENOUGH_REPLICAS")
            producers = [KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)]
            driver = producers[0]._core.driver
            producers[0].partitions_for("spread")
            producers[0].send("orders", b"v", on_delivery=on_delivery)
            last = producers[0].send("spread", b"last")
            with pytest.warns(ResourceWarning, match=r"a KafkaProducer .* was dropped"):
                producers.clear()
            assert driver.is_closed
            assert has_ended(driver)
            assert last.done()
            if requested is SystemExit:
                assert last.result(0).offset == 0, "the rest is sent"
                assert unraisable == []

    def test_dropped_producer_fails_pending_deliveries(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pykafka2.producer.shutdown.DROP_TIMEOUT", 0.05)
        with KafkaCluster(brokers=1, topics={"orders": 1}) as cluster:
            cluster.controls.hold("Produce")
            producers = [KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)]
            pending = producers[0].send("orders", b"v")
            with pytest.warns(ResourceWarning, match=r"a KafkaProducer .* was dropped"):
                producers.clear()
            with pytest.raises(ClientClosed, match="dropped without close"):
                pending.result(10)
            # The log line follows once all of them have failed, on another thread.
            words = "dropped without close(): 1 record was not delivered"
            cluster.wait_until(lambda: words in caplog.text)
            (record,) = (one for one in caplog.records if words in one.getMessage())
            assert record.levelname == "ERROR"

    def test_dropping_it_on_its_own_thread_waits_for_no_lock_that_is_held_there(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with KafkaCluster(brokers=1, topics={"orders": 1}) as cluster:
            producers = [KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)]
            pending = producers[0].send("orders", b"v")
            driver, queue = producers[0]._core.driver, producers[0]._core.accumulator.queue("orders", 0)

            def collect(now: float) -> None:
                with queue.lock:  # as the garbage collector may, wherever it strikes
                    producers.clear()

            monkeypatch.setattr("pykafka2.producer.shutdown.DROP_TIMEOUT", 10)  # for machines with other work
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                driver.call_soon(collect)
                assert pending.result(15).offset == 0, "it is sent all the same"
            assert has_ended(driver)

    def test_producer_dropped_in_a_broker_thread_does_not_block_the_broker(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It waited there for the broker, and its record, which was written after that, was reported as
        failed.
        """
        monkeypatch.setattr("pykafka2.producer.shutdown.DROP_TIMEOUT", 10)
        select = SocketSelector.select
        took: list[float] = []
        with KafkaCluster(brokers=1, topics={"orders": 1}) as cluster:
            producers = [KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)]
            pending = producers[0].send("orders", b"v")
            driver = producers[0]._core.driver

            def collect_and_select(selector: SocketSelector, timeout: float | None) -> Any:
                if producers and threading.current_thread().name == "kafka-cluster":
                    before = time.monotonic()
                    producers.clear()
                    took.append(time.monotonic() - before)
                return select(selector, timeout)

            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                monkeypatch.setattr(SocketSelector, "select", collect_and_select)
                with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as other:
                    other.partitions_for("orders")
                assert pending.result(15).offset == 0
            assert took[0] < 5
            assert has_ended(driver)

    @pytest.mark.gate
    @pytest.mark.slow
    def test_producer_sends_queued_records_at_exit(self) -> None:
        with KafkaCluster(brokers=1, topics={"orders": 1}) as cluster:
            program = (
                "from pykafka2 import KafkaProducer\n"
                f"servers = {cluster.bootstrap_servers!r}\n"
                "producer = KafkaProducer(bootstrap_servers=servers, linger_ms=60000)\n"
                "producer.send('orders', b'left')\n"
            )
            done = subprocess.run([sys.executable, "-c", program], timeout=30, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")
            assert cluster.log("orders", 0).values() == [b"left"]

    @pytest.mark.gate
    @pytest.mark.slow
    def test_producer_counts_undelivered_records_at_exit(self) -> None:
        program = (
            "import pykafka2.lifecycle as lifecycle\n"
            "lifecycle.EXIT_FLUSH_TIMEOUT = 0.5\n"
            "from pykafka2 import KafkaProducer\n"
            "from pykafka2.testing import KafkaCluster\n"
            "cluster = KafkaCluster(brokers=1, topics={'orders': 1}).start()\n"
            "producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60000)\n"
            "producer.partitions_for('orders')\n"
            "cluster.close()\n"
            "producer.send('orders', b'1')\n"
            "producer.send('orders', b'2')\n"
        )
        done = subprocess.run([sys.executable, "-c", program], timeout=30, capture_output=True, text=True)
        assert done.returncode == 0
        assert (
            "a KafkaProducer (pykafka2-producer): 2 records were not delivered when the interpreter ended"
            in done.stderr
        )


@pytest.mark.slow
class TestAdminClient:
    def test_admin_call_in_a_forked_child_raises_and_the_parent_continues(self) -> None:
        with (
            KafkaCluster(brokers=1, topics={"orders": 1}) as cluster,
            KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        ):
            assert admin.list_topics() == ["orders"]

            def is_refused() -> bool:
                try:
                    admin.list_topics()
                except ForkedClientError:
                    admin.close()
                    return True
                return False

            assert in_child(is_refused)
            assert admin.list_topics() == ["orders"]

    def test_admin_client_cannot_be_pickled_and_ends_its_thread_when_dropped(self) -> None:
        before = set(threading.enumerate())
        admins = [KafkaAdminClient(bootstrap_servers="localhost:1")]
        with pytest.raises(TypeError, match="KafkaAdminClient"):
            pickle.dumps(admins[0])
        [thread] = set(threading.enumerate()) - before
        with pytest.warns(ResourceWarning, match="KafkaAdminClient"):
            admins.clear()
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer, KafkaAdminClient])
def test_a_client_shows_its_name_and_servers(client: type[Any]) -> None:
    with client(bootstrap_servers=["one:9092", "two:9093"], client_id="shop") as made:
        assert repr(made) == f"<{client.__name__} shop to one:9092,two:9093>"


ALL_CLIENTS = [
    KafkaProducer,
    KafkaConsumer,
    KafkaAdminClient,
    aio.KafkaProducer,
    aio.KafkaConsumer,
    aio.KafkaAdminClient,
]


@pytest.mark.parametrize("client", ALL_CLIENTS)
def test_client_after_a_failed_creation_has_a_repr(client: type[Any]) -> None:
    """Tools that show local variables call it."""
    half_built = client.__new__(client)
    package = "aio." if client.__module__.startswith("pykafka2.aio") else ""
    assert repr(half_built) == f"<{package}{client.__name__}, not created>"


@pytest.mark.parametrize("client", ALL_CLIENTS)
def test_traceback_with_locals_of_a_failed_creation_can_be_shown(client: type[Any]) -> None:
    with pytest.raises(UnknownOption) as caught:
        client(no_such_option=1)
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "no_such_option" in shown


WHAT_IS_LOADED = """
import sys
from pykafka2 import KafkaProducer
with KafkaProducer(bootstrap_servers="127.0.0.1:1", compression_type="zstd"):
    of_messages = {"crc32c._crc32c", "pykafka2.protocol.encoding", "pykafka2.protocol.decoding"}
    needed = {"zstandard", "encodings.idna", *of_messages}
    missing = needed - set(sys.modules)
sys.exit(f"not loaded: {missing}" if missing else 0)
"""

FORK_WHILE_LOADING = """
import os, signal, sys, threading, time
from importlib.machinery import ExtensionFileLoader
import pykafka2
from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.errors import KafkaError

is_loading = threading.Event()

class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == MODULE and not is_loading.is_set():
            is_loading.set()
            time.sleep(0.5)

sys.meta_path.insert(0, Slow)
load = ExtensionFileLoader.exec_module

def load_slowly(self, module):
    Slow.find_spec(module.__name__)  # crc32c's extension is loaded without the import system
    load(self, module)

ExtensionFileLoader.exec_module = load_slowly
NOWHERE = {"bootstrap_servers": "127.0.0.1:1"}

def producer():
    KafkaProducer(**NOWHERE).close()

def transactional():
    KafkaProducer(**NOWHERE, transactional_id="shop").close()

def member():
    KafkaConsumer(**NOWHERE, group_id="shop").close()

def admin():
    pykafka2.KafkaAdminClient(**NOWHERE).close()  # a name of the package that is not imported yet

def bulk():
    with KafkaProducer(**NOWHERE, max_block_ms=0) as producer:
        try:
            producer.send_many("orders", [b"value"])
        except KafkaError:
            pass

def ranged():
    with KafkaConsumer(**NOWHERE) as consumer:
        consumer.read_range(TopicPartition("orders", 0), 0, 1)

def codec_library():
    from pykafka2.compression import codec
    assert codec("snappy").decompress(b"\\1\\0a") == b"a"

def health():
    with KafkaConsumer(**NOWHERE) as consumer:
        consumer.health()

thread = threading.Thread(target=USE)
thread.start()
is_loading.wait()
child = os.fork()
if child == 0:
    signal.alarm(10)
    USE()
    os._exit(0)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

WHERE_IMPORTS_RUN = """
import sys, threading

class Recording:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            elsewhere.append(name)

elsewhere = []
sys.meta_path.insert(0, Recording)
from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.testing import KafkaCluster

with KafkaCluster(topics={"orders": 1}, process=True) as cluster:
    servers = cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send("orders", b"value", key=b"key").result(30)
        producer.send_many("orders", [b"value"] * 10).result(30)
    with KafkaProducer(bootstrap_servers=servers, transactional_id="shop") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"value")
    for protocol in ("classic", "consumer"):
        with KafkaConsumer(
            "orders",
            bootstrap_servers=servers,
            group_id=protocol,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            for _, record in zip(range(12), consumer):
                pass
            consumer.commit()
            consumer.health(), consumer.explain(), consumer.metrics()
            list(consumer.read_range(TopicPartition("orders", 0), 0, 5))
sys.exit(f"imported on other threads: {elsewhere}" if elsewhere else 0)
"""


def _script(module: str, use: str) -> str:
    return FORK_WHILE_LOADING.replace("MODULE", repr(module)).replace("USE", use)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        WHAT_IS_LOADED,
        _script("crc32c._crc32c", "producer"),
        _script("pykafka2.producer.sending.sender", "producer"),
        _script("pykafka2.producer.transactions.manager", "transactional"),
        _script("pykafka2.producer.bulk.sender", "bulk"),
        _script("pykafka2.consumer.fetch.fetcher", "member"),
        _script("pykafka2.consumer.group.group", "member"),
        _script("pykafka2.consumer.fetch.range_reader", "ranged"),
        _script("pykafka2.compression.snappy", "codec_library"),
        _script("snappy", "codec_library"),
        _script("snappy", "health"),
        _script("pykafka2.compression.libraries", "health"),
        _script("pykafka2.admin.admin", "admin"),
    ],
    ids=[
        "loaded",
        "crc32c",
        "producer",
        "transactions",
        "send_many",
        "consumer",
        "group",
        "read_range",
        "codec",
        "codec library",
        "health's codec library",
        "health",
        "public name",
    ],
)
def test_a_fork_finds_no_module_half_imported(script: str) -> None:
    _run_alone(script)


@pytest.mark.gate
@pytest.mark.slow
def test_no_module_is_imported_on_the_io_thread() -> None:
    _run_alone(WHERE_IMPORTS_RUN)


def _run_alone(script: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
