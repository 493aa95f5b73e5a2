"""Prints the trace hash of one seed: what the modules *_story.py do as programs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from tests.campaign.seed import Report


def print_trace_hash(tell: Callable[[int], Report]) -> None:
    """Play the seed named on the command line; raises the error that ended it."""
    logging.disable(logging.CRITICAL)
    story = tell(int(sys.argv[1]))
    if story.error is not None:
        raise story.error
    sys.stdout.write(story.trace_hash)
