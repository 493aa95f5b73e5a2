"""All connections of a client: one per broker, one more per coordinator, those to the bootstrap addresses.

Owned by the driver's thread; `why_unreachable` and `has_connection` may be read from any thread, for the
words of an error.  Bootstrap addresses have negative ids, as in Kafka, until the first metadata names the
brokers; they serve again when no known broker can be reached (KIP-899).  Neighbours: link.py (one
connection), router.py, metadata.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from pykafka2.clock import FOREVER
from pykafka2.cluster.link import NodeLink, Purpose
from pykafka2.cluster.metadata import Metadata
from pykafka2.errors import (
    Disconnected,
    IllegalSaslState,
    IllegalState,
    KafkaError,
    NoBrokersAvailable,
    SaslAuthenticationFailed,
    TlsError,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from pykafka2.options import ClientOptions
from pykafka2.protocol.struct import Request
from pykafka2.run_all import tell_each
from pykafka2.types import Node

HOPELESS_ERRORS = (
    TlsError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
    IllegalSaslState,
    UnsupportedVersion,
)

MOST_HINTS = 100
"""Addresses of brokers that the metadata does not list, the newest."""

QUIET_UNTIL = attrgetter("quiet_until")

NodeLinkMaker = Callable[[Node, Purpose], NodeLink]


class Nodes:
    """The links by node and purpose.  Opens none by itself: `NodeLink.want` does."""

    def __init__(
        self, options: ClientOptions, metadata: Metadata, random: random.Random, make_link: NodeLinkMaker
    ) -> None:
        self._metadata = metadata
        self._random = random
        self._make_link = make_link
        self._may_rebootstrap = options.metadata_recovery_strategy == "rebootstrap"
        self._rebootstrap_until_version = 0
        self._links: dict[tuple[int, Purpose], NodeLink] = {}
        self._hints: dict[int, Node] = {}
        self._failures_of_gone = 0
        self._tidied_at_version = 0
        self._bootstrap = tuple(
            Node(-1 - index, host, port) for index, (host, port) in enumerate(options.bootstrap_servers)
        )

    # ------------------------------------------------------------------ finding

    def link(self, node_id: int, now: float, purpose: Purpose = Purpose.MAIN) -> NodeLink | None:
        """The link to a broker, made if its address is known; None where nobody has named the broker."""
        link = self._links.get((node_id, purpose))
        node = self._metadata.snapshot.nodes.get(node_id) or self._hints.get(node_id)
        if link is None:
            return self._add(node, purpose) if node is not None else None
        if node is not None and node is not link.node:
            link.update_node(node, now)
        return link

    def known_link(self, node_id: int, purpose: Purpose = Purpose.MAIN) -> NodeLink | None:
        """The link if there is one already."""
        return self._links.get((node_id, purpose))

    def hint(self, node: Node) -> None:
        """Remember an address that some answer named, for a broker that the metadata may not list yet."""
        self._hints.pop(node.id, None)
        self._hints[node.id] = node
        if len(self._hints) > MOST_HINTS:
            del self._hints[next(iter(self._hints))]

    def least_busy(self, now: float, but: int | None = None) -> NodeLink | None:
        """The node that any request goes to: connected and least in flight; else the one next connected.

        Not the one with the id `but`, unless all others have failed.  None only while every candidate has
        failed and is waiting for its next attempt.
        """
        best: NodeLink | None = None
        coming: NodeLink | None = None
        candidates = self._candidates(now)
        if but is not None:
            others = [link for link in candidates if link.node.id != but and not link.has_failed]
            candidates = others or candidates
        for link in candidates:
            if link.is_ready(now):
                if best is None or link.in_flight < best.in_flight:
                    best = link
            elif link.is_coming_up:
                coming = link
        if best is not None or coming is not None:
            return best or coming
        return self._next_to_try(candidates, now)

    def version_for(self, node_id: int, request_class: type[Request[Any]]) -> int:
        """The version that a request of this class would have on the node's connection.

        Raises `UnsupportedVersion` where the ranges do not meet, `IllegalState` while not connected.
        """
        link = self._links.get((node_id, Purpose.MAIN))
        if link is None or link.connection is None:
            raise IllegalState(f"node {node_id} is not connected, so its versions are not known")
        return link.connection.version_for(request_class)

    def finalized_feature(self, name: str) -> int:
        """The level of a feature of the cluster; 0 where it is not finalised, or no broker told.

        Of the brokers connected, those that heard of the latest change decide.
        """
        level, epoch = 0, -2
        for link in self._links.values():
            connection = link.connection
            versions = connection.api_versions if connection is not None else None
            if versions is not None and versions.features_epoch > epoch:
                level, epoch = versions.finalized_features.get(name, 0), versions.features_epoch
        return level

    # ------------------------------------------------------------------ words, any thread

    @property
    def has_connection(self) -> bool:
        """True while any broker is connected."""
        # Without a generator, as every poll() of a consumer asks.
        return True in [link.is_connected for link in tuple(self._links.values())]

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return sum(link.is_connected for link in tuple(self._links.values()))

    def failing(self, now: float) -> dict[str, str]:
        """The addresses that cannot be reached now, each with the reason; not those that nobody has tried for
        a while, as a bootstrap address since the brokers have names."""
        links = tuple(self._links.values())
        reached = {link.address for link in links if link.is_connected}
        failed = [link for link in links if link.has_failed and not link.is_at_rest(now)]
        return {link.address: link.why_not for link in failed if link.address not in reached}

    def throttled(self, now: float) -> dict[str, float]:
        """Return the brokers that throttle this client, with the remaining seconds."""
        links = [(link.name, link.throttled_for(now)) for link in tuple(self._links.values())]
        return {name: seconds for name, seconds in links if seconds > 0}

    def why_throttled(self, now: float) -> list[str]:
        """Return the throttling brokers in sentences."""
        return [
            f"{name} throttles this client: no request is sent to it for another {seconds:.1f} s."
            for name, seconds in self.throttled(now).items()
        ]

    def why_unreachable(self) -> str:
        """Return in words why no broker can be reached, with the reason for each address."""
        return f"no broker could be reached: {self.unconnected()}"

    def unconnected(self) -> str:
        """Return each address without a connection, and the reason."""
        links = [link for link in tuple(self._links.values()) if link.purpose is Purpose.MAIN]
        reasons = {link.address: link.why_not for link in links if not link.is_connected}
        for node in self._bootstrap:
            reasons.setdefault(f"{node.host}:{node.port}", "not tried yet")
        words = [why if at in why else f"{at}: {why}" for at, why in reasons.items()]
        return "; ".join(words)

    def unreachable(self, introduction: str = "") -> KafkaError:
        """The error for a call that no broker could serve: `TlsError` if that is what all of them met.

        Its cause is the last failure of one of them.
        """
        links = [link for link in tuple(self._links.values()) if link.purpose is Purpose.MAIN]
        errors = [link.last_error for link in links if not link.is_connected and link.last_error is not None]
        kind = TlsError if errors and all(isinstance(e, TlsError) for e in errors) else NoBrokersAvailable
        error = kind(introduction + self.why_unreachable())
        error.__cause__ = errors[-1] if errors else None
        return error

    # ------------------------------------------------------------------ the driver's turn

    @property
    def failures(self) -> int:
        """Lost connections and failed attempts, of all links for ever."""
        return self._failures_of_gone + sum(link.failures for link in self._links.values())

    def refusal(self, now: float) -> KafkaError | None:
        """Return the TLS or authentication error of a candidate if no candidate can be reached, or None."""
        refusal: KafkaError | None = None
        for link in self._candidates(now):
            if not link.has_failed:
                return None
            if _needs_the_user(link.last_error):
                refusal = link.last_error
        return refusal

    def rebootstrap(self) -> None:
        """Use the bootstrap addresses until the next successful metadata."""
        self._rebootstrap_until_version = self._metadata.version + 1

    def poll(self, now: float) -> float:
        """Turn every link; the earliest time at which one wants to be turned again."""
        if self._tidied_at_version != self._metadata.version:
            self._forget_gone(now)
        wake_at = min(map(QUIET_UNTIL, self._links.values()), default=FOREVER)
        if wake_at > now:
            return wake_at  # as nearly always
        wake_at = FOREVER
        for link in tuple(self._links.values()):
            link_wake_at = link.quiet_until
            if link_wake_at <= now:
                if link.node.id < 0 and link.is_connected and not link.in_flight and self._has_brokers:
                    link.close_idle(now)  # it has served: the brokers have names now
                link_wake_at = link.poll(now)
            if link_wake_at < wake_at:
                wake_at = link_wake_at
        return wake_at

    def close(self, error: KafkaError, now: float) -> None:
        tell_each([partial(link.close, error, now) for link in tuple(self._links.values())])

    # ------------------------------------------------------------------ inside

    @property
    def _has_brokers(self) -> bool:
        return bool(self._metadata.snapshot.nodes) and not self._is_rebootstrapping

    @property
    def _is_rebootstrapping(self) -> bool:
        return self._metadata.version < self._rebootstrap_until_version

    def _forget_gone(self, now: float) -> None:
        """Let go of links to brokers that nobody names any more, once they have no connection."""
        self._tidied_at_version = self._metadata.version
        named = self._metadata.snapshot.nodes
        gone = [
            key
            for key, link in self._links.items()
            if key[0] >= 0 and key[0] not in named and key[0] not in self._hints and link.is_at_rest(now)
        ]
        for key in gone:
            link = self._links.pop(key)
            self._failures_of_gone += link.failures
            link.close(Disconnected(f"{link.name} is not among the brokers any more"), now)

    def _add(self, node: Node, purpose: Purpose) -> NodeLink:
        link = self._links[node.id, purpose] = self._make_link(node, purpose)
        return link

    def _bootstrap_links(self) -> list[NodeLink]:
        return [
            self._links.get((node.id, Purpose.MAIN)) or self._add(node, Purpose.MAIN)
            for node in self._bootstrap
        ]

    def _candidates(self, now: float) -> list[NodeLink]:
        """Return the links that any request can use."""
        named = self._metadata.snapshot.nodes
        if not named or self._is_rebootstrapping:
            return self._bootstrap_links()
        links = [link for node_id in named if (link := self.link(node_id, now)) is not None]
        if self._may_rebootstrap and all(link.has_failed for link in links):
            links += self._bootstrap_links()
        return links

    def _next_to_try(self, links: list[NodeLink], now: float) -> NodeLink | None:
        now_possible = [link for link in links if link.retry_at <= now]
        if now_possible:
            # Those that failed longest ago, or never: one that takes its time to fail must not be tried again
            # and again while others have not been tried at all.
            earliest = min(link.retry_at for link in now_possible)
            return self._random.choice([link for link in now_possible if link.retry_at == earliest])
        return min(links, key=lambda link: link.retry_at, default=None)


def _needs_the_user(error: KafkaError | None) -> bool:
    """True for failures of TLS and of authentication, and for versions that do not meet: as in Java they are
    told at once, for only another configuration helps; everything else may be a broker that starts, and is
    tried again."""
    return isinstance(error, HOPELESS_ERRORS) and not error.retriable
