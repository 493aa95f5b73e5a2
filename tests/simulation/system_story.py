"""The whole system for a while, faults included; prints its trace hash.  Run by test_system.py."""

from __future__ import annotations

import logging
import sys

from tests.campaign.seed import Report
from tests.campaign.system_story import Shape, run_seed


def tell(seed: int) -> Report:
    """Two producers, a consumer, three brokers, every kind of fault, 20 virtual seconds."""
    return run_seed(seed, Shape(seconds=20.0, producers=2))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    told = tell(int(sys.argv[1]))
    if told.error is not None:
        raise told.error
    sys.stdout.write(told.trace_hash)
