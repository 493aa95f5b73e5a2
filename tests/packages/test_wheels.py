"""Tests of the check for wheels on generated packages; `nox -s wheels` runs it on PyPI's packages."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.packages import wheels
from tests.packages.wheels import PLATFORMS, ROOT, Check, Outcome, Platform, project_requirements, table

pytest.importorskip("uv", reason="the check resolves with uv, which the extra `test` installs")
PLATFORM = {platform.name: platform for platform in PLATFORMS}
GLIBC, MUSL = PLATFORM["manylinux x86_64"], PLATFORM["musllinux x86_64"]


BACKEND = """\
from pathlib import Path

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    info = Path(folder, "compiled-1.0.dist-info")
    info.mkdir()
    (info / "METADATA").write_text(Path("PKG-INFO").read_text())
    (info / "WHEEL").write_text("Wheel-Version: 1.0")
    return info.name
"""


def metadata(name: str, requirements: list[str]) -> str:
    lines = ["Metadata-Version: 2.2", f"Name: {name}", "Version: 1.0"]
    return "\n".join(lines + [f"Requires-Dist: {one}" for one in requirements]) + "\n"


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Create an index with `pure` for all, and `compiled` with wheels for glibc with the GIL, as lz4."""
    add_wheel(tmp_path, "pure", "py3-none-any", ['compiled; python_version < "3.14"'])
    for python in ("cp311", "cp313", "cp314"):
        add_wheel(tmp_path, "compiled", f"{python}-{python}-manylinux_2_17_x86_64")
    # A backend in its own tree, so that pip could build it without any other package.
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    files = {"PKG-INFO": metadata("compiled", []), "pyproject.toml": project, "backend.py": BACKEND}
    with tarfile.open(tmp_path / "compiled-1.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"compiled-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return tmp_path


def add_wheel(folder: Path, name: str, tag: str, requirements: list[str] | None = None) -> None:
    info = f"{name}-1.0.dist-info"
    with ZipFile(folder / f"{name}-1.0-{tag}.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", metadata(name, requirements or []))
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")


def outcome(index: Path, requirement: str, python: str, platform: Platform) -> Outcome:
    return Check((requirement,), ("--no-index", "--find-links", str(index))).run(python, platform)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("requirement", "python", "platform", "expected"),
    [
        ("pure", "3.11", MUSL, Outcome("3.11", MUSL.name, PINS := ("compiled==1.0", "pure==1.0"), PINS[:1])),
        pytest.param(
            *("compiled", "3.11", GLIBC, Outcome("3.11", GLIBC.name, ("compiled==1.0",))),
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("pure", "3.14", MUSL, Outcome("3.14", MUSL.name, ("pure==1.0",))), marks=pytest.mark.long
        ),
        pytest.param(
            *("compiled", "3.14t", GLIBC, Outcome("3.14t", GLIBC.name, PINS[:1], PINS[:1])),
            marks=pytest.mark.long,
        ),
    ],
    ids=["no musl wheel of a dependency", "wheel", "marker of the target", "no wheel without the GIL"],
)
def test_a_package_that_must_be_built_on_a_target_is_found(
    index: Path, requirement: str, python: str, platform: Platform, expected: Outcome
) -> None:
    assert outcome(index, requirement, python, platform) == expected
    assert expected.is_good == (not expected.without_wheel)


@pytest.mark.slow
def test_a_requirement_that_cannot_be_resolved_is_bad(index: Path) -> None:
    found = outcome(index, "pure>=2", "3.11", GLIBC)
    assert not found.is_good
    assert "pure" in found.error


def test_the_command_fails_and_names_the_package_without_a_wheel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = Outcome("3.14t", GLIBC.name, ("lz4==4.4.5",), ("lz4==4.4.5",))
    monkeypatch.setattr(Check, "run", lambda self, python, platform: bad)
    monkeypatch.setattr(wheels, "EXTRAS", ())
    assert wheels.main(["--python", "3.14t", "--platform", "manylinux x86_64"]) == 1
    output, errors = capsys.readouterr()
    assert "| manylinux x86_64 | no wheel: lz4==4.4.5 |" in output
    assert "3.14t on manylinux x86_64: no wheel: lz4==4.4.5" in errors


