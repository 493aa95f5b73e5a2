"""Fixtures of the network tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.network.wire import Wire


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def make_wire() -> Callable[..., Wire]:
    return Wire
