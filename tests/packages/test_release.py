"""Tests of the release workflow: its checks before publishing, and its permissions."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.packages.as_a_user import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    loaded: dict[Any, Any] = yaml.safe_load(text)
    return loaded


def steps(job: dict[str, Any]) -> str:
    return "\n".join(step.get("run") or step["uses"] for step in job["steps"])


def test_only_a_version_tag_starts_a_release(workflow: dict[Any, Any]) -> None:
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads the key `on` as true


def test_nothing_is_published_before_every_check_has_passed(workflow: dict[Any, Any]) -> None:
    jobs = workflow["jobs"]
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert 'nox -s "packages-${{ matrix.python }}" -- --dist dist' in steps(jobs["check"])
    assert "nox -s wheels" in steps(jobs["wheels"])
    assert "hatchling version" in steps(jobs["build"])


def test_built_files_are_checked_before_they_are_published(workflow: dict[Any, Any]) -> None:
    jobs = workflow["jobs"]
    built = steps(jobs["build"])
    assert 'test "$GITHUB_REF_NAME" = "v$(python -m hatchling version)"' in built
    assert "grep -E" in built
    assert "CHANGELOG.md" in built
    assert "python -m hatchling build\n" in built  # both the wheel and the source distribution
    assert "twine check --strict dist/*" in built
    assert jobs["check"]["needs"] == "build"
    moved = [
        step["with"]["name"] for job in jobs.values() for step in job["steps"] if "artifact" in str(step)
    ]
    assert moved == ["distributions"] * 3


def test_no_job_keeps_credentials_in_its_clone(workflow: dict[Any, Any]) -> None:
    cloned = [
        step
        for job in workflow["jobs"].values()
        for step in job["steps"]
        if "actions/checkout" in step.get("uses", "")
    ]
    assert cloned
    assert all(step["with"]["persist-credentials"] is False for step in cloned)


def test_the_packages_are_checked_on_each_python_of_the_classifiers(workflow: dict[Any, Any]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert workflow["jobs"]["check"]["strategy"]["matrix"]["python"] == claimed
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    assert re.findall(r'^PYTHONS = \["(.*)"\]$', noxfile, re.MULTILINE) == ['", "'.join(claimed)]


def test_only_the_publishing_job_can_sign_in_and_keeps_no_secret(workflow: dict[Any, Any]) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    jobs = workflow["jobs"]
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]
    publish = jobs["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    *_, upload = publish["steps"]
    assert upload == {"uses": "pypa/gh-action-pypi-publish@release/v1", "with": {"attestations": True}}
    assert "secrets." not in str(workflow)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_of_a_workflow_is_pinned_and_each_job_has_a_limit(path: Any) -> None:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    for job in jobs.values():
        assert job["timeout-minutes"] <= 20
        for step in job["steps"]:
            assert "run" in step or re.search(r"@(v\d+|release/v1)$", step["uses"])
