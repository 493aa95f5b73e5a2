"""Connections to a test's cluster, and waits for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster, live

__all__ = ["live"]


@pytest.fixture
def connect(live: LiveCluster) -> Callable[..., RawClient]:
    return live.connect


@pytest.fixture
def leader(live: LiveCluster) -> Callable[..., RawClient]:
    return live.leader


@pytest.fixture
def wait_for(live: LiveCluster) -> Callable[[Callable[[], bool]], None]:
    return live.wait_for
