"""Exit codes of the command, and the interrupt that SIGTERM raises."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM was received: the verb ends like after a Ctrl-C."""


def code_of(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code after Ctrl-C or SIGTERM."""
    return EXIT_TERMINATED if isinstance(interrupt, Terminated) else EXIT_INTERRUPTED
