"""The gate's stages are the same in `.ci/run`, in GitHub's workflow and in CONTRIBUTING."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.gate import GATE_PROFILE

ROOT = Path(__file__).parents[2]


def gate(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", ".ci/run", *words], cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def stages() -> list[str]:
    return gate("--list").stdout.split()


def test_each_stage_is_a_job_of_the_workflow(stages: list[str]) -> None:
    text = (ROOT / ".github" / "workflows" / "gate.yml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"stage: \[(.*)\]", text)
    assert listed.split(", ") == stages
    assert "bash .ci/run ${{ matrix.stage }}" in text
    assert set(re.findall(r"\{ stage: (\w+),", text)) == {"tests"}


def test_each_stage_is_explained(stages: list[str]) -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## The gate")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == stages


def test_each_stage_can_be_run(stages: list[str]) -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"^        (\w+)\)", text, re.MULTILINE) == stages


def test_classifiers_name_the_pythons_that_the_gate_runs() -> None:
    """The oldest runs everything, the others a quick suite."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "Programming Language :: Python :: "
    claimed = [one.removeprefix(prefix) for one in project["classifiers"] if one.startswith(prefix)]
    (others,) = re.findall(r'OTHER_PYTHONS="([\d. ]+)"', (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    oldest = project["requires-python"].removeprefix(">=")
    assert claimed == ["3", oldest, *others.split()]
    workflow = (ROOT / ".github" / "workflows" / "gate.yml").read_text(encoding="utf-8")
    assert re.findall(r'(?<!stage: tests, )python: \["([\d.]+)"\]', workflow) == [oldest]
    assert re.findall(r"^            ([\d.]+)$", workflow, re.MULTILINE) == others.split()


def test_quick_suite_runs_in_the_stage_of_the_tests_and_each_python_has_a_job() -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (stage_of_tests,) = re.findall(r"^        tests\)\n(.*?);;", run, re.MULTILINE | re.DOTALL)
    assert "bash -euc other_pythons" in stage_of_tests
    (others,) = re.findall(r'OTHER_PYTHONS="([\d. ]+)"', run)
    workflow = (ROOT / ".github" / "workflows" / "gate.yml").read_text(encoding="utf-8")
    assert re.findall(r'\{ stage: tests, python: "([\d.]+)" \}', workflow) == others.split()


def test_the_gate_runs_the_main_suite_and_the_codec_tests_with_its_profile_of_hypothesis() -> None:
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert run.count(f"--randomly-seed=20261121 --hypothesis-profile={GATE_PROFILE} -n 3") == 2


def test_classifiers_name_no_system_or_build_that_the_gate_does_not_run() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    systems = [one for one in project["classifiers"] if one.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    assert not [one for one in project["classifiers"] if "Free Threading" in one]


def test_sessions_for_packages_pass_their_options_on() -> None:
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    for module in ("as_a_user", "wheels"):
        assert f'"python", "-m", "tests.packages.{module}", *session.posargs)' in noxfile
        assert (ROOT / "tests" / "packages" / f"{module}.py").exists()


def test_a_stage_that_is_not_there_is_refused_before_anything_runs(stages: list[str]) -> None:
    done = gate(stages[0], "test")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"unknown stage test; use: {' '.join(stages)}" in done.stderr
