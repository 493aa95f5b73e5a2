"""The programs of examples/ run and print what they promise; its tests are collected with ours."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import ConsumerRecord, KafkaProducer
from pykafka2.testing import QUICK, KafkaCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTED = {
    "fastapi_service.py": ["ready", "ada has ordered for 42", "stopped: 0 members, 3 orders committed"],
    "manage_topics.py": ["orders-1: leader 1", "orders: TopicAlreadyExists", "topics: orders, returns"],
    "produce_and_consume.py": ["sent 1000 orders", "read 1000 orders, 1000 different ones"],
}
"""Text that each program must print, among other things."""

RUN_WITH_SPARK = {"own_sink.py"}
"""Programs that tests/spark runs."""

NEEDED = {"fastapi_service.py": ["fastapi", "httpx2"]}
"""Packages of the extra `test` that a program imports."""


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_the_program_runs(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert [words for words in PRINTED[name] if words not in printed] == []


def test_every_program_is_run() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_")}
    assert programs == {*PRINTED, *RUN_WITH_SPARK}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example_docstring_has_its_subject_and_command(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert "Shows: " in docstring
    assert f"examples/{path.name}" in docstring


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("test_*.py")), ids=lambda path: path.name)
def test_the_tests_run_without_the_plugins_of_our_suite(path: Path) -> None:
    without = [word for name in ("xdist", "randomly", "xdist.looponfail") for word in ("-p", f"no:{name}")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *without,
        f"examples/{path.name}",
    ]
    done = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


@pytest.fixture
def service() -> dict[str, Any]:
    """The names of the FastAPI service."""
    for package in NEEDED["fastapi_service.py"]:
        pytest.importorskip(package)
    return runpy.run_path(str(EXAMPLES / "fastapi_service.py"))


BAD_RECORDS = [
    None,
    b"\xff",
    b"no JSON",
    b"[1]",
    b"null",
    b"{}",
    b'{"customer": "ada", "price": "much"}',
    b'{"customer": "ada", "price": Infinity}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("value", BAD_RECORDS)
def test_service_skips_bad_records(service: dict[str, Any], value: bytes | None) -> None:
    totals: Counter[str] = Counter()
    service["add"](ConsumerRecord("orders", 0, 5, 0, 0, None, value, ()), totals)
    assert not totals


@pytest.mark.gate
def test_service_starts_before_kafka_and_survives_bad_records(service: dict[str, Any]) -> None:
    from fastapi.testclient import TestClient

    with KafkaCluster(brokers=1, topics={"orders": 1}, config=QUICK) as cluster:
        cluster.controls.crash_broker(0)
        with TestClient(service["create_app"](cluster.bootstrap_servers)) as http:

            def order(price: int) -> int:
                status: int = http.post("/orders/ada", params={"price": price}).status_code
                return status

            assert http.get("/ready").status_code == 503
            began = time.monotonic()
            assert order(1) == 503
            assert time.monotonic() - began < 30
            cluster.controls.restart_broker(0)
            cluster.wait_until(lambda: http.get("/ready").status_code == 200, timeout=60)
            with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                for value in BAD_RECORDS:
                    producer.send("orders", value, key=b"ada")
            assert order(42) == 202
            cluster.wait_until(lambda: http.get("/totals/ada").json() == {"total": 42}, timeout=60)
            assert http.get("/live").json() == {"problems": []}
            cluster.controls.crash_broker(0)
            cluster.wait_until(lambda: http.get("/ready").status_code == 503, timeout=60)
            assert http.get("/live").status_code == 200
            began = time.monotonic()
        assert time.monotonic() - began < 30


@pytest.mark.slow
def test_service_is_not_live_after_its_consuming_task_has_failed(service: dict[str, Any]) -> None:
    from fastapi.testclient import TestClient

    def fail(record: object, totals: object) -> None:
        raise RuntimeError("a bug")

    service["count"].__globals__["add"] = fail
    with KafkaCluster(brokers=1, topics={"orders": 1}, config=QUICK) as cluster:

        def serve() -> None:
            with TestClient(service["create_app"](cluster.bootstrap_servers)) as http:
                http.post("/orders/ada", params={"price": 1})
                cluster.wait_until(lambda: http.get("/live").status_code == 503, timeout=60)
                assert "a bug" in http.get("/live").text
                assert http.get("/ready").status_code == 503

        with pytest.raises(RuntimeError, match="a bug"):
            serve()
        assert not cluster.group("totals").offsets, "the record that failed is read again"
