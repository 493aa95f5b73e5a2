"""docs/fidelity.md says which APIs are not served: that table is true, and whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pykafka2.broker.handlers import api as registry
from tests.conformance.behaviour.known import FIDELITY, unserved_keys

ROOT = Path(__file__).parents[2]
ADVERTISED = ROOT / "tests/conformance/behaviour/golden/api_versions_advertised.json"
"""APIs and versions of Apache Kafka 4.4.0, as recorded; the conformance stage compares them with a live
broker.
"""


def section(title: str) -> str:
    return FIDELITY.read_text(encoding="utf-8").partition(f"## {title}\n")[2].partition("\n## ")[0]


def offered_by_apache() -> set[int]:
    recorded = json.loads(ADVERTISED.read_text(encoding="utf-8"))
    return {
        int(name.removeprefix("API ")): span for name, span in recorded.items() if name.startswith("API ")
    }


def test_the_apis_that_are_not_served_are_those_of_the_table() -> None:
    registry.load()
    assert offered_by_apache() - registry.APIS.keys() == unserved_keys()


def test_table_of_changes_lists_each_request_with_another_recorded_response() -> None:
    changes = section("What 4.4.0 changed")
    of_4_3 = ADVERTISED.parent / "4.3"
    requests = set()
    for file in sorted(of_4_3.iterdir()):
        before, after = (
            json.loads((folder / file.name).read_text(encoding="utf-8")) for folder in (of_4_3, of_4_3.parent)
        )
        changed = [step for step in before.keys() | after.keys() if before.get(step) != after.get(step)]
        requests |= {match[1] for step in changed if (match := re.search(r": (\w+) v\d+$", step))}
    assert len(requests) > 8
    assert [name for name in sorted(requests) if not re.search(rf"\b{name}\b", changes)] == []
