"""Prints the trace hash of one seed: what the modules *_story.py do as programs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from tests.campaign.seed import Report


def print_trace_hash(tell: Callable[[int], Report]) -> None:
    """Play the seed named on the command line; raises the error that ended it."""
    logging.disable(logging.CRITICAL)
    told = tell(int(sys.argv[1]))
    if told.error is not None:
        raise told.error
    sys.stdout.write(told.trace_hash)
