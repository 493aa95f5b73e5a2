"""docs/fidelity.md says which APIs are not served: that table is true, and whole."""

from __future__ import annotations

import json
from pathlib import Path

from pykafka2.broker.handlers import api as registry
from tests.conformance.behaviour.known import unserved_keys

ROOT = Path(__file__).parents[2]
ADVERTISED = ROOT / "tests/conformance/behaviour/golden/api_versions_advertised.json"
"""APIs and versions of Apache Kafka 4.3.1, as recorded; the conformance stage compares them with a live
broker.
"""


def offered_by_apache() -> set[int]:
    recorded = json.loads(ADVERTISED.read_text(encoding="utf-8"))
    return {
        int(name.removeprefix("API ")): span for name, span in recorded.items() if name.startswith("API ")
    }


def test_the_apis_that_are_not_served_are_those_of_the_table() -> None:
    registry.load()
    assert offered_by_apache() - registry.APIS.keys() == unserved_keys()
