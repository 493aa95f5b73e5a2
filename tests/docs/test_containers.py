"""The container files of examples/containers: their paths exist, and their commands run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy, copytree
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / "examples" / "containers"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
TEXT = (FOLDER / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
STEPS = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and not line.startswith("#")]
PORT = re.compile(r"(?<=[:=])\d{4,}$|^\d{4,}$")
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def listed(step: str) -> list[str]:
    """Return the words of a step in JSON, such as CMD ["pykafka2", "broker"]."""
    (rest,) = (rest for name, rest in STEPS if name == step)
    words: list[str] = json.loads(rest[rest.index("[") :])
    return words


@contextmanager
def running(options: list[str]) -> Iterator[dict[str, str]]:
    """Run the image's command with free ports, and return what it prints by name."""
    command = [
        *listed("ENTRYPOINT"),
        *(PORT.sub("0", one).replace("//kafka:", "//localhost:") for one in options),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": PATH})
    try:
        assert process.stdout is not None
        printed: dict[str, str] = {}
        while "admin" not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed |= [line.strip().split("=", 1)]  # type: ignore[operator]
        printed["admin"], _, printed["token"] = printed["admin"].partition(" token=")
        yield printed
    finally:
        process.kill()
        process.communicate()


def check_health(admin: str) -> None:
    """Run the image's health check against an admin port."""
    words = [one.replace("http://127.0.0.1:9990", admin) for one in listed("HEALTHCHECK")]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PATH": PATH}, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_images_and_paths_of_the_container_files_exist() -> None:
    (image,) = (rest for name, rest in STEPS if name == "FROM")
    assert re.fullmatch(r"python:3\.\d+-slim", image)
    for service in SERVICES.values():
        context = (FOLDER / service["build"]["context"]).resolve()
        assert (context / "pyproject.toml").is_file()
        assert (context / service["build"]["dockerfile"]).resolve() == FOLDER / "Containerfile"
        assert set(service.get("depends_on", ())) <= set(SERVICES)


@pytest.mark.gate
@pytest.mark.slow
def test_files_that_the_container_file_copies_build_the_wheel(tmp_path: Path) -> None:
    root = FOLDER.parents[1]
    for name, rest in STEPS:
        if name == "COPY":
            *sources, target = rest.split()
            for source in map(root.joinpath, sources):
                if source.is_dir():
                    copytree(source, tmp_path / target)
                else:
                    copy(source, tmp_path / target)
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "dist").glob("pykafka2-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert "pykafka2/cli/broker/broker.py" in archive.namelist()


def test_published_ports_are_those_of_the_commands() -> None:
    published = {one.rpartition(":")[2] for one in SERVICES["kafka"]["ports"]}
    opened = {
        one.rpartition(":")[2].rpartition("=")[2] for one in SERVICES["kafka"]["command"] if PORT.search(one)
    }
    assert published == {"19092", "9990"} < opened == {"9092", "19092", "9990"}
    (exposed,) = (rest.split() for name, rest in STEPS if name == "EXPOSE")
    assert set(exposed) == {one for one in listed("CMD") if PORT.search(one)}


@pytest.mark.gate
@pytest.mark.slow
def test_command_of_the_container_file_starts_a_healthy_broker() -> None:
    with running(listed("CMD")) as printed:
        check_health(printed["admin"])
        with pytest.raises(AssertionError):
            check_health("http://127.0.0.1:1")


@pytest.mark.gate
@pytest.mark.slow
def test_compose_example_serves_its_service_and_resets() -> None:
    with running(SERVICES["kafka"]["command"]) as printed:
        check_health(printed["admin"])
        assert printed["token"] == "test"
        for listener in ("INSIDE", "OUTSIDE"):
            address = printed[f"listener.{listener}"]
            words = [one.replace("kafka:9092", address) for one in SERVICES["service"]["entrypoint"]]
            done = subprocess.run(
                words, capture_output=True, text=True, env={**os.environ, "PATH": PATH}, timeout=60
            )
            assert "orders" in done.stdout, done.stderr
        reset = urllib.request.Request(
            printed["admin"] + "/reset", b"{}", {"Authorization": "Bearer test"}, method="POST"
        )
        with urllib.request.urlopen(reset, timeout=60) as response:
            assert json.load(response) == {"result": None}


@pytest.mark.slow
def test_fixture_of_the_guide_starts_the_bundled_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    guide = (FOLDER.parents[1] / "docs" / "guides" / "containers.md").read_text(encoding="utf-8")
    _, decorator, rest = guide.rpartition('@pytest.fixture(scope="session")\n')
    assert decorator
    imports = guide.rpartition("```python\n")[2].partition(decorator)[0]
    namespace: dict[str, Any] = {}
    exec(imports + rest.partition("```")[0], namespace)
    servers = namespace["servers"]()
    namespace["test_orders_are_stored"](next(servers))
    servers.close()
