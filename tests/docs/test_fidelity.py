"""docs/fidelity.md says which APIs are not served: that table is true, and whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pykafka2.broker.handlers import api as registry

ROOT = Path(__file__).parents[2]
FIDELITY = ROOT / "docs" / "fidelity.md"
ADVERTISED = ROOT / "tests/conformance/behaviour/golden/api_versions_advertised.json"
"""APIs and versions of Apache Kafka 4.3.1, as recorded; the conformance stage compares them with a live
broker.
"""


def section(title: str) -> str:
    return FIDELITY.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]


def unserved_by_the_docs() -> set[int]:
    rows = re.findall(r"^\| [^|]+ \| ([\d, ]+) \|", section("APIs that are not served"), re.MULTILINE)
    return {int(key) for row in rows for key in row.split(",")}


def offered_by_apache() -> set[int]:
    recorded = json.loads(ADVERTISED.read_text(encoding="utf-8"))
    return {
        int(name.removeprefix("API ")): span for name, span in recorded.items() if name.startswith("API ")
    }


def test_the_apis_that_are_not_served_are_those_of_the_table() -> None:
    registry.load()
    assert offered_by_apache() - registry.APIS.keys() == unserved_by_the_docs()