def test_the_command_fails_if_an_extra_needs_a_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Check, "run", lambda self, python, platform: Outcome(python, platform.name))
    monkeypatch.setattr(
        Check, "has_only_wheels", lambda self, python, platform: Outcome(python, platform.name, error="none")
    )
    assert wheels.main(["--python", "3.14", "--platform", "Windows"]) == 1
    assert "3.14 on Windows x86_64: not resolved none" in capsys.readouterr().err
    assert wheels.main(["--python", "3.14t", "--platform", "Windows"]) == 0


def test_every_required_package_is_checked() -> None:
    names = {re.split(r"[>;]", one)[0] for one in project_requirements()}
    assert names == {"attrs", "backports.zstd", "cramjam", "crc32c", "python-snappy", "tqdm"}


@pytest.mark.gate
def test_every_python_and_platform_of_the_promise_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: set[tuple[str, str]] = set()

    def run(self: Check, python: str, platform: Platform) -> Outcome:
        assert self.requirements == project_requirements()
        checked.add((python, platform.name))
        return Outcome(python, platform.name)

    monkeypatch.setattr(Check, "run", run)
    monkeypatch.setattr(Check, "has_only_wheels", lambda self, *_: Outcome("3.11", "any"))
    assert wheels.main([]) == 0
    systems = ("manylinux x86_64", "manylinux aarch64", "musllinux x86_64", "musllinux aarch64")
    systems += ("macOS arm64", "macOS x86_64", "Windows x86_64")
    assert checked == {
        (python, system) for python in ("3.11", "3.12", "3.13", "3.14", "3.14t") for system in systems
    }


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda platform: platform.name)
def test_wheel_tags_are_those_of_the_platform(platform: Platform) -> None:
    system, machine = platform.name.split()
    starts = {"manylinux": "manylinux", "musllinux": "musllinux", "macOS": "macosx", "Windows": "win"}
    ends = {"Windows x86_64": "amd64"}
    for tag in platform.tags:
        assert tag.startswith(starts[system])
        assert tag.endswith(ends.get(platform.name, machine))
    words = {"manylinux": "manylinux", "musllinux": "linux-musl", "macOS": "darwin", "Windows": "windows"}
    assert words[system] in platform.uv


def test_the_table_has_a_row_for_each_platform_and_a_column_for_each_python() -> None:
    found = [Outcome("3.11", "a", ("x==1",)), Outcome("3.12", "a", ("x==1", "y==1")), Outcome("3.11", "b")]
    assert table(found).splitlines() == [
        "|  | 3.11 | 3.12 |",
        "| --- | --- | --- |",
        "| a | 1 wheels | 2 wheels |",
        "| b | 0 wheels |  |",
    ]


def test_extras_that_need_no_compiler_exist() -> None:
    for extra in wheels.EXTRAS:
        assert set(project_requirements()) < set(project_requirements(extra))


@pytest.mark.gate
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.xfail(
    any(one.startswith("lz4") for one in project_requirements()), reason="lz4 is required", strict=True
)
@pytest.mark.parametrize(("python", "platform"), [("3.11", MUSL), ("3.14t", GLIBC)], ids=["musl", "no GIL"])
def test_pypi_has_wheels_of_the_required_packages_where_they_are_rare(
    python: str, platform: Platform
) -> None:
    """Check the two targets of `nox -s wheels` for which the fewest packages have wheels."""
    found = Check(project_requirements()).run(python, platform)
    assert found.is_good, f"{found} {found.error}"


@pytest.mark.gate
@pytest.mark.slow
def test_codecs_run_with_the_oldest_versions_of_each_library(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--no-config",
        "--python",
        sys.executable,
    ]
    command += ["--only-binary", ":all:", "--resolution", "lowest-direct", "--target", str(tmp_path)]
    subprocess.run([*command, *project_requirements("fast")], check=True, timeout=120)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = kept | {"PYTHONPATH": str(tmp_path)}
    code = "import cramjam; print(cramjam.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith(str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "tests/compression"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
