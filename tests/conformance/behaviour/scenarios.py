"""All scenarios, by name, in the order in which they run.

A cluster remembers: what was committed under an empty group's name, how often a coordinator has moved.  So
the order is fixed, and those that move leaders come last.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from . import (
    on_access,
    on_admin,
    on_changes,
    on_connections,
    on_consumer_groups,
    on_corners,
    on_fetch,
    on_groups,
    on_groups_by_call,
    on_leadership,
    on_offsets,
    on_old_versions,
    on_produce,
    on_quotas,
    on_rebalances,
    on_release_4_4,
    on_share_fetch,
    on_share_groups,
    on_topics,
    on_transactions,
    on_transactions_by_call,
)
from .side import SCENARIOS as REGISTERED
from .side import Scenario

HANDLERS = Path(__file__).parents[2] / "broker" / "handlers"


def of_handlers() -> list[ModuleType]:
    """Import the tests of APIs that have scenarios beside the other tests of the API."""
    files = sorted(HANDLERS.glob("test_*.py"))
    return [
        import_module(f"tests.broker.handlers.{file.stem}")
        for file in files
        if "\n@scenario\n" in file.read_text(encoding="utf-8")
    ]


MODULES = (
    on_admin,
    on_connections,
    on_produce,
    on_fetch,
    on_groups,
    on_groups_by_call,
    on_offsets,
    on_topics,
    on_transactions,
    on_transactions_by_call,
    on_changes,
    on_old_versions,
    on_rebalances,
    on_consumer_groups,
    on_corners,
    on_quotas,
    on_release_4_4,
    on_share_fetch,
    on_share_groups,
    *of_handlers(),
    on_leadership,
    on_access,
)

SCENARIOS: dict[str, Scenario] = {
    name: scenario
    for module in MODULES
    for name, scenario in REGISTERED.items()
    if scenario.__module__ == module.__name__
}

__all__ = ["SCENARIOS"]
