"""The format of log lines: the client's id, and a handler for programs that do not configure logging.

Any thread. Without a handler Python prints only the message; the library's own handler of last resort adds
the level, the logger and the thread. The IO thread has its client's id as name, which is not repeated. The
handler is silent if the program has any handler of its own, or has set `logging.lastResort` to None.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

ROOT = "pykafka2"
WITH_THREAD = logging.Formatter("%(levelname)s %(name)s [%(threadName)s]: %(message)s")
WITHOUT_THREAD = logging.Formatter("%(levelname)s %(name)s: %(message)s")


class ClientLogger(logging.LoggerAdapter[logging.Logger]):
    """A module's logger whose lines begin with the client's id."""

    def __init__(self, name: str, client_id: str | None) -> None:
        super().__init__(logging.getLogger(name))
        # The prefix becomes part of a format string.
        self._prefix = f"[{client_id or 'no client_id'}] ".replace("%", "%%")

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return f"{self._prefix}{msg}", kwargs


class LastResort(logging.Handler):
    """Writes log records that reach no other handler to stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without the thread's name if the message begins with it."""
        names_thread = record.getMessage().startswith(f"[{record.threadName}] ")
        return (WITHOUT_THREAD if names_thread else WITH_THREAD).format(record)

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
    """Add the handler of last resort once per process, when the first client is created."""
    logger = logging.getLogger(ROOT)
    if not any(isinstance(handler, LastResort) for handler in logger.handlers):
        logger.addHandler(LastResort())
