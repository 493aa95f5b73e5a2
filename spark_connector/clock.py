"""All real time of the connector: pauses between retries, trigger delays, and the age of transactions."""

from __future__ import annotations

import time
from functools import partial

# freezegun replaces functions of `time`, such as time.monotonic, in all modules, but not clock_gettime.
monotonic = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
sleep = time.sleep
wall = partial(time.clock_gettime, time.CLOCK_REALTIME)
