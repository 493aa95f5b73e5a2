"""All scenarios, by name."""

from __future__ import annotations

from . import on_connections, on_fetch, on_offsets, on_produce, on_topics  # noqa: F401  they register
from .side import SCENARIOS

__all__ = ["SCENARIOS"]
