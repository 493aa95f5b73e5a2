"""Named points of the exactly-once protocol at which a test can end the process.

A test names a function in the environment, `PYKAFKA2_SPARK_STEP_HOOK=module:function`. Every process of
Spark calls it with the name of the point and the known facts.
"""

from __future__ import annotations

import os
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any

HOOK = "PYKAFKA2_SPARK_STEP_HOOK"


class Step(Enum):
    """In the order of a micro-batch; the last two belong to a run that takes over."""

    BEFORE_INIT = "before-init"
    """A task is about to register its transactional id."""
    AFTER_INIT = "after-init"
    """A task of a batch write has registered it, and the job has not failed."""
    AFTER_APPEND = "after-append"
    """A task has handed its last row to the producer."""
    AFTER_FLUSH = "after-flush"
    """All rows of a task and its marker are in the logs; the driver has not received its message."""
    BEFORE_DECIDED = "before-decided"
    AFTER_DECIDED = "after-decided"
    """The ledger records the decision to commit; no transaction has ended."""
    BETWEEN_ENDS = "between-ends"
    """One transaction has been committed, others have not."""
    BEFORE_DONE = "before-done"
    AFTER_DONE = "after-done"
    """Everything is committed; Spark has not recorded the batch in its checkpoint."""
    IN_RECOVERY = "in-recovery"
    """A new run has found a decided batch, and ends its transactions next."""
    BEFORE_CLAIM = "before-claim"
    """A new run has recovered; the ledger does not name it yet."""


def is_hooked() -> bool:
    return bool(os.environ.get(HOOK))


def reach(step: Step, **facts: Any) -> None:
    """Call the hook, if there is one."""
    name = os.environ.get(HOOK)
    if name:
        _hook(name)(step.value, facts)


@cache
def _hook(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)
