"""The first module of the command: lets Ctrl-C end the process without a traceback while others are imported.

A SIGINT that is ignored (nohup) stays ignored.
"""

from __future__ import annotations

import signal


def main() -> int:
    """Run the command that was typed; return the exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pykafka2.cli.main import main as run

    return run()
