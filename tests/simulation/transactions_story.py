"""A few virtual seconds of transactions under faults; prints the trace hash.  Run by test_transactions.py."""

from __future__ import annotations

import logging
import sys

from tests.campaign.transactions import play


def tell(seed: int) -> str:
    """The hash of everything that happened."""
    return play(seed, seconds=5.0).trace_hash


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.stdout.write(tell(int(sys.argv[1])))
