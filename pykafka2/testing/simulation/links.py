"""What the way between two places is like just now: fast, slow, clogged or cut.

A place is a process: one broker, or one client.  Every direction of every pair is a link of its own, so a
partition may be one-way.  Changed by faults and tests, read by pipes.
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
    """None: as fast as you like."""
    extra_latency: float = 0.0
    is_cut: bool = False
    """Nothing arrives: what was sent waits until the link is joined or the sender gives up."""
    clogged_until: float = 0.0
    blocked: int = 0
    """How many arrivals a cut or a clog held up: whether the fault took effect."""

    slowed: int = 0
    """How much was sent while `extra_latency` was set."""

    def delay(self, size_bytes: int, random: Random) -> float:
        """How long `size_bytes` take from end to end."""
        if self.extra_latency:
            self.slowed += 1
        transfer = 0.0 if self.bytes_per_second is None else size_bytes / self.bytes_per_second
        return self.latency + self.extra_latency + self.jitter * random.random() + transfer

    def opens_at(self, now: float) -> float | None:
        """When something may arrive: now or earlier, later (clogged), or None (cut)."""
        return None if self.is_cut else self.clogged_until


class Links:
    """All links, made when first used; those inside one place are never cut."""

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
        """The links from one place to another; "*" stands for every place that is known."""
        if "*" not in (source, target):
            return [self.between(source, target)]
        return [
            link
            for (one, other), link in self._links.items()
            if one != other and source in ("*", one) and target in ("*", other)
        ]

    def on_join(self, call: Callable[[], None]) -> None:
        """Have `call` run whenever a link may carry again."""
        self._on_join.append(call)

    def joined(self) -> None:
        for call in self._on_join:
            call()

    def heal(self) -> None:
        """Every link as it was in the beginning, but for its latency and bandwidth."""
        for link in self._links.values():
            link.is_cut = False
            link.clogged_until = 0.0
            link.extra_latency = 0.0
        self.joined()
