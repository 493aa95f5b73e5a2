"""A seed of the consumers' scenario; prints its trace hash.  Run by test_consumer_promises.py."""

from __future__ import annotations

import logging
import sys

from tests.campaign.consumer_story import run_seed
from tests.campaign.seed import Report


def tell(seed: int) -> Report:
    """One seed as the runner plays it."""
    return run_seed(seed)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    told = tell(int(sys.argv[1]))
    if told.error is not None:
        raise told.error
    sys.stdout.write(told.trace_hash)
