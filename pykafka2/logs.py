"""The library's log lines: of which client they are, and how they look while nobody has set up logging.

Any thread.  Python prints what no handler takes as a bare message, which does not say where it comes from; so
the library's own handler of last resort adds the level, the logger and the thread (the IO thread has its
client's name).  It is silent as soon as the program has any handler of its own, or has set
`logging.lastResort` to None.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

ROOT = "pykafka2"
LAST_RESORT_FORMAT = "%(levelname)s %(name)s [%(threadName)s]: %(message)s"


class ClientLogger(logging.LoggerAdapter[logging.Logger]):
    """A module's logger whose lines begin with the client's id."""

    def __init__(self, name: str, client_id: str | None) -> None:
        super().__init__(logging.getLogger(name))
        # It becomes part of a format string.
        self._prefix = f"[{client_id or 'no client_id'}] ".replace("%", "%%")

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return f"{self._prefix}{msg}", kwargs


class LastResort(logging.Handler):
    """Writes to stderr what would reach no other handler."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(logging.Formatter(LAST_RESORT_FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is None or sys.stderr is None or self._has_others(record.name):
            return
        try:
            sys.stderr.write(self.format(record) + "\n")
        except Exception:
            self.handleError(record)

    def _has_others(self, name: str) -> bool:
        logger: logging.Logger | None = logging.getLogger(name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return True
            logger = logger.parent if logger.propagate else None
        return False


def install_last_resort() -> None:
    """Once a process: when the first client is made."""
    logger = logging.getLogger(ROOT)
    if not any(isinstance(handler, LastResort) for handler in logger.handlers):
        logger.addHandler(LastResort())
