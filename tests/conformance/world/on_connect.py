"""Kafka Connect's distributed worker with exactly-once sources."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ports import free_ports

from .side import Answers, Side

WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
TIMEOUT = 180.0

INTERNAL = {"offset": "connect-offsets", "config": "connect-configs", "status": "connect-status"}


def connect(side: Side) -> Answers:
    """A file's lines into a topic and out into another file, the worker restarted in between."""
    source, sink = side.folder / "source.txt", side.folder / "sink.txt"
    answers: Answers = {}
    (port,) = free_ports(1)
    settings = _worker_settings(side, port)
    make = ("--bootstrap-server", side.servers, "--create", "--topic", "lines-of-file", "--partitions", 2)
    side.tool("TopicCommand", *make, "--replication-factor", 3)
    _append(source, range(100))
    with worker(side, settings, port):
        connectors = {
            "from-file": {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
                "file": str(source),
                "topic": "lines-of-file",
                "exactly.once.support": "required",
                "transaction.boundary": "poll",
            },
            "to-file": {
                "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
                "file": str(sink),
                "topics": "lines-of-file",
                "consumer.override.isolation.level": "read_committed",
                "consumer.override.auto.offset.reset": "earliest",
            },
        }
        for name, config in connectors.items():
            status, reply = _rest(port, f"connectors/{name}/config", {"tasks.max": "1", **config})
            assert status in (200, 201), f"connector {name}: {status} {reply}\n{worker_log(side)}"
            answers[f"put {name}"] = status
        wait(lambda: _lines(sink) >= 100, "the first lines", side)
        answers["statuses"] = {name: _states(port, name) for name in connectors}
        (offsets,) = _rest(port, "connectors/from-file/offsets")[1]["offsets"]
        answers["offset of the source"] = offsets["offset"]
        _append(source, range(100, 200))
        wait(lambda: _lines(sink) >= 200, "more lines", side)
    _append(source, range(200, 300))
    with worker(side, settings, port):  # all it knows is in its three topics
        wait(lambda: _lines(sink) >= 300, "lines after the worker's restart", side)
        answers["statuses after the restart"] = {name: _states(port, name) for name in connectors}
        time.sleep(1)
        answers["each line once"] = sorted(sink.read_text().split()) == sorted(source.read_text().split())
        # Resetting offsets fences the source's tasks and writes in a transaction of the worker's.
        answers["stop"] = _rest(port, "connectors/from-file/stop", method="PUT")[0]
        wait(
            lambda: _rest(port, "connectors/from-file/status")[1]["connector"]["state"] == "STOPPED",
            "a stop",
            side,
        )
        wait(
            lambda: _rest(port, "connectors/from-file/offsets", method="DELETE")[0] == 200,
            "a reset of offsets",
            side,
        )
        answers["offsets after a reset"] = _rest(port, "connectors/from-file/offsets")[1]
        answers["delete"] = [_rest(port, f"connectors/{name}", method="DELETE")[0] for name in connectors]
        answers["left"] = _rest(port, "connectors")[1]
    for role, topic in INTERNAL.items():
        describe = ("--bootstrap-server", side.servers, "--describe", "--topic", topic)
        answers[f"{role} topic"] = side.plain(side.tool("TopicCommand", *describe)[1])[0]
    listed = side.tool("TransactionsCommand", "--bootstrap-server", side.servers, "list")[1].splitlines()[1:]
    answers["transactions"] = sorted({(row.split()[0], row.split()[-1]) for row in listed if row.strip()})
    return answers


def _worker_settings(side: Side, port: int) -> Path:
    settings = {
        "bootstrap.servers": side.servers,
        "group.id": "connect",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "exactly.once.source.support": "enabled",
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "only_scan",
        "offset.flush.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "offset.storage.partitions": "5",
        "status.storage.partitions": "2",
    }
    for role, topic in INTERNAL.items():
        settings[f"{role}.storage.topic"] = topic
        settings[f"{role}.storage.replication.factor"] = "3"
    path = side.folder / "worker.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


@contextmanager
def worker(side: Side, settings: Path, port: int) -> Iterator[None]:
    with side.process(WORKER, str(settings)) as process:

        def is_up() -> bool:
            assert process.poll() is None, f"the worker ended:\n{worker_log(side)}"
            return _rest(port, "connectors")[0] == 200

        wait(is_up, "the worker", side)
        yield
        process.terminate()
        process.wait(timeout=30)


def _rest(port: int, path: str, body: object = None, method: str = "") -> tuple[int, Any]:
    """Call the worker's REST API; status 0 if the connection is refused."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method or ("GET" if body is None else "PUT"),
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except OSError:
        return 0, None


def _states(port: int, name: str) -> list[str]:
    _, status = _rest(port, f"connectors/{name}/status")
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


def _append(path: Path, numbers: range) -> None:
    with path.open("a") as file:
        file.writelines(f"line-{number}\n" for number in numbers)


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait(come: Callable[[], bool], what: str, side: Side) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not come():
        assert time.monotonic() < deadline, f"not within time: {what}\n{worker_log(side)}"
        time.sleep(0.1)


def worker_log(side: Side) -> str:
    return "\n".join(path.read_text(errors="replace")[-4000:] for path in sorted(side.folder.glob("*.log")))
