"""Contents of the wheel and of the source distribution, as the build tool writes them."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from email.message import Message
from email.parser import Parser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import pykafka2

ROOT = Path(__file__).parents[2]
DIST_INFO = f"pykafka2-{pykafka2.__version__}.dist-info"
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
    "hatch_build.py",
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    [path] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("wheel")))
    return ZipFile(path)


@pytest.fixture(scope="module")
def metadata(wheel: ZipFile) -> Message:
    return Parser().parsestr(wheel.read(f"{DIST_INFO}/METADATA").decode())


def test_the_built_wheel_has_type_marks_command_plugin_license_and_sbom(wheel: ZipFile) -> None:
    names = set(wheel.namelist())
    assert {"pykafka2/py.typed", "pykafka2/__main__.py", "spark_connector/py.typed"} <= names
    assert {name for name in names if name.startswith(f"{DIST_INFO}/")} == {
        f"{DIST_INFO}/{name}"
        for name in (
            "METADATA",
            "RECORD",
            "WHEEL",
            "entry_points.txt",
            "licenses/LICENSE",
            "sboms/pykafka2.cdx.json",
        )
    }
    entry_points = wheel.read(f"{DIST_INFO}/entry_points.txt").decode()
    assert "[console_scripts]" in entry_points
    assert "[pytest11]" in entry_points


def test_the_wheel_takes_its_version_from_the_package(metadata: Message) -> None:
    assert metadata["Version"] == pykafka2.__version__


def test_the_sbom_names_the_package_and_each_requirement(wheel: ZipFile, metadata: Message) -> None:
    sbom = json.loads(wheel.read(f"{DIST_INFO}/sboms/pykafka2.cdx.json"))
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    root = sbom["metadata"]["component"]
    assert root["purl"] == f"pkg:pypi/pykafka2@{pykafka2.__version__}"
    assert root["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    declared = {one["properties"][0]["value"] for one in sbom["components"]}
    assert declared == {one for one in metadata.get_all("Requires-Dist", ()) if "extra ==" not in one}
    refs = [one["bom-ref"] for one in sbom["components"]]
    assert sbom["dependencies"][0] == {"ref": root["purl"], "dependsOn": refs}


def test_the_sbom_has_a_version_normal_names_and_a_node_for_each_requirement(wheel: ZipFile) -> None:
    sbom = json.loads(wheel.read(f"{DIST_INFO}/sboms/pykafka2.cdx.json"))
    assert sbom["metadata"]["component"]["version"] == pykafka2.__version__
    purls = [one["purl"] for one in sbom["components"]]
    assert "pkg:pypi/backports-zstd" in purls  # PyPI's normal form
    nodes = [one["ref"] for one in sbom["dependencies"]]
    assert nodes == [
        sbom["metadata"]["component"]["bom-ref"],
        *(one["bom-ref"] for one in sbom["components"]),
    ]


@pytest.mark.gate
def test_a_wheel_that_is_built_again_has_the_same_bytes(wheel: ZipFile, tmp_path: Path) -> None:
    [again] = WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    name = f"{DIST_INFO}/sboms/pykafka2.cdx.json"
    assert ZipFile(again).read(name) == wheel.read(name)
    assert Path(again).read_bytes() == Path(str(wheel.filename)).read_bytes()


def test_the_version_is_written_in_one_place_only() -> None:
    files = [ROOT / "pyproject.toml", *(ROOT / "pykafka2").rglob("*.py")]
    quoted = f'"{pykafka2.__version__}"'
    assert [one.name for one in files if quoted in one.read_text(encoding="utf-8")] == ["version.py"]


def test_the_newest_heading_of_the_changelog_is_this_version() -> None:
    newest = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[0]
    assert newest == pykafka2.__version__


REPOSITORY, SITE = "https://forge.example/team/project", "https://docs.example/project"


@pytest.fixture(scope="module")
def build_hooks() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "hatch_build.py"))


def test_every_link_of_the_long_description_is_absolute_once_the_addresses_are_known(
    build_hooks: dict[str, Any],
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for repository, site in [(REPOSITORY, SITE), (REPOSITORY, "")]:
        text = build_hooks["absolute_links"](readme, repository=repository, site=site, tag="v1.2")
        targets = re.findall(r"\]\(([^)]+)\)", text)
        assert len(targets) == len(re.findall(r"\]\(([^)]+)\)", readme)) > 20
        assert [one for one in targets if not one.startswith((REPOSITORY, SITE))] == []


def test_links_of_the_long_description_lead_to_pages_of_the_site_or_to_files_of_the_release(
    build_hooks: dict[str, Any],
) -> None:
    text = (
        "![a](docs/images/a.svg) [b](docs/guides/b.md#c) [d](CHANGELOG.md) [e](https://e.example) [f](#g)\n"
        "```\n[h](docs/i.md)\n```\n"
    )
    unchanged = "[e](https://e.example) [f](#g)\n```\n[h](docs/i.md)\n```\n"
    absolute_links = build_hooks["absolute_links"]
    assert absolute_links(text, repository=REPOSITORY, site=SITE, tag="v1.2") == (
        f"![a]({SITE}/images/a.svg) [b]({SITE}/guides/b/#c) "
        f"[d]({REPOSITORY}/blob/v1.2/CHANGELOG.md) {unchanged}"
    )
    assert absolute_links(text, repository=REPOSITORY, site="", tag="v1.2") == (
        f"![a]({REPOSITORY}/raw/v1.2/docs/images/a.svg) [b]({REPOSITORY}/blob/v1.2/docs/guides/b.md#c) "
        f"[d]({REPOSITORY}/blob/v1.2/CHANGELOG.md) {unchanged}"
    )
    assert absolute_links(text, repository="", site="", tag="v1.2") == f" b d {unchanged}"


def test_project_urls_name_only_known_addresses(build_hooks: dict[str, Any]) -> None:
    project_urls = build_hooks["project_urls"]
    assert project_urls(repository="", site="", tag="v1.2") == {}
    assert project_urls(repository=REPOSITORY, site=SITE, tag="v1.2") == {
        "Documentation": SITE,
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/v1.2/CHANGELOG.md",
    }


def test_addresses_can_end_with_a_slash_and_must_be_https(build_hooks: dict[str, Any]) -> None:
    checked_addresses = build_hooks["checked_addresses"]
    assert checked_addresses({"repository": f"{REPOSITORY}/", "site": SITE}) == {
        "repository": REPOSITORY,
        "site": SITE,
    }
    assert checked_addresses({"repository": "", "site": "https://docs.example"}) == {
        "repository": "",
        "site": "https://docs.example",
    }
    for address in ("forge.example/team", "git@forge.example:team/project", "https://", " ", "https://a b"):
        with pytest.raises(ValueError, match=r"repository = .* must be empty or start with https://"):
            checked_addresses({"repository": address, "site": ""})


def test_links_of_the_metadata_lead_to_the_tag_of_the_version(
    build_hooks: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.pykafka2]\nrepository = "{REPOSITORY}"\nsite = ""\n')
    (tmp_path / "README.md").write_text("[changes](CHANGELOG.md)")
    metadata: dict[str, Any] = {"version": "1.2"}
    build_hooks["AddressesHook"](str(tmp_path), {}).update(metadata)
    assert metadata["readme"]["text"] == f"[changes]({REPOSITORY}/blob/v1.2/CHANGELOG.md)"
    assert metadata["urls"]["Changelog"] == f"{REPOSITORY}/blob/v1.2/CHANGELOG.md"


@pytest.mark.gate
def test_the_wheel_has_the_readme_without_relative_links_and_the_urls(
    metadata: Message, build_hooks: dict[str, Any]
) -> None:
    addresses = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pykafka2"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = str(metadata.get_payload())
    assert text.startswith("# pykafka2\n")
    assert [one for one in re.findall(r"\]\(([^)]+)\)", text) if not one.startswith("https://")] == []
    urls = build_hooks["project_urls"](**addresses, tag=f"v{pykafka2.__version__}")
    assert metadata.get_all("Project-URL", []) == [f"{name}, {address}" for name, address in urls.items()]


@pytest.mark.gate
@pytest.mark.slow
def test_twine_accepts_wheel_and_source_distribution(wheel: ZipFile, tmp_path: Path) -> None:
    [sdist] = SdistBuilder(str(ROOT)).build(directory=str(tmp_path))
    command = [sys.executable, "-m", "twine", "check", "--strict", str(wheel.filename), sdist]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_site_takes_its_addresses_from_pyproject_and_links_files_to_the_repository() -> None:
    pytest.importorskip("mkdocs")
    hooks = runpy.run_path(str(ROOT / "docs" / "site_hooks.py"))
    page = SimpleNamespace(file=SimpleNamespace(src_uri="guides/a.md"))
    files = SimpleNamespace(get_file_from_path=lambda path: None)
    text = "[an example](../../examples/own_sink.py#L5)"
    addresses = hooks["ADDRESSES"]
    addresses.update(repository="", site="")
    config = SimpleNamespace(site_url=None, repo_url=None, repo_name=None)
    assert vars(hooks["on_config"](config)) == {"site_url": None, "repo_url": None, "repo_name": None}
    shown = hooks["on_page_markdown"](text, page, config, files)
    assert shown == "an example (`examples/own_sink.py`)"
    addresses.update(repository=REPOSITORY, site=SITE)
    assert vars(hooks["on_config"](config)) == {
        "site_url": f"{SITE}/",
        "repo_url": REPOSITORY,
        "repo_name": "team/project",
    }
    shown = hooks["on_page_markdown"](text, page, config, files)
    assert shown == f"[an example]({REPOSITORY}/blob/HEAD/examples/own_sink.py#L5)"


ADDRESS = re.compile(r"(?:https?://|git@)[^\s)\"'<>`]*")


def own_addresses(text: str, known: Iterable[str] = ()) -> list[str]:
    """Return addresses of a repository or site of this project on any host, and the known ones."""
    every = ADDRESS.findall(text)
    return [
        one for one in every if "pykafka2" in one.lower() or any(one.startswith(other) for other in known)
    ]


@pytest.mark.gate
@pytest.mark.slow
def test_only_pyproject_has_the_addresses_of_repository_and_site() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = [address for address in project["tool"]["pykafka2"].values() if address]
    tops = [*ROOT.glob("*.md"), *ROOT.glob("*.yml"), *ROOT.glob("*.py"), ROOT / ".ci" / "run"]
    tops += [
        ROOT / name for name in (".github", "benchmarks", "docs", "examples", "pykafka2", "spark_connector")
    ]
    files = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*"))]
    found = {
        str(path.relative_to(ROOT)): addresses
        for path in files
        if path in tops or path.suffix in {".md", ".py", ".yml", ".yaml", ".toml", ".html", ".js", ".css"}
        if (addresses := own_addresses(path.read_text(encoding="utf-8"), known))
    }
    assert found == {}


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/a/pykafka2/issues",
        "git@gitlab.com:a/pykafka2.git",
        "https://pykafka2.readthedocs.io",
    ],
)
def test_an_address_written_elsewhere_is_found(address: str) -> None:
    assert own_addresses(f"see [x]({address}).") == [address]
    assert own_addresses(f"see {SITE}/guides", [SITE]) == [f"{SITE}/guides"]
    assert own_addresses("https://kafka.apache.org pkg:pypi/pykafka2 https://example.com/") == []


def test_the_changelog_is_one_page_by_user_before_the_first_release() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if "(unreleased)" in text and len(re.findall("^## ", text, re.MULTILINE)) == 1:
        assert len(text.splitlines()) <= 100
        parts = re.findall("^### (.*)", text, re.MULTILINE)
        users = ["application engineers", "test authors", "data engineers", "operators"]
        assert parts == [f"For {user}" for user in users]


@pytest.mark.parametrize("extra", ["spark", "spark-local", "spark-test"])
def test_extras_for_spark_bring_all_that_columns_take(extra: str) -> None:
    """An environment for tests has numpy anyway, so none of them would miss it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = project["optional-dependencies"][extra]
    assert {"numpy", "pyarrow"} <= {one.partition(">")[0].partition("=")[0] for one in brought}
