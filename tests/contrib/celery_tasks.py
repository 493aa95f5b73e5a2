"""A Celery application for the workers of test_celery.py. Each run of a task appends its number to a file."""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

import pykafka2.contrib.kombu  # noqa: F401 - registers pykafka2://

app = Celery("tests", broker=os.environ["TEST_BROKER"], backend="rpc://")
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_direct=True,
    worker_prefetch_multiplier=4,
    worker_send_task_events=True,
)


@app.task  # type: ignore[untyped-decorator]
def note(number: int, seconds: float = 0) -> int:
    time.sleep(seconds)
    with open(os.environ["TEST_RUNS"], "ab", buffering=0) as runs:
        runs.write(b"%d\n" % number)
    return number


@app.task(bind=True, max_retries=3)  # type: ignore[untyped-decorator]
def fail_twice(self: Any) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return int(self.request.retries)


@app.task  # type: ignore[untyped-decorator]
def note_later(number: int) -> None:
    """Send a task from a process of the pool."""
    note.delay(number)
