"""Figures in README and docs have date and commit; sentences about missing features have a date or a test."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka2 import KafkaProducer, serializers
from pykafka2.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    if "reference" not in path.relative_to(ROOT).parts  # written by code and compared with it
)
NUMBER = r"(?:\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten)"
FIGURE = re.compile(
    rf"""(?<![≥≤][ ])(?<![\d.,–])\d[\d.,–]*[ ]?×           # a ratio; targets have ≥ or ≤
    | {NUMBER}[ ]times[ ](?:as|the|less|more|faster|slower)\b
    | \b(?:two|three|four|five|six|seven|eight|nine|ten)fold\b
    | \ba[ ](?:third|quarter|fifth|sixth|eighth|tenth)[ ](?:faster|slower|less|more)\b
    | \d[\d.,]*[ ](?:million[ ]|thousand[ ])?(?:records|rows|requests|messages)(?:/s|[ ](?:a|per)[ ]second)\b
    | \d[\d.,]*[ ]?[kMG]i?B/s
    | \d[\d.,]*[ ]?(?:µs|ns)\b
    | \btakes?[ ](?:about[ ])?\d[\d.,]*[ ](?:ms|s)\b""",
    re.VERBOSE,
)
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
COMMIT = re.compile(r"`[0-9a-f]{7,12}`")
LIMIT = re.compile(
    r"\bnot (?:released |implemented |supported |shown |built |available )?yet\b|\bnot there yet:"
    r"|\bnot (?:supported|planned|implemented|offered)\b",
    re.IGNORECASE,
)
HERE = "tests/docs/test_claims.py"
UNSERVED = "tests/docs/test_fidelity.py::test_the_apis_that_are_not_served_are_those_of_the_table"
FEATURES = (
    "tests/broker/handlers/test_features.py::test_finalised_features_are_those_of_kafka_4_4_but_for_streams"
)
LIMITS = {
    "not released yet": f"{HERE}::test_no_version_is_released",
    "**Not there yet:** serializers for a schema registry": f"{HERE}::test_missing_features_are_missing",
    "## Not supported": f"{HERE}::test_missing_features_are_missing",
    "Not planned for the first release: schema-registry": f"{HERE}::test_missing_features_are_missing",
    "not planned for the first version": f"{HERE}::test_missing_features_are_missing",
    "| Proxies | yes | not yet |": f"{HERE}::test_missing_features_are_missing",
    "neither they nor streams.version are implemented": UNSERVED,
    "groups of streams": UNSERVED,
    "the formats are not implemented": (
        "tests/broker/log/disk/test_unusable_segments.py::"
        "test_segment_of_an_old_format_is_refused_and_left_as_it_is"
    ),
    "kafka-features upgrade --release-version": FEATURES,
    "`INPUT_STREAM_NOT_SUPPORTED`": (
        "tests/spark/test_stream_source.py::test_real_time_mode_is_refused_with_the_errors_that_the_guide_quotes"
    ),
}
"""Sentences about missing features, each with the test that fails once it is wrong."""


def sections(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each section with the number of its first line: from a heading to the next; code is left out."""
    first, lines, is_code = 1, [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        if re.match(r"#{1,6} ", line) and not is_code:
            yield first, lines
            first, lines = number, []
        lines.append("" if is_code else line)
    yield first, lines


def undated_figures(text: str) -> list[str]:
    """Return the lines with a figure in sections without date and commit, each with its number."""
    found = []
    for first, lines in sections(text):
        whole = "\n".join(lines)
        if not (DATE.search(whole) and COMMIT.search(whole)):
            numbered = enumerate((re.sub(r"`[^`]*`", "", line) for line in lines), first)
            found += [f"{number}: {line}" for number, line in numbered if FIGURE.search(line)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_figures_stand_in_a_section_with_date_and_commit(page: Path) -> None:
    name = page.relative_to(ROOT)
    assert [f"{name}:{one}" for one in undated_figures(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "claim",
    [
        "It is 1.3 × as fast.",
        "| `send` | 0.97, 1.1 × |",
        "`send_many` is six times as fast.",
        "It reaches 120,000 records/s.",
        "1.35 million records a second",
        "at 7 to 11 GB/s",
        "about 0.7 µs",
        "It is a third faster.",
        "It grows ninefold.",
        "A task takes about 60 ms.",
    ],
)
def test_an_undated_figure_is_found_with_its_line(claim: str) -> None:
    (found,) = undated_figures(f"# Page\n\n2026-11-28, `abcdef0`\n\n## Part\n{claim}\n")
    assert found.startswith("6: ")
    assert undated_figures(f"# Page\n## Part\n{claim}\n\n2026-11-28, commit `abcdef0`\n") == []
    assert undated_figures(f"# Page\n```\n{claim}\n```\n≥ 1.2 × `2 ×`\n") == []
    assert undated_figures(f"## Part\n{claim}\n2026-11-28\n") != []


def missing_features(text: str) -> list[str]:
    """Return the lines that say that something is missing, in sections without a date."""
    return [
        line
        for _, lines in sections(text)
        if not DATE.search("\n".join(lines))
        for line in lines
        if LIMIT.search(line)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_about_missing_features_have_a_date_or_a_test(page: Path) -> None:
    missing = missing_features(page.read_text(encoding="utf-8"))
    assert [line for line in missing if not any(words in line for words in LIMITS)] == []


@pytest.mark.parametrize("words", LIMITS)
def test_sentences_about_missing_features_still_stand_in_a_page(words: str) -> None:
    assert any(words in page.read_text(encoding="utf-8") for page in PAGES)


def test_a_sentence_about_a_missing_feature_is_found() -> None:
    text = "## A\nX is not shown yet.\nY is not supported.\nAll is well.\n## B\nZ is not yet 2026-11-28.\n"
    assert missing_features(text) == ["X is not shown yet.", "Y is not supported."]


@pytest.mark.parametrize("test", sorted(set(LIMITS.values())))
def test_tests_of_missing_features_exist(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_missing_features_are_missing() -> None:
    with pytest.raises(ConfigurationError, match="proxies are not implemented"):
        KafkaProducer(bootstrap_servers="localhost:1", proxy_url="http://localhost:2")
    with pytest.raises(ConfigurationError, match="Kerberos"):
        KafkaProducer(
            bootstrap_servers="localhost:1", security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI"
        )
    assert [name for name in dir(serializers) if re.search("avro|schema|registry", name, re.IGNORECASE)] == []


def test_no_version_is_released() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## .*", text, re.MULTILINE) == ["## 0.1.0 (unreleased)"]


def test_only_the_systems_that_the_readme_calls_tested_are_classified() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    systems = [one for one in project["classifiers"] if one.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    install = (ROOT / "README.md").read_text(encoding="utf-8").split("## Install\n")[1].lstrip()
    pythons = [one.rsplit(" ", 1)[1] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)]
    expected = f"Linux with CPython {pythons[0]} to {pythons[-1]}; macOS and Windows are untested."
    assert install.startswith(expected)


def test_comparison_has_each_row_once() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \|", (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) > 15
    assert sorted(rows) == sorted({*rows})
