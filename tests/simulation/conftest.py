"""Fixtures of the simulation's own tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.campaign.seed_pool import without_logs


@pytest.fixture
def quiet() -> Iterator[None]:
    """Logs of clients about faults are of no interest here."""
    with without_logs():
        yield
