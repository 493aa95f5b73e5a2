"""Children of a fork, which check something and end: also when they hang, because an alarm ends them."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable

LONGEST_SECONDS = 30


def in_child(check: Callable[[], bool], seconds: int = LONGEST_SECONDS) -> bool:
    """Return whether `check` returns true in a forked child. False if it raises or takes too long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12+: this process has threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            status = 0 if check() else 1
        except BaseException:  # what is raised here must not go on with pytest's work
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
