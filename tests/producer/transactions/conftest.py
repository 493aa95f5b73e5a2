"""Tests of transactions run with both transaction versions of the brokers, the older one in the gate."""

from __future__ import annotations

import pytest

from tests.gate import rest_in_gate


@pytest.fixture(params=rest_in_gate([2, 1]), ids=["version 2", "version 1"])
def version(request: pytest.FixtureRequest) -> int:
    chosen: int = request.param
    return chosen
