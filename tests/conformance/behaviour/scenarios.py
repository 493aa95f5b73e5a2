"""All scenarios, by name."""

from __future__ import annotations

from . import (  # noqa: F401  they register
    on_admin,
    on_connections,
    on_fetch,
    on_groups,
    on_groups_by_call,
    on_offsets,
    on_produce,
    on_topics,
    on_transactions,
)
from .side import SCENARIOS

__all__ = ["SCENARIOS"]
