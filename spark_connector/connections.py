"""The clients of this process: one for each set of options, reused by later tasks.

Spark's Python workers run many tasks, so a task finds the connections and the metadata of earlier ones.
Workers are forked from a daemon: clients inherited through a fork belong to the parent, so they are dropped
without closing.  Thread-safe.  Idle sockets close after connections.max.idle.ms, and clients at exit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from pykafka2 import KafkaAdminClient, KafkaConsumer
from pykafka2.errors import ConfigurationError, UnknownOption
from spark_connector.options.kafka_options import NOT_OF_ADMINS, OF_CONSUMERS

MOST_KEPT = 8
"""Clients per thread; the least recently used one is closed first.  Clients last used by another live thread
are never closed: queries in foreachBatch share a process."""


DEFAULTS = {"client.id": "pykafka2-spark", "allow.auto.create.topics": "false"}
"""Reading the metadata of a deleted topic must not create it again."""


class Client(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Client)

_lock = threading.Lock()
"""Never held while a client is created or closed, which can take as long as brokers take to respond."""
_kept: dict[object, tuple[Client, int]] = {}
"""Clients by kind and options, with the thread that used each last."""
_in_making: dict[object, threading.Event] = {}
"""Events that are set once the client exists or could not be created."""
_pid = os.getpid()


def kept(kind: str, options: Mapping[str, str], make: Callable[[], C]) -> C:
    """Return this process's client for these options; one of several calling threads creates it."""
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
    """Return the client for these options, None if there is none."""
    with _lock:
        _forget_parents()
        return _kept.get(_key(kind, options), (None, 0))[0]


def drop(client: Client) -> None:
    """Close a client that failed; the next task creates a new one."""
    with _lock:
        for key in [key for key, (value, _) in _kept.items() if value is client]:
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
    """Return this process's consumer for `read_range` and for offset lookups."""
    return kept("consumer", options, lambda: new_consumer(options))


def admin(options: Mapping[str, str]) -> KafkaAdminClient:
    """Return an admin client, kept for this process."""
    return kept("admin", options, lambda: new_admin(options))


def new_consumer(options: Mapping[str, str]) -> KafkaConsumer:
    """Return a consumer with options `kafka.*` (without that prefix).

    Raises:
        UnknownOption, ConfigurationError: an option is unknown or illegal.
    """
    try:
        return KafkaConsumer({**DEFAULTS, **options})
    except UnknownOption as error:
        raise UnknownOption(f"kafka.*: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"kafka.*: {error}") from None


def new_admin(options: Mapping[str, str]) -> KafkaAdminClient:
    """Return an admin client with those options of a consumer that it shares."""
    others = OF_CONSUMERS | NOT_OF_ADMINS
    shared = {name: value for name, value in options.items() if name not in others}
    return KafkaAdminClient({"client.id": "pykafka2-spark", **shared})


def _made(key: object, make: Callable[[], C], event: threading.Event) -> C:
    """Create a client without holding the lock; threads that wait for it continue even if this fails."""
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
    for unused in too_many:
        unused.close()
    return client


def _make_room() -> list[Client]:
    """Remove the least recently used clients of this thread and of ended threads; the caller closes them."""
    alive = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
    mine = [key for key, (_, thread) in _kept.items() if thread not in alive]
    return [_kept.pop(key)[0] for key in mine[: max(len(mine) + 1 - MOST_KEPT, 0)]]


def _key(kind: str, options: Mapping[str, str]) -> object:
    return kind, tuple(sorted(options.items()))


def _forget_parents() -> None:
    global _pid
    if os.getpid() != _pid:
        _kept.clear()
        _in_making.clear()  # the threads that create them do not exist in this process
        _pid = os.getpid()


def _renew_lock() -> None:
    """In the child of a fork: another thread of the parent may have held the lock, and would never release
    it.
    """
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew_lock)
