"""Which implementation runs: the variable, the extension's absence, another version, a broken file."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import pykafka2
from pykafka2 import native
from pykafka2.testing import Simulation
from tests.native.both import extension


class Fitting(ModuleType):
    """An extension of this version, for `sys.modules`."""

    INTERFACE = native.INTERFACE

    def bind(self, kind: int, cls: type) -> None:
        pass


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Fitting:
    made = Fitting("pykafka2_c")
    monkeypatch.setitem(sys.modules, "pykafka2_c", made)
    return made


@pytest.mark.parametrize(("wanted", "is_used"), [("", True), ("c", True), ("python", False)])
def test_the_variable_picks_the_implementation(module: Fitting, wanted: str, is_used: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (native._load(wanted) is module) is is_used


@pytest.mark.parametrize("wanted", ["rust", "C", "Python", " c", "1"])
def test_unknown_implementation_is_an_error_that_names_the_two(module: Fitting, wanted: str) -> None:
    with pytest.raises(ImportError, match=f"PYKAFKA2_IMPLEMENTATION is '{wanted}'; set it to python or c"):
        native._load(wanted)


def test_another_python_does_not_load_the_extension(module: Fitting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "implementation", SimpleNamespace(**{**vars(sys.implementation), "name": "pypy"})
    )
    with pytest.raises(ImportError, match="it needs CPython"):
        native._load("c")
    with pytest.warns(RuntimeWarning, match="it needs CPython"):
        assert native._load("") is None


def test_without_the_extension_python_runs_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pykafka2_c", None)
    monkeypatch.delitem(sys.modules, "pykafka2_c")
    monkeypatch.setattr(sys, "path", [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert native._load("") is None
    with pytest.raises(
        ImportError, match=r"it is not installed\. Run: pip install --upgrade 'pykafka2\[c\]'"
    ):
        native._load("c")


def test_extension_of_another_version_is_ignored_with_one_warning(module: Fitting) -> None:
    module.INTERFACE = native.INTERFACE + 1
    with pytest.warns(RuntimeWarning, match="its version does not fit this pykafka2") as warned:
        assert native._load("") is None
    assert len(warned) == 1
    with pytest.raises(ImportError, match="its version does not fit"):
        native._load("c")


def test_extension_that_finds_no_slots_is_ignored_with_a_warning(
    module: Fitting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bind(self: Fitting, kind: int, cls: type) -> None:
        raise TypeError("no slot tail")

    monkeypatch.setattr(Fitting, "bind", bind)
    with pytest.warns(RuntimeWarning, match="no slot tail"):
        assert native._load("") is None


def test_broken_file_is_ignored_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pykafka2_c.abi3.so").write_bytes(b"not a library")
    monkeypatch.delitem(sys.modules, "pykafka2_c", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.warns(RuntimeWarning, match="pykafka2-c cannot be used"):
        assert native._load("") is None


def test_module_with_a_failing_import_is_ignored_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pykafka2_c.py").write_text("import a_module_that_is_missing")
    monkeypatch.delitem(sys.modules, "pykafka2_c", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.warns(RuntimeWarning, match="No module named 'a_module_that_is_missing'"):
        assert native._load("") is None


def output(wanted: str, code: str) -> str:
    environment = {**os.environ, native.VARIABLE: wanted}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SHOW = """
import pykafka2
from pykafka2.testing import Simulation
reports = []
with Simulation(seed=1) as simulation:
    cluster = simulation.cluster(brokers=1, topics={"orders": 3})
    producer = simulation.producer(cluster)
    sent = [producer.send("orders", b"v%d" % n, key=key) for n in range(50) for key in (None, b"k%d" % n)]
    sent += [
        producer.send("orders", b"to 2", key=b"k", partition=2),
        producer.send("orders", b"at 5", timestamp_ms=1_600_000_000_005),
        producer.send("orders", b"headed", headers=[("h", b"x")]),
        producer.send("orders", b"called back", on_delivery=lambda metadata, error: reports.append(metadata)),
        producer.send("orders", None, key=b"k1"),
    ]
    producer.flush(10)
    for options in ({"partitioner": "fnv1a_random"}, {"partitioner_ignore_keys": True}):
        other = simulation.producer(cluster, **options)
        sent += [other.send("orders", b"opens a batch", partition=n) for n in range(3)]
        sent += [other.send("orders", b"v", key=b"key-%d" % (n % 10)) for n in range(50)]
        other.flush(10)
    consumer = simulation.consumer(cluster, group_id=None, auto_offset_reset="earliest")
    consumer.assign([pykafka2.TopicPartition("orders", n) for n in range(3)])
    got = []
    while len(got) < 211:
        got += [r for records in consumer.poll(1000).values() for r in records]
    print(pykafka2.implementation, producer.health()["implementation"], consumer.health()["implementation"])
    print([d.result(0) for d in sent])
    print(got, reports)
    producer.close()
    try:
        producer.send("orders", b"late")
    except pykafka2.KafkaError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_program_has_the_same_results_with_either() -> None:
    extension()
    python, c = output("python", SHOW), output("c", SHOW)
    assert python.splitlines()[0] == "python python python"
    assert c.splitlines()[0] == "c c c"
    assert python.splitlines()[1:] == c.splitlines()[1:]
    assert "the producer is closed" in c
    assert "headed" in c


def test_clients_name_the_implementation_in_their_health() -> None:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1)
        for client in (simulation.producer(cluster), simulation.consumer(cluster)):
            assert client.health()["implementation"] == pykafka2.implementation


def test_the_extensions_version_is_that_of_the_package() -> None:
    root = Path(__file__).parents[2]
    version = pykafka2.__version__
    assert f'version = "{version}"' in (root / "native" / "pyproject.toml").read_text()
    assert f'c = ["pykafka2-c == {version}"]' in (root / "pyproject.toml").read_text()
