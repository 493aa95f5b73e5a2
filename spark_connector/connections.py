"""The clients of this process, one for each set of options, kept from task to task.

Spark's Python workers serve many tasks, so a task finds its connections and its metadata where the last one
left them.  Workers are forked from a daemon: what came over with a fork is the parent's and is forgotten, not
closed.  Any thread.  Sockets that nobody uses close by connections.max.idle.ms; clients at exit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from pykafka2 import KafkaAdminClient, KafkaConsumer
from pykafka2.errors import ConfigurationError, UnknownOption

MOST_KEPT = 8
"""Clients of a thread; the one that was used the longest ago makes room.  What other threads used last is
theirs as long as they live: queries in foreachBatch share a process."""


COMMON = (
    "bootstrap.", "client.", "connections.", "default.api.", "metadata.", "receive.",
    "reconnect.", "request.", "retry.", "sasl.", "security.", "send.", "socket.", "ssl.",
)  # fmt: skip
"""How the names of options begin that clients of every kind have."""


DEFAULTS = {"client.id": "pykafka2-spark", "allow.auto.create.topics": "false"}
"""A topic that is gone stays gone, though somebody looks for it."""


class Client(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Client)

_lock = threading.Lock()
"""Held for no longer than a look: to make or to close a client may take as long as brokers take to answer."""
_kept: dict[object, tuple[Client, int]] = {}
"""With the thread that used it last."""
_in_making: dict[object, threading.Event] = {}
"""Set when the client is there, or could not be made."""
_pid = os.getpid()


def kept(kind: str, options: Mapping[str, str], make: Callable[[], C]) -> C:
    """This process's client of these options, made if there is none yet; by one thread if several ask."""
    key = _key(kind, options)
    while True:
        with _lock:
            _forget_parents()
            client, _ = _kept.pop(key, (None, 0))
            if client is not None:
                _kept[key] = client, threading.get_ident()  # at the end: used last
                return client  # type: ignore[return-value]
            others = _in_making.get(key)
            if others is None:
                mine = _in_making[key] = threading.Event()
                break
        others.wait()
    return _made(key, make, mine)


def found(kind: str, options: Mapping[str, str]) -> Client | None:
    """What is kept under these options, if it is there."""
    with _lock:
        _forget_parents()
        return _kept.get(_key(kind, options), (None, 0))[0]


def drop(client: Client) -> None:
    """Close a client that is no good any more; the next task makes a new one."""
    with _lock:
        for key in [key for key, (one, _) in _kept.items() if one is client]:
            del _kept[key]
    client.close()


def close_all() -> None:
    with _lock:
        _forget_parents()
        clients = [client for client, _ in _kept.values()]
        _kept.clear()
    for client in clients:
        client.close()


def consumer(options: Mapping[str, str]) -> KafkaConsumer:
    """A consumer for `read_range` and questions, kept for this process."""
    return kept("consumer", options, lambda: new_consumer(options))


def admin(options: Mapping[str, str]) -> KafkaAdminClient:
    """An admin client, kept for this process."""
    return kept("admin", options, lambda: new_admin(options))


def new_consumer(options: Mapping[str, str]) -> KafkaConsumer:
    """A consumer of options `kafka.*` (without that prefix).

    Raises:
        UnknownOption, ConfigurationError: the clients do not know or refuse an option.
    """
    try:
        return KafkaConsumer({**DEFAULTS, **options})
    except UnknownOption as error:
        raise UnknownOption(f"among the options kafka.*: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"among the options kafka.*: {error}") from None


def new_admin(options: Mapping[str, str]) -> KafkaAdminClient:
    """An admin client of those of a consumer's options that it knows."""
    chosen = {name: value for name, value in options.items() if name.startswith(COMMON)}
    return KafkaAdminClient({"client.id": "pykafka2-spark", **chosen})


def _made(key: object, make: Callable[[], C], event: threading.Event) -> C:
    """Make a client while others go on; whoever waits for the same one is let go, whatever comes of it."""
    too_many: list[Client] = []
    try:
        client = make()
        with _lock:
            too_many = _make_room()
            _kept[key] = client, threading.get_ident()
    finally:
        with _lock:
            _in_making.pop(key, None)
        event.set()
    for one in too_many:
        one.close()
    return client


def _make_room() -> list[Client]:
    """What is to be closed."""
    alive = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    mine = [key for key, (_, thread) in _kept.items() if thread not in alive]
    return [_kept.pop(key)[0] for key in mine[: max(len(mine) + 1 - MOST_KEPT, 0)]]


def _key(kind: str, options: Mapping[str, str]) -> object:
    return kind, tuple(sorted(options.items()))


def _forget_parents() -> None:
    global _pid
    if os.getpid() != _pid:
        _kept.clear()
        _in_making.clear()  # by threads that are not here
        _pid = os.getpid()


def _renew_lock() -> None:
    """In the child of a fork another thread may have held the lock; that thread is not there."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
