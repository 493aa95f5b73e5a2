"""A seed of the producers' scenario; prints its trace hash.  Run by test_producer_promises.py."""

from __future__ import annotations

from tests.campaign.producer_story import run_seed
from tests.campaign.seed import Report
from tests.simulation.trace_hash import print_trace_hash


def tell(seed: int) -> Report:
    """One seed as the runner plays it."""
    return run_seed(seed)


if __name__ == "__main__":
    print_trace_hash(tell)
