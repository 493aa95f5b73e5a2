"""All real time of the connector: pauses between retries, trigger delays, and the age of transactions."""

from __future__ import annotations

import time
from functools import partial

# freezegun replaces the functions of `time` in all modules, but not partial objects.
monotonic = partial(time.monotonic)
sleep = time.sleep
wall = partial(time.time)
