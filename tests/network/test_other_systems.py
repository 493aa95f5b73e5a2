"""The clients and the bundled broker work without what Windows and macOS lack.

Nothing here runs on those systems. Each case removes functions of Linux from a fresh interpreter, before
pykafka2 is imported, and sends records over real sockets.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykafka2.network.tcp import JOINED_BYTES, first_bytes

REMOVE = """
import errno, os, select, selectors, signal, socket, sys

class Missing:
    def __get__(self, *_):
        raise AttributeError("not on this system")

def remove(module, *names):
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""
MACOS = (
    REMOVE
    + """
remove(os, "eventfd", "EFD_NONBLOCK", "EFD_CLOEXEC")
remove(select, "epoll")
remove(selectors, "EpollSelector")  # it keeps a reference to epoll
selectors.DefaultSelector = selectors.PollSelector
"""
)
WINDOWS = (
    MACOS
    + """
remove(os, "register_at_fork", "fork", "set_blocking", "getuid", "killpg", "sched_getaffinity")
remove(select, "poll", "devpoll", "kqueue")
remove(selectors, "PollSelector")
selectors.DefaultSelector = selectors.SelectSelector
remove(signal, "SIGHUP", "SIGKILL", "SIGUSR1", "SIGALRM", "pthread_sigmask", "setitimer")
remove(socket, "AF_UNIX", "SO_REUSEPORT", "TCP_KEEPIDLE")
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty"):
    sys.modules[name] = None
socket.socket.sendmsg = socket.socket.recvmsg = Missing()
errno.WSAEWOULDBLOCK = 10035
connect_ex = socket.socket.connect_ex
results = set()

def connect_as_on_windows(self, address):
    code = connect_ex(self, address)
    results.add(code)
    return errno.WSAEWOULDBLOCK if code == errno.EINPROGRESS else code

socket.socket.connect_ex = connect_as_on_windows

def loopback_pair():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        return ours, listening.accept()[0]

socket.socketpair = loopback_pair
"""
)
SEND_AND_READ = """
assert not any(name.startswith("pykafka2") for name in sys.modules)
from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.testing import QUICK, KafkaCluster

LARGE = bytes(range(256)) * 2000
with KafkaCluster(topics={"orders": 2}, config=QUICK) as cluster:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=2) as producer:
        for number in range(500):
            producer.send("orders", b"%d" % number, key=b"%d" % (number % 7))
        producer.send("orders", LARGE, partition=0).result(30)
        producer.send_many("orders", [b"row"] * 100).result(30)
    with KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="readers",
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    ) as consumer:
        values = []
        for record in consumer:
            values.append(record.value)
            if len(values) == 601:
                break
        consumer.commit()
assert sorted(values) == sorted([*(b"%d" % n for n in range(500)), LARGE, *[b"row"] * 100])
print("ok")
"""


def _run(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "removed",
    [MACOS, pytest.param(WINDOWS, marks=pytest.mark.gate)],  # the next test runs with WINDOWS, too
    ids=["macos", "windows"],
)
def test_clients_and_broker_work_without_functions_of_linux(removed: str) -> None:
    assert _run(removed + SEND_AND_READ) == "ok"


@pytest.mark.gate
@pytest.mark.slow
def test_connect_that_would_block_has_begun() -> None:
    assert _run(WINDOWS + SEND_AND_READ + "print(errno.EINPROGRESS in results)") == "ok\nTrue"


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("module", ["spark_connector.connections", "spark_connector.sink.clients"])
def test_spark_connector_is_imported_without_fork(module: str) -> None:
    assert _run(f"{REMOVE}\nremove(os, 'fork', 'register_at_fork')\nimport {module}\nprint('ok')") == "ok"


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ((), 0),
        ((5,), 1),
        ((5, 0, 7), 3),
        ((JOINED_BYTES, 5), 1),
        ((5, JOINED_BYTES, 7), 2),
    ],
)
def test_send_without_sendmsg_joins_small_buffers_only(sizes: tuple[int, ...], count: int) -> None:
    buffers = [bytes([65 + place]) * size for place, size in enumerate(sizes)]
    assert first_bytes(buffers) == b"".join(buffers[:count])


def test_send_without_sendmsg_does_not_copy_a_large_buffer() -> None:
    large = memoryview(bytes(JOINED_BYTES))
    assert first_bytes([large, b"rest"]) is large
