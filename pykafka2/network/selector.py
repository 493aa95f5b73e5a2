"""A selector over sockets, with a wake-up that any thread or signal handler can signal.

Belongs to the thread that runs the loop, except `wake`. The only module that uses epoll, `selectors` and the
wake-up pair; its in-memory counterpart is testing/simulation/selector.py. Hot path: runs once or twice for
every record that a thread waits for.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
from collections.abc import Callable
from typing import Any, Protocol, cast

import attrs

from pykafka2.clock import FOREVER
from pykafka2.network.transport import READABLE, WRITABLE, Listener, Ready, Transport

# epoll takes its timeout as 32-bit milliseconds; an empty round every hour costs nothing.
MAX_TIMEOUT = 3600.0
# Shorter timeouts are waited for exactly, which costs one more system call.
FINE_TIMEOUT = 0.005
MAX_SELECT_FILENO = 1024
MAX_EVENTS = 256
"""Most events of one round; the others are returned by the next."""


class _Source(Protocol):
    """The attributes that tcp.py and tls.py add to the transport protocol."""

    def fileno(self) -> int: ...

    def has_pending(self) -> bool:
        """Return True if the transport holds bytes (decrypted ones) that the socket does not report."""
        ...


@attrs.define
class _Registration:
    source: _Source
    fileno: int
    interest: int
    data: object


class WakeUp:
    """An eventfd that closes with its last reference.

    There is no `close`: a thread that signals holds a reference, so the file number cannot be closed and
    reused for another file between reading the number and writing to it.
    """

    __slots__ = ("reader",)

    def __init__(self) -> None:
        self.reader = -1  # remains so if the system has no file descriptor left
        self.reader = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def signal(self) -> None:
        try:
            os.write(self.reader, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        except BlockingIOError:
            pass  # full, so it is signalled already

    def clear(self) -> None:
        try:
            os.read(self.reader, 4096)
        except BlockingIOError:
            pass

    def __del__(self) -> None:
        if self.reader >= 0:
            os.close(self.reader)


class SocketWakeUp:
    """`WakeUp` on systems without eventfd: a pair of sockets, because Windows can wait for sockets only."""

    __slots__ = ("_pair", "reader")

    def __init__(self) -> None:
        self._pair = socket.socketpair()
        for end in self._pair:
            end.setblocking(False)
        self.reader = self._pair[0].fileno()

    def signal(self) -> None:
        try:
            self._pair[1].send(b"\x01")
        except BlockingIOError:
            pass  # full, so it is signalled already

    def clear(self) -> None:
        try:
            self._pair[0].recv(4096)
        except BlockingIOError:
            pass

    def __del__(self) -> None:
        for end in getattr(self, "_pair", ()):
            end.close()


class _Epoll:
    """epoll, without the per-event objects and calls of `selectors`."""

    def __init__(self, wake_up: WakeUp | SocketWakeUp) -> None:
        self._epoll = epoll = select.epoll()
        # Edge-triggered: each signal is reported once, so the wake-up need not be read.
        epoll.register(wake_up.reader, select.EPOLLIN | select.EPOLLET)
        self.fileno: int = epoll.fileno()
        self.poll: Callable[[float | None, int], list[tuple[int, int]]] = epoll.poll
        self.unregister: Callable[[int], object] = epoll.unregister
        self.close: Callable[[], object] = epoll.close

    def register(self, fileno: int, interest: int) -> None:
        self._epoll.register(fileno, self._events(interest))

    def modify(self, fileno: int, interest: int) -> None:
        self._epoll.modify(fileno, self._events(interest))

    def _events(self, interest: int) -> int:
        return (select.EPOLLIN if interest & READABLE else 0) | (
            select.EPOLLOUT if interest & WRITABLE else 0
        )

    def bits(self, events: int) -> int:
        """Return READABLE and WRITABLE for these events; an error sets both."""
        return (READABLE if events & ~select.EPOLLOUT else 0) | (WRITABLE if events & ~select.EPOLLIN else 0)


class _AnyPoll:
    """The poll object of systems without epoll."""

    def __init__(self, wake_up: WakeUp | SocketWakeUp) -> None:
        self._wake_up = wake_up
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()
        self._selector.register(wake_up.reader, READABLE)
        # If the selector has no file number: one that `select` rejects.
        self.fileno: int = getattr(self._selector, "fileno", lambda: MAX_SELECT_FILENO)()
        self.unregister: Callable[[int], object] = self._selector.unregister
        self.close: Callable[[], object] = self._selector.close

    def register(self, fileno: int, interest: int) -> None:
        self._selector.register(fileno, interest)

    def modify(self, fileno: int, interest: int) -> None:
        self._selector.modify(fileno, interest)

    def poll(self, timeout: float | None, max_events: int) -> list[tuple[int, int]]:
        ready = [(key.fd, bits) for key, bits in self._selector.select(timeout)]
        if any(fileno == self._wake_up.reader for fileno, _ in ready):
            self._wake_up.clear()
        return ready

    def bits(self, events: int) -> int:
        return events


class SocketSelector:
    """`transport.Selector` on epoll, or on the system's own poller.

    The wake-up loses no signal and takes no lock. `wake` first sets `_is_requested`, then signals if the loop
    sleeps; the loop first sets `_asleep`, then checks `_is_requested`. Whichever comes second sees the other.
    `_signalled` is the number of the sleep already ended, so a thousand wakes write once; it is set after the
    write, so Ctrl-C in between costs one more write and loses no wake-up.
    """

    def __init__(self) -> None:
        wake_up = WakeUp() if hasattr(os, "eventfd") else SocketWakeUp()
        self._wake_up: WakeUp | SocketWakeUp | None = wake_up
        self._poller: Any = _Epoll(wake_up) if hasattr(select, "epoll") else _AnyPoll(wake_up)
        self._registrations: dict[int, _Registration] = {}
        self._watched: dict[int, _Registration] = {}
        """The registrations with an interest, by file number."""
        self._buffering: dict[int, _Registration] = {}
        self._is_requested = False
        self._sleeps = 0
        self._asleep = 0
        self._signalled = 0

    def register(self, source: Transport | Listener, interest: int, data: object) -> None:
        """Watch a transport or listener of tcp.py or tls.py."""
        on_socket = cast(_Source, source)
        registration = _Registration(on_socket, on_socket.fileno(), interest, data)
        if interest:
            self._watch(registration)
        self._registrations[id(source)] = registration
        if hasattr(source, "has_pending"):
            self._buffering[id(source)] = registration

    def modify(self, source: Transport | Listener, interest: int, data: object) -> None:
        """Change the interest; 0 keeps the registration and waits for nothing."""
        registration = self._registrations[id(source)]
        registration.data = data
        before, registration.interest = registration.interest, interest
        if before == interest:
            return
        if not interest:
            self._unwatch(registration)
        elif not before:
            self._watch(registration)
        else:
            self._poller.modify(registration.fileno, interest)

    def unregister(self, source: Transport | Listener) -> None:
        """Remove a source; call it before the source is closed. Idempotent."""
        registration = self._registrations.pop(id(source), None)
        self._buffering.pop(id(source), None)
        if registration is not None and registration.interest:
            self._unwatch(registration)

    def _watch(self, registration: _Registration) -> None:
        self._poller.register(registration.fileno, registration.interest)
        self._watched[registration.fileno] = registration

    def _unwatch(self, registration: _Registration) -> None:
        self._watched.pop(registration.fileno, None)
        self._poller.unregister(registration.fileno)

    def select(self, timeout: float | None) -> list[Ready]:
        """See `Selector.select`."""
        if self._wake_up is None:
            return []
        poller = self._poller
        pending = self._buffering and [known for known in self._buffering.values() if _has_pending(known)]
        self._sleeps += 1
        self._asleep = self._sleeps
        if pending or self._is_requested:
            timeout = 0.0
        elif timeout is not None:
            if timeout > MAX_TIMEOUT:
                timeout = None if timeout == FOREVER else MAX_TIMEOUT
            elif timeout < FINE_TIMEOUT:
                if timeout > 0 and poller.fileno < MAX_SELECT_FILENO:
                    # epoll rounds up to whole milliseconds; select does not, and can watch epoll itself.
                    select.select((poller.fileno,), (), (), timeout)
                    timeout = 0.0
                elif timeout < 0:
                    timeout = 0.0
        events = poller.poll(timeout, MAX_EVENTS)
        self._asleep = 0
        ready: list[Ready] = []
        watched = self._watched
        for fileno, bits in events:
            registration = watched.get(fileno)
            if registration is not None:  # else it is the wake-up
                ready.append((registration.data, READABLE if bits == READABLE else poller.bits(bits)))
        # A wake-up before this line is served by the turn that begins now.
        self._is_requested = False
        if pending:
            self._add_pending(ready, pending)
        return ready

    def _add_pending(self, ready: list[Ready], pending: list[_Registration]) -> None:
        bits_of = {id(data): index for index, (data, _) in enumerate(ready)}
        for registration in pending:
            index = bits_of.get(id(registration.data))
            if index is None:
                ready.append((registration.data, READABLE))
            else:
                ready[index] = (registration.data, ready[index][1] | READABLE)

    def wake(self) -> None:
        """End the current or next `select`. Any thread or signal handler; takes no lock."""
        self._is_requested = True
        asleep = self._asleep
        if asleep and asleep != self._signalled:
            wake_up = self._wake_up
            if wake_up is not None:
                wake_up.signal()
                self._signalled = asleep

    def close(self) -> None:
        """Remove all sources (their owners close them). Idempotent."""
        if self._wake_up is None:
            return
        self._wake_up = None
        self._registrations.clear()
        self._watched.clear()
        self._buffering.clear()
        self._poller.close()


def _has_pending(registration: _Registration) -> bool:
    return bool(registration.interest & READABLE) and registration.source.has_pending()
