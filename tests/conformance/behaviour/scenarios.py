"""All scenarios, by name, in the order in which they run.

A cluster remembers: what was committed under an empty group's name, how often a coordinator has moved.  So
the order is fixed, and those that move leaders come last.
"""

from __future__ import annotations

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
    on_topics,
    on_transactions,
    on_transactions_by_call,
)
from .side import SCENARIOS as REGISTERED
from .side import Scenario

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
