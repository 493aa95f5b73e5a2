"""The fixtures that open connections to brokers."""

from __future__ import annotations

from tests.connections import connect, leader, wait_for

__all__ = ["connect", "leader", "wait_for"]
