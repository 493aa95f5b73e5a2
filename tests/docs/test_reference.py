"""The API reference has every public name; that the site builds is looked at by the gate's lint stage."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import pykafka2
from pykafka2 import admin, aio, testing
from pykafka2.testing import simulation

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
# The root of all errors stands on the errors' page, the simulation on that of pykafka2.testing.
ELSEWHERE = {
    pykafka2: {"KafkaError"},
    admin: set(admin.__all__) & set(pykafka2.__all__),
    aio: set(),
    testing: set(),
    simulation: {"Simulation"},
}


@pytest.mark.parametrize(
    ("page", "package"),
    [
        ("clients.md", pykafka2),
        ("admin.md", admin),
        ("asyncio.md", aio),
        ("testing.md", testing),
        ("simulation.md", simulation),
    ],
    ids=["clients", "admin", "asyncio", "testing", "simulation"],
)
def test_the_reference_has_the_public_names_and_no_others(page: str, package: ModuleType) -> None:
    text = (REFERENCE / page).read_text(encoding="utf-8")
    shown = re.findall(rf"^::: {re.escape(package.__name__)}\.(\w+)$", text, re.MULTILINE)
    assert sorted(shown) == sorted(set(package.__all__) - ELSEWHERE[package])
