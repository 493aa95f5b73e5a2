"""The whole system for a while, faults included; prints its trace hash.  Run by test_system.py."""

from __future__ import annotations

from tests.campaign.seed import Report
from tests.campaign.system_story import Shape, run_seed
from tests.simulation.trace_hash import print_trace_hash


def tell(seed: int) -> Report:
    """Two producers, a consumer, three brokers, every kind of fault, 20 virtual seconds."""
    return run_seed(seed, Shape(seconds=20.0, producers=2))


if __name__ == "__main__":
    print_trace_hash(tell)
