"""What a test left behind: clients of any library, threads and open sockets that were not there before."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from pykafka2 import lifecycle
from pykafka2.driver.thread_driver import ThreadRuntime

if TYPE_CHECKING:
    from pykafka2.testing.views import ConnectionView

DESCRIPTORS = "/proc/self/fd"
# Where Linux says who is at the two ends of a socket.
SOCKET_TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")

KINDS = ("clients", "sockets", "threads")

_pardoned_threads: set[Any] = set()
_pardoned_sockets: set[str] = set()


def no_connections() -> list[ConnectionView]:
    """For a check without a cluster."""
    return []


class LeakCheck:
    """Remembers clients, threads and sockets at its making; `found` names what has come since.

    `allowed` are kinds ("clients", "sockets", "threads") that are not looked at.  `connections` asks a
    cluster who is connected: so clients are found that are not ours, and those of other processes.
    """

    def __init__(
        self,
        allowed: Collection[str] = (),
        connections: Callable[[], list[ConnectionView]] = no_connections,
    ) -> None:
        self._allowed = frozenset(allowed)
        self._connections = connections
        self._clients = set(lifecycle.live_clients())
        self._threads = set(threading.enumerate())
        self._sockets = _sockets()
        self._peers = {one.peer for one in connections()}
        self._of_clients = set(self._peers)

    def pardon(self) -> None:
        """What has come since belongs to something that is kept on purpose: no check names it any more."""
        _pardoned_threads.intersection_update(threading.enumerate())
        _pardoned_threads.update(set(threading.enumerate()) - self._threads)
        open_now = _sockets()
        _pardoned_sockets.intersection_update(open_now)
        _pardoned_sockets.update(open_now - self._sockets)

    def unclosed_clients(self) -> list[str]:
        """One line for each client that was not there before."""
        # The end of a connection is noticed where it is read.
        connected = [one for one in self._connections() if one.peer not in self._peers and one.is_read]
        self._of_clients.update(one.peer for one in connected)
        if "clients" in self._allowed:
            return []
        clients = lifecycle.live_clients()
        ours = [clients[one] for one in clients if one not in self._clients]
        return sorted(f"unclosed {one}" for one in ours) + _strangers(connected, ours)

    def found(self) -> list[str]:
        """One line for each client, thread and socket that was not there before."""
        lines = self.unclosed_clients()
        if "threads" not in self._allowed:
            known = self._threads | _pardoned_threads
            lines += [f"thread {one.name!r}" for one in threading.enumerate() if one not in known]
        if "sockets" not in self._allowed:
            lines += self._stray_sockets()
        return lines

    def _stray_sockets(self) -> list[str]:
        """All but those of clients: theirs, and the broker's ends of them."""
        new = _sockets() - self._sockets - _pardoned_sockets
        ends = _ends_of_sockets(new) if new else {}
        named = [ends.get(inode, (inode, "")) for inode in sorted(new)]
        return [
            f"socket {near} -> {far}" if far else f"socket {near}"
            for near, far in named
            if near not in self._of_clients and far not in self._of_clients
        ]

    def wait_for_none(self, timeout: float) -> list[str]:
        """What is still there after at most `timeout` seconds; threads may need a moment to end."""
        return _waited(self.found, timeout)

    def wait_for_clients(self, timeout: float) -> list[str]:
        """As `wait_for_none`, of clients alone: a cluster that still runs has threads and sockets."""
        return _waited(self.unclosed_clients, timeout)


def _waited(look: Callable[[], list[str]], timeout: float) -> list[str]:
    """What `look` still finds after at most so many seconds."""
    found = look()
    if not found or timeout <= 0:
        return found
    runtime = ThreadRuntime()
    try:
        # Most of it ends within milliseconds, and collecting garbage takes longer than that.
        for pause in (0.001, 0.002, 0.005, 0.01, 0.02):
            runtime.wait_until(lambda: False, pause)
            if not look():
                return []
        # What nobody refers to any more is closed by the collector, and is nobody's leak.
        gc.collect()
        for _ in range(50):
            if not look():
                return []
            runtime.wait_until(lambda: False, timeout / 50)
    finally:
        runtime.close()
    return look()


def _strangers(connected: Iterable[ConnectionView], ours: Collection[str]) -> list[str]:
    """A line for each client that is connected and not one of ours, which are named already."""
    peers: dict[str, list[str]] = {}
    for one in connected:
        if one.client_id is None:
            name = "unclosed connection that has asked nothing"
        elif any(one.client_id in description for description in ours):
            continue
        else:
            software = f" ({one.software})" if one.software else ""
            name = f"unclosed client {one.client_id!r}{software}, connected"
        peers.setdefault(name, []).append(one.peer)
    return [f"{name} from {', '.join(who)}" for name, who in peers.items()]


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


def _ends_of_sockets(wanted: Collection[str]) -> dict[str, tuple[str, str]]:
    """The addresses of both ends, where the system tells."""
    ends = {}
    for table in SOCKET_TABLES:
        try:
            with open(table) as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        for row in rows:
            inode = f"socket:[{row[9]}]"
            if inode in wanted:
                ends[inode] = (_address(row[1]), _address(row[2]))
    return ends


def _address(text: str) -> str:
    """Of `0100007F:ABCD`: words of the machine's byte order, in hexadecimal digits."""
    from ipaddress import IPv6Address, ip_address

    host, _, port = text.partition(":")
    words = [bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8)]
    address = ip_address(b"".join(words))
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return f"[{address}]:{int(port, 16)}" if mapped is None else f"{mapped}:{int(port, 16)}"
    return f"{address}:{int(port, 16)}"
