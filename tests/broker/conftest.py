"""The fixture of a cluster with connections to its brokers."""

from __future__ import annotations

from tests.connections import live, wire

__all__ = ["live", "wire"]
