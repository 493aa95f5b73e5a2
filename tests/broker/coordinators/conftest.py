"""The fixture of a group coordinator in memory."""

from __future__ import annotations

import pytest

from tests.broker.support.bench import ShardBench


@pytest.fixture
def shard_bench() -> ShardBench:
    """Make a bench of a shard with Kafka's defaults."""
    return ShardBench()
