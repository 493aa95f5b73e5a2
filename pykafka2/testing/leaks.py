"""What a test left behind: clients, threads and open sockets that were not there before."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection

from pykafka2 import lifecycle
from pykafka2.driver.thread_driver import ThreadRuntime

DESCRIPTORS = "/proc/self/fd"


KINDS = ("clients", "sockets", "threads")


class LeakCheck:
    """Remembers clients, threads and sockets at its making; `found` names what has come since.

    `allowed` are kinds ("clients", "sockets", "threads") that are not looked at.
    """

    def __init__(self, allowed: Collection[str] = ()) -> None:
        self._allowed = frozenset(allowed)
        self._clients = set(lifecycle.live_clients())
        self._threads = set(threading.enumerate())
        self._sockets = _sockets()

    def found(self) -> list[str]:
        """One line for each client, thread and socket that was not there before."""
        lines: list[str] = []
        if "clients" not in self._allowed:
            clients = lifecycle.live_clients()
            lines += sorted(f"unclosed {clients[one]}" for one in clients if one not in self._clients)
        if "threads" not in self._allowed:
            lines += [f"thread {one.name!r}" for one in threading.enumerate() if one not in self._threads]
        if "sockets" not in self._allowed:
            lines += [f"socket {inode}" for inode in sorted(_sockets() - self._sockets)]
        return lines

    def wait_for_none(self, timeout: float) -> list[str]:
        """What is still there after at most `timeout` seconds; threads may need a moment to end."""
        if not self.found():
            return []
        # Sockets that nobody refers to any more are closed by the collector, which is nobody's leak.
        import gc

        gc.collect()
        runtime = ThreadRuntime()
        try:
            for _ in range(20):
                if not self.found():
                    break
                runtime.wait_until(lambda: False, timeout / 20)
        finally:
            runtime.close()
        return self.found()


def _sockets() -> set[str]:
    """The open sockets of this process; empty where the system does not tell."""
    if not os.path.isdir(DESCRIPTORS):
        return set()
    found = set()
    for name in os.listdir(DESCRIPTORS):
        try:
            target = os.readlink(f"{DESCRIPTORS}/{name}")
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found
