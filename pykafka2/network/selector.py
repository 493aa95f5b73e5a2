"""A selector over the machine's sockets, with a wake-up that any thread or signal handler may signal.

Belongs to the thread that turns the loop (all but `wake`).  The only module that uses `selectors` and
the wake-up pair; its in-memory counterpart is testing/simulation/selector.py.
"""

from __future__ import annotations

import os
import select
import selectors
from typing import Protocol, cast

import attrs

from pykafka2.clock import FOREVER
from pykafka2.network.transport import READABLE, Listener, Ready, Transport

# epoll counts its timeout in a 32-bit number of milliseconds; nobody minds a round in between.
MAX_TIMEOUT = 3600.0
# Below this a millisecond more or less matters; the price is one more system call.
FINE_TIMEOUT = 0.005
MAX_SELECT_FILENO = 1024


class _Source(Protocol):
    """What tcp.py and tls.py give beyond the transport protocol."""

    def fileno(self) -> int: ...

    def has_pending(self) -> bool:
        """Bytes wait inside the transport (decrypted, say) that the socket would not report."""
        ...


@attrs.define
class _Registration:
    source: _Source
    fileno: int
    interest: int
    data: object


class WakeUp:
    """An eventfd (a pipe where the system has none) that closes when its last holder lets go.

    A thread that signals it holds a reference, so the number cannot be closed and given to another file
    between its look at the number and its write: that is why there is no `close`.
    """

    __slots__ = ("_writer", "reader")

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self.reader = self._writer = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:  # pragma: no cover - other systems than Linux
            self.reader, self._writer = os.pipe()
            os.set_blocking(self.reader, False)
            os.set_blocking(self._writer, False)

    def signal(self) -> None:
        try:
            os.write(self._writer, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        except BlockingIOError:
            pass  # full: it has been signalled often enough

    def clear(self) -> None:
        try:
            os.read(self.reader, 4096)
        except BlockingIOError:
            pass

    def __del__(self) -> None:
        for number in {self.reader, self._writer}:
            os.close(number)


class SocketSelector:
    """`transport.Selector` on epoll (or what the machine has).

    The wake-up loses nothing and takes no lock.  `wake` first says that it was asked for and signals only if
    the loop sleeps; the loop first says that it sleeps and then looks whether it was asked.  Whichever comes
    second sees the other.  `_signalled` names the sleep that was already ended, so a thousand wakes of one
    sleep write once; it is set after the write, so that Ctrl-C in between costs one more write and no
    wake-up.
    """

    def __init__(self) -> None:
        self._selector: selectors.BaseSelector = selectors.DefaultSelector()
        self._fileno = _fileno_of(self._selector)
        self._registrations: dict[int, _Registration] = {}
        self._buffering: dict[int, _Registration] = {}
        self._wake_up: WakeUp | None = WakeUp()
        self._selector.register(self._wake_up.reader, READABLE, None)
        self._asked = False
        self._sleeps = 0
        self._asleep = 0
        self._signalled = 0

    def register(self, source: Transport | Listener, interest: int, data: object) -> None:
        """Watch a transport or listener of tcp.py or tls.py."""
        on_socket = cast(_Source, source)
        registration = _Registration(on_socket, on_socket.fileno(), interest, data)
        if interest:
            self._selector.register(registration.fileno, interest, registration)
        self._registrations[id(source)] = registration
        if hasattr(source, "has_pending"):
            self._buffering[id(source)] = registration

    def modify(self, source: Transport | Listener, interest: int, data: object) -> None:
        """Change what is waited for; interest 0 keeps the registration and waits for nothing."""
        registration = self._registrations[id(source)]
        registration.data = data
        before, registration.interest = registration.interest, interest
        if before == interest:
            return
        if not interest:
            self._selector.unregister(registration.fileno)
        elif not before:
            self._selector.register(registration.fileno, interest, registration)
        else:
            self._selector.modify(registration.fileno, interest, registration)

    def unregister(self, source: Transport | Listener) -> None:
        """Forget a source; call it before the source is closed.  Safe to repeat."""
        registration = self._registrations.pop(id(source), None)
        self._buffering.pop(id(source), None)
        if registration is not None and registration.interest:
            self._selector.unregister(registration.fileno)

    def select(self, timeout: float | None) -> list[Ready]:
        """What is ready, after at most `timeout` seconds (None: for ever); a wake-up ends the wait early."""
        wake_up = self._wake_up
        if wake_up is None:
            return []
        pending = [known for known in self._buffering.values() if _has_pending(known)]
        self._sleeps += 1
        self._asleep = self._sleeps
        if pending or self._asked:
            timeout = 0.0
        elif timeout is not None:
            timeout = None if timeout == FOREVER else min(timeout, MAX_TIMEOUT)
        if timeout is not None and 0 < timeout < FINE_TIMEOUT and self._fileno < MAX_SELECT_FILENO:
            # epoll rounds up to whole milliseconds; select does not, and can watch epoll itself.
            select.select((self._fileno,), (), (), timeout)
            timeout = 0.0
        events = self._selector.select(timeout)
        self._asleep = 0
        ready: list[Ready] = []
        for key, bits in events:
            registration = key.data
            if registration is None:
                wake_up.clear()
            else:
                ready.append((registration.data, bits))
        # Whoever asks before this line is served by the round that now begins.
        self._asked = False
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
        """End the current or next `select`.  From any thread or signal handler; takes no lock."""
        self._asked = True
        asleep = self._asleep
        if asleep and asleep != self._signalled:
            wake_up = self._wake_up
            if wake_up is not None:
                wake_up.signal()
                self._signalled = asleep

    def close(self) -> None:
        """Forget all sources (their owners close them).  Safe to repeat."""
        if self._wake_up is None:
            return
        self._wake_up = None
        self._registrations.clear()
        self._buffering.clear()
        self._selector.close()


def _fileno_of(selector: selectors.BaseSelector) -> int:
    """The file number of epoll or kqueue; one that select refuses where the selector has none."""
    return int(selector.fileno()) if hasattr(selector, "fileno") else MAX_SELECT_FILENO


def _has_pending(registration: _Registration) -> bool:
    return bool(registration.interest & READABLE) and registration.source.has_pending()
