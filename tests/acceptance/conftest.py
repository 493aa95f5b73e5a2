"""The broker's tests have connections to lend."""

from __future__ import annotations

from tests.testing.conftest import connect, leader, wait_for

__all__ = ["connect", "leader", "wait_for"]
