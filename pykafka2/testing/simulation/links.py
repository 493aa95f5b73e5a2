"""The present state of the link between two places: fast, slow, clogged or cut.

A place is a process: a broker or a client.  Each direction of each pair is a link of its own, so a partition
can be one-way.  Faults and tests change links, pipes read them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import attrs


@attrs.define
class Link:
    """One direction between two places.  Durations are seconds."""

    source: str
    target: str
    latency: float = 200e-6
    jitter: float = 300e-6
    bytes_per_second: float | None = None
    """None for no limit."""
    extra_latency: float = 0.0
    is_cut: bool = False
    """Nothing arrives: sent bytes wait until the link is joined or the sender times out."""
    clogged_until: float = 0.0
    blocked: int = 0
    """Number of arrivals that a cut or a clog held up: whether the fault was effective."""

    slowed: int = 0
    """Bytes sent while `extra_latency` was set."""

    def delay(self, size_bytes: int, random: Random) -> float:
        """Return the transfer time of `size_bytes`."""
        if self.extra_latency:
            self.slowed += 1
        transfer = 0.0 if self.bytes_per_second is None else size_bytes / self.bytes_per_second
        return self.latency + self.extra_latency + self.jitter * random.random() + transfer

    def opens_at(self, now: float) -> float | None:
        """Return when data can arrive: now or earlier, later (clogged), or None (cut)."""
        return None if self.is_cut else self.clogged_until


class Links:
    """All links, created on first use; links within one place are never cut."""

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], Link] = {}
        self._on_join: list[Callable[[], None]] = []
        self.defaults = Link("", "")

    def between(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = attrs.evolve(self.defaults, source=source, target=target)
            if source == target:
                link.latency, link.jitter = 20e-6, 20e-6
            self._links[source, target] = link
        return link

    def matching(self, source: str, target: str) -> list[Link]:
        """Return the links from one place to another; "*" matches all known places."""
        if "*" not in (source, target):
            return [self.between(source, target)]
        return [
            link
            for (one, other), link in self._links.items()
            if one != other and source in ("*", one) and target in ("*", other)
        ]

    def on_join(self, call: Callable[[], None]) -> None:
        """Call `call` whenever a link can carry again."""
        self._on_join.append(call)

    def joined(self) -> None:
        for call in self._on_join:
            call()

    def heal(self) -> None:
        """Reset every link except its latency and bandwidth."""
        for link in self._links.values():
            link.is_cut = False
            link.clogged_until = 0.0
            link.extra_latency = 0.0
        self.joined()
