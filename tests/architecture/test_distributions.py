"""Contents of the wheel and of the source distribution, as the build tool writes them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
NEEDED_TO_TEST_AND_DOCUMENT = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "mkdocs.yml",
    "docs/public-api.md",
    "examples/produce_and_consume.py",
    "tests/conftest.py",
    "tests/campaign/run.py",
    ".ci/run",
)


@pytest.fixture(scope="module")
def wheel_files() -> set[str]:
    return {str(one.distribution_path) for one in WheelBuilder(str(ROOT)).recurse_included_files()}


@pytest.fixture(scope="module")
def sdist_files() -> set[str]:
    return {str(one.relative_path) for one in SdistBuilder(str(ROOT)).recurse_included_files()}


def test_the_wheel_has_the_packages_and_nothing_else(wheel_files: set[str]) -> None:
    top = {path.partition("/")[0] for path in wheel_files}
    assert top == {"pykafka2", "spark_connector", "pyspark_pykafka2.py"}
    assert {"pykafka2/__init__.py", "pykafka2/py.typed", "pykafka2/testing/cluster.py"} <= wheel_files
    assert {"spark_connector/__init__.py", "spark_connector/py.typed"} <= wheel_files


def test_the_wheel_has_no_simulation_runs_of_our_own(wheel_files: set[str]) -> None:
    assert [path for path in wheel_files if "campaign" in path] == []


@pytest.mark.parametrize("path", NEEDED_TO_TEST_AND_DOCUMENT)
def test_the_source_distribution_has(path: str, sdist_files: set[str]) -> None:
    assert path in sdist_files


@pytest.mark.parametrize("extra", ["spark", "spark-local", "spark-test"])
def test_extras_for_spark_bring_all_that_columns_take(extra: str) -> None:
    """An environment for tests has numpy anyway, so none of them would miss it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = project["optional-dependencies"][extra]
    assert {"numpy", "pyarrow"} <= {one.partition(">")[0].partition("=")[0] for one in brought}
