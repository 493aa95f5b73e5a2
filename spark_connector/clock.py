"""The connector's only look at real time: waiting between questions, and how long a trigger was held back."""

from __future__ import annotations

import time

monotonic = time.monotonic
sleep = time.sleep
