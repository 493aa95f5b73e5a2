"""All scenarios, by name."""

from __future__ import annotations

from . import (  # noqa: F401  they register
    on_admin,
    on_changes,
    on_connections,
    on_consumer_groups,
    on_fetch,
    on_groups,
    on_groups_by_call,
    on_leadership,
    on_offsets,
    on_old_versions,
    on_produce,
    on_rebalances,
    on_topics,
    on_transactions,
    on_transactions_by_call,
)
from .side import SCENARIOS

__all__ = ["SCENARIOS"]
