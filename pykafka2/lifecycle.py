"""Handles the clients of this process at a fork, at exit and when they are dropped without close().

This module holds clients by weak references only. `track` runs on the thread that creates a client; the hooks
run on the thread that forks, exits or collects garbage. Used by every public client.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import NoReturn, Protocol, TypeVar

from pykafka2.errors import ForkedClientError
from pykafka2.text import undelivered

logger = logging.getLogger(__name__)

T = TypeVar("T")

EXIT_FLUSH_TIMEOUT = 10.0
"""Seconds that all clients together have to send their records when the interpreter exits."""


class LiveClient(Protocol):
    """The interface of a public client for this module."""

    def _on_fork_in_child(self, error: ForkedClientError) -> None:
        """Raise this error from later calls. Take no lock: its holder can be a thread of the parent."""
        ...

    def _on_exit(self, timeout: float) -> int:
        """Send the queued records within `timeout` seconds; return how many remain. Never raises."""
        ...


class Ending(Protocol):
    """A client that was dropped without close() and still sends its records."""

    def await_end(self) -> None:
        """Block until it has ended, for a limited time."""
        ...


class Tracked:
    """A client's entry in the list of live clients; call `end()` when the client is closed."""

    __slots__ = ("__weakref__", "_client", "_finalizer", "description")

    def __init__(
        self, client: LiveClient, finalizer: weakref.finalize[..., LiveClient], description: str
    ) -> None:
        self._client = weakref.ref(client)
        self._finalizer = finalizer
        self.description = description

    def end(self) -> None:
        """Remove the entry of a closed client. Idempotent."""
        self._finalizer.detach()
        _tracked.discard(self)

    def client(self) -> LiveClient | None:
        return self._client()


_tracked: set[Tracked] = set()
_endings: set[Ending] = set()
loading = threading.RLock()
"""Held by `with lifecycle.loading:` around imports that are not at the top of a module.

A fork waits until it is released. Otherwise import locks that another thread holds at the fork would never be
released in the child, and importing those modules there would block forever.
"""


def load_for_io_thread(load: Callable[[], T]) -> T:
    """Run `load`, which imports what a client needs, before its IO thread starts."""
    with loading:
        return load()


def track(client: LiveClient, description: str, release: Callable[[], object]) -> Tracked:
    """Track a client until `end()`.

    If it is dropped without close(), a ResourceWarning is issued and `release` is called, on the thread that
    collects garbage; `release` must hold no reference to the client and must not block for long.
    """
    finalizer = weakref.finalize(client, _dropped, description, release)
    finalizer.atexit = False  # _at_exit below flushes first
    tracked = Tracked(client, finalizer, description)
    _tracked.add(tracked)
    return tracked


def await_at_exit(ending: Ending) -> None:
    """Have the interpreter wait at its exit for a dropped client, until `stop_awaiting`."""
    _endings.add(ending)


def stop_awaiting(ending: Ending) -> None:
    """Let the interpreter exit without this dropped client, as it has ended."""
    _endings.discard(ending)


def live_clients() -> dict[Tracked, str]:
    """Return the clients that were not closed, each with its description."""
    return {tracked: tracked.description for tracked in _tracked.copy() if tracked.client() is not None}


class ShownOptions(Protocol):
    """The options of a client that its `repr` shows; options.py is loaded when a client is created."""

    @property
    def client_id(self) -> str | None: ...

    @property
    def bootstrap_servers(self) -> Iterable[tuple[str, int]]: ...


def repr_of(kind: str, options: ShownOptions | None) -> str:
    """Return the `repr` of a client; its options are None if its creation failed."""
    if options is None:
        return f"<{kind}, not created>"
    servers = ",".join(f"{host}:{port}" for host, port in options.bootstrap_servers)
    return f"<{kind} {options.client_id} to {servers}>"


def refuse_pickling(client: object) -> NoReturn:
    """Raise the TypeError of a client's `__reduce__`."""
    name = type(client).__name__
    raise TypeError(
        f"a {name} cannot be pickled: it owns a thread and connections. Send its options to the other "
        f"process and create a {name}(**options) there"
    )


def _dropped(description: str, release: Callable[[], object]) -> None:
    _tracked.difference_update([tracked for tracked in _tracked.copy() if tracked.client() is None])
    try:
        warnings.warn(f"{description} was dropped without close()", ResourceWarning, stacklevel=2)
    finally:
        release()  # even if warnings are errors


def _after_fork_in_child() -> None:
    # Nothing is closed here: sockets and selectors are shared with the parent, which still uses them.
    for tracked in _tracked:
        client = tracked.client()
        tracked._finalizer.detach()
        if client is not None:
            client._on_fork_in_child(
                ForkedClientError(
                    f"this {type(client).__name__} was created before a fork, in process {os.getppid()}, "
                    "whose IO thread does not exist here. Create a new one in this process"
                )
            )
    _tracked.clear()
    _endings.clear()


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
                "%s: %s when the interpreter ended; call close() before exit",
                description,
                undelivered(remaining),
            )
    for ending in _endings.copy():
        try:
            ending.await_end()
        except Exception as error:
            logger.debug("the end of a dropped client at exit: %s", error)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
    os.register_at_fork(
        before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release
    )
atexit.register(_at_exit)
