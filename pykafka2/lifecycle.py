"""The clients that live in this process: what becomes of them at a fork, at exit, and when they are dropped.

A client is held weakly and never kept alive by this module.  `track` is called on the caller's thread when a
client is made; the hooks run on whatever thread forks, exits or collects.  Used by every public client.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import NoReturn, Protocol, TypeVar

from pykafka2.errors import ForkedClientError

logger = logging.getLogger(__name__)

T = TypeVar("T")

EXIT_FLUSH_TIMEOUT = 10.0
"""Seconds that all clients together may take to send what they hold when the interpreter ends."""


class LiveClient(Protocol):
    """The interface of a public client for this module."""

    def _on_fork_in_child(self, error: ForkedClientError) -> None:
        """Raise this error from later calls.  Takes no lock: its holder may exist in the parent only."""
        ...

    def _on_exit(self, timeout: float) -> int:
        """Send what waits, for `timeout` seconds at most; how many records remain.  Never raises."""
        ...


class Tracked:
    """A client's place in the list of the living: `end()` when it was closed in order."""

    __slots__ = ("__weakref__", "_client", "_finalizer", "description")

    def __init__(
        self, client: LiveClient, finalizer: weakref.finalize[..., LiveClient], description: str
    ) -> None:
        self._client = weakref.ref(client)
        self._finalizer = finalizer
        self.description = description

    def end(self) -> None:
        """The client is closed: nothing is left to do for it.  Safe to repeat."""
        self._finalizer.detach()
        _tracked.discard(self)

    def client(self) -> LiveClient | None:
        return self._client()


_tracked: set[Tracked] = set()
_loading = threading.RLock()


def load_for_io_thread(load: Callable[[], T]) -> T:
    """Run `load`, which imports what a client needs, before its IO thread starts.

    A fork waits until it is done: in the child the locks of modules that were just being imported by another
    thread are never released, and whoever imports such a module there waits for ever.
    """
    with _loading:
        return load()


def track(client: LiveClient, description: str, release: Callable[[], object]) -> Tracked:
    """Watch over a client until `end()`.

    Dropped without close, it is reported by a `ResourceWarning` and `release` is called, on the thread that
    collects; `release` must hold no reference to the client and must not block for long.
    """
    finalizer = weakref.finalize(client, _dropped, description, release)
    finalizer.atexit = False  # _at_exit below flushes first
    tracked = Tracked(client, finalizer, description)
    _tracked.add(tracked)
    return tracked


def live_clients() -> dict[Tracked, str]:
    """Clients that were made and not closed, each with its description."""
    return {tracked: tracked.description for tracked in _tracked.copy() if tracked.client() is not None}


def refuse_pickling(client: object) -> NoReturn:
    """For `__reduce__` of a client."""
    name = type(client).__name__
    raise TypeError(
        f"a {name} cannot be pickled: it owns a thread and connections.  Send its options to the other "
        f"process instead and make a {name}(**options) there"
    )


def _dropped(description: str, release: Callable[[], object]) -> None:
    _tracked.difference_update([tracked for tracked in _tracked.copy() if tracked.client() is None])
    try:
        warnings.warn(f"{description} was dropped without close()", ResourceWarning, stacklevel=2)
    finally:
        release()  # also where warnings are errors


def _after_fork_in_child() -> None:
    # Nothing is closed here: sockets and selectors are shared with the parent, which still uses them.
    for tracked in _tracked:
        client = tracked.client()
        tracked._finalizer.detach()
        if client is not None:
            client._on_fork_in_child(
                ForkedClientError(
                    f"this {type(client).__name__} was made before a fork (in process {os.getppid()}); its "
                    "thread lives there only.  Make a new one in this process"
                )
            )
    _tracked.clear()


def _at_exit() -> None:
    clients = [
        (client, tracked.description)
        for tracked in _tracked.copy()
        if (client := tracked.client()) is not None
    ]
    for client, description in clients:
        remaining = client._on_exit(EXIT_FLUSH_TIMEOUT / len(clients))
        if remaining:
            logger.warning(
                "%s: %d records were not delivered when the interpreter ended; call close() before",
                description,
                remaining,
            )


os.register_at_fork(after_in_child=_after_fork_in_child)
os.register_at_fork(
    before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
)
atexit.register(_at_exit)
