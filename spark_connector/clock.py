"""The connector's only look at real time: waiting between questions, how long a trigger was held back,
and how much time a transaction has left.
"""

from __future__ import annotations

import time

monotonic = time.monotonic
sleep = time.sleep
wall = time.time
