"""All real time of the connector: pauses between retries, trigger delays, and the age of transactions."""

from __future__ import annotations

import time

monotonic = time.monotonic
sleep = time.sleep
wall = time.time
