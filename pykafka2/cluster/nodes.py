"""All connections of a client: one per broker, one more per coordinator, those to the bootstrap addresses.

Owned by the driver's thread; any thread can read `why_unreachable` and `has_connection` for an error message.
Bootstrap addresses have negative ids, as in Kafka, and are used until the first metadata response; they are
used again when no known broker can be reached (KIP-899).
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
    BootstrapResolutionFailed,
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
from pykafka2.interrupts import run_all
from pykafka2.options import ClientOptions
from pykafka2.protocol.struct import Request
from pykafka2.types import Node

CONFIGURATION_ERRORS = (
    TlsError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanism,
    IllegalSaslState,
    UnsupportedVersion,
)

MOST_HINTS = 100
"""The newest addresses kept of brokers that the metadata does not list."""

QUIET_UNTIL = attrgetter("quiet_until")

NodeLinkMaker = Callable[[Node, Purpose], NodeLink]


class Nodes:
    """The links by node and purpose. Opens no connection: `NodeLink.want` does."""

    def __init__(
        self, options: ClientOptions, metadata: Metadata, random: random.Random, make_link: NodeLinkMaker
    ) -> None:
        self._metadata = metadata
        self._random = random
        self._make_link = make_link
        self._may_rebootstrap = options.metadata_recovery_strategy == "rebootstrap"
        self._rebootstrap_until_version = 0
        self._resolve_timeout = options.bootstrap_resolve_timeout
        self._resolving_since: float | None = None
        """Time of the first attempt to resolve a bootstrap name."""
        self._links: dict[tuple[int, Purpose], NodeLink] = {}
        self._hints: dict[int, Node] = {}
        self._failures_of_gone = 0
        self._tidied_at_version = 0
        self._bootstrap = tuple(
            Node(-1 - index, host, port) for index, (host, port) in enumerate(options.bootstrap_servers)
        )

    # ------------------------------------------------------------------ links

    def link(self, node_id: int, now: float, purpose: Purpose = Purpose.MAIN) -> NodeLink | None:
        """Return the link to a broker, creating it if needed; None if the broker's address is unknown."""
        link = self._links.get((node_id, purpose))
        node = self._metadata.snapshot.nodes.get(node_id) or self._hints.get(node_id)
        if link is None:
            return self._add(node, purpose) if node is not None else None
        if node is not None and node is not link.node:
            link.update_node(node, now)
        return link

    def known_link(self, node_id: int, purpose: Purpose = Purpose.MAIN) -> NodeLink | None:
        """Return the link if it exists already."""
        return self._links.get((node_id, purpose))

    def hint(self, node: Node) -> None:
        """Keep an address from a response other than metadata, for a broker not listed there yet."""
        self._hints.pop(node.id, None)
        self._hints[node.id] = node
        if len(self._hints) > MOST_HINTS:
            del self._hints[next(iter(self._hints))]

    def least_busy(self, now: float, but: int | None = None) -> NodeLink | None:
        """Return the link for a request to any node: the ready one with the fewest requests in flight.

        If none is ready: one that is connecting, or else the next to try. The node with the id `but` is
        used only if all others have failed.
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
        """Return the version of this request class on the node's connection.

        Raise UnsupportedVersion if client and broker share no version, IllegalState if not connected.
        """
        link = self._links.get((node_id, Purpose.MAIN))
        if link is None or link.connection is None:
            raise IllegalState(f"node {node_id} is not connected, so its API versions are unknown")
        return link.connection.version_for(request_class)

    def supports(self, request_class: type[Request[Any]]) -> bool | None:
        """Return whether any connected broker supports this request; None without a connection."""
        known = [
            connection.api_versions.knows(request_class)
            for link in self._links.values()
            if (connection := link.connection) is not None and connection.api_versions is not None
        ]
        return any(known) if known else None

    def finalized_feature(self, name: str) -> int:
        """Return the finalized level of a cluster feature, or 0 if it is not finalized or unknown.

        Uses the connected broker with the latest features epoch.
        """
        level, epoch = 0, -2
        for link in self._links.values():
            connection = link.connection
            versions = connection.api_versions if connection is not None else None
            if versions is not None and versions.features_epoch > epoch:
                level, epoch = versions.finalized_features.get(name, 0), versions.features_epoch
        return level

    # ------------------------------------------------------------------ status, any thread

    @property
    def has_connection(self) -> bool:
        """True while any broker is connected."""
        # A list rather than a generator: every poll() of a consumer reads this.
        return True in [link.is_connected for link in tuple(self._links.values())]

    @property
    def connection_count(self) -> int:
        """The number of open connections."""
        return sum(link.is_connected for link in tuple(self._links.values()))

    def failing(self, now: float) -> dict[str, str]:
        """Return the unreachable addresses with the reasons.

        Leave out those without a recent attempt, such as bootstrap addresses after the first metadata.
        """
        links = tuple(self._links.values())
        reached = {link.address for link in links if link.is_connected}
        failed = [link for link in links if link.has_failed and not link.is_at_rest(now)]
        return {
            link.address: link.why_not.removeprefix(f"{link.address}: ")
            for link in failed
            if link.address not in reached
        }

    def throttled(self, now: float) -> dict[str, float]:
        """Return the brokers that throttle this client, with the seconds that remain."""
        links = [(link.name, link.throttled_for(now)) for link in tuple(self._links.values())]
        return {name: seconds for name, seconds in links if seconds > 0}

    def why_throttled(self, now: float) -> list[str]:
        """Return the throttling brokers as sentences."""
        links = tuple(self._links.values())
        return list(dict.fromkeys(f"{link.why_throttled(now)}." for link in links if link.throttled_for(now)))

    def explain(self, now: float) -> list[str]:
        """Return sentences about missing connections, failing addresses and throttling brokers."""
        if not self.has_connection:
            lines = [f"No broker is connected: {self.unconnected()}"]
        else:
            lines = [f"{address} cannot be reached: {why}" for address, why in self.failing(now).items()]
        return lines + self.why_throttled(now)

    def why_unreachable(self) -> str:
        """Return why no broker could be reached, with the reason for each address."""
        return f"no broker could be reached: {self.unconnected()}"

    def unconnected(self) -> str:
        """Return each address without a connection, and the reason."""
        links = [link for link in tuple(self._links.values()) if link.purpose is Purpose.MAIN]
        reasons = {link.address: link.why_not for link in links if not link.is_connected}
        for node in self._bootstrap:
            reasons.setdefault(f"{node.host}:{node.port}", "not tried yet")
        parts = [why if at in why else f"{at}: {why}" for at, why in reasons.items()]
        return "; ".join(parts)

    def unreachable(self, introduction: str = "") -> KafkaError:
        """Return the error of a call that reached no broker: TlsError if every connection failed with one.

        Its cause is the last error of one of the links.
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
        """Lost connections and failed attempts of all links, removed ones included."""
        return self._failures_of_gone + sum(link.failures for link in self._links.values())

    def refusal(self, now: float) -> KafkaError | None:
        """Return the TLS, authentication or version error of a candidate if all have failed, or None.

        A BootstrapResolutionFailed once DNS has failed for too long.
        """
        refusal = self._unresolved(now)
        for link in self._candidates(now):
            if not link.has_failed:
                return None
            if _is_configuration_error(link.last_error):
                refusal = link.last_error
        return refusal

    def forget_address(self, node: Node) -> None:
        """Forget the address of a node that is not there; no link connects to it (KIP-1242)."""
        self._metadata.forget_address(node)
        hint = self._hints.get(node.id)
        if hint is not None and (hint.host, hint.port) == (node.host, node.port):
            del self._hints[node.id]
        for purpose in Purpose:
            link = self._links.get((node.id, purpose))
            if link is not None and (link.node.host, link.node.port) == (node.host, node.port):
                link.is_misrouted = True

    def rebootstrap(self) -> None:
        """Use the bootstrap addresses until the next successful metadata response."""
        self._rebootstrap_until_version = self._metadata.version + 1

    def poll(self, now: float) -> float:
        """Poll every link that is due; return the earliest time of the next poll."""
        if self._tidied_at_version != self._metadata.snapshot.version:
            self._forget_gone(now)
        wake_at = min(map(QUIET_UNTIL, self._links.values()), default=FOREVER)
        if wake_at > now:
            return wake_at  # the usual case
        wake_at = FOREVER
        for link in tuple(self._links.values()):
            link_wake_at = link.quiet_until
            if link.node.id < 0 and link.is_connected and self._is_superfluous(link):
                link.close_idle(now)
                link_wake_at = now
            if link_wake_at <= now:
                link_wake_at = link.poll(now)
            if link_wake_at < wake_at:
                wake_at = link_wake_at
        return wake_at

    def close(self, error: KafkaError, now: float) -> None:
        run_all([partial(link.close, error, now) for link in tuple(self._links.values())])

    # ------------------------------------------------------------------ inside

    @property
    def _has_brokers(self) -> bool:
        return bool(self._metadata.snapshot.nodes) and not self._is_rebootstrapping

    def _is_superfluous(self, link: NodeLink) -> bool:
        """Return whether the brokers of the metadata serve instead of this connected bootstrap address.

        The only connection stays: it shows that the client reaches its cluster.
        """
        return not link.in_flight and self._has_brokers and self.connection_count > 1

    @property
    def _is_rebootstrapping(self) -> bool:
        return self._metadata.version < self._rebootstrap_until_version

    def _forget_gone(self, now: float) -> None:
        """Remove unconnected links to brokers that neither the metadata nor a hint lists any more."""
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
            link.close(Disconnected(f"{link.name} is no longer in the cluster's metadata"), now)

    def _add(self, node: Node, purpose: Purpose) -> NodeLink:
        link = self._links[node.id, purpose] = self._make_link(node, purpose)
        return link

    def _unresolved(self, now: float) -> KafkaError | None:
        """Return the error of bootstrap names of which none has resolved within the timeout (KIP-909)."""
        since, timeout = self._resolving_since, self._resolve_timeout
        if not timeout or since is None or now - since < timeout or self._metadata.version:
            return None
        links = self._bootstrap_links(now)
        if any(link.has_resolved for link in links):
            return None
        names = ", ".join(dict.fromkeys(node.host for node in self._bootstrap))
        return BootstrapResolutionFailed(
            f"DNS resolved no name of bootstrap_servers ({names}) within bootstrap_resolve_timeout_ms, "
            f"{timeout:g} s: {links[0].why_not}"
        )

    def _bootstrap_links(self, now: float) -> list[NodeLink]:
        if self._resolving_since is None:
            self._resolving_since = now
        return [
            self._links.get((node.id, Purpose.MAIN)) or self._add(node, Purpose.MAIN)
            for node in self._bootstrap
        ]

    def _candidates(self, now: float) -> list[NodeLink]:
        """Return the links for requests to any node."""
        named = self._metadata.snapshot.nodes
        if not named or self._is_rebootstrapping:
            return self._bootstrap_links(now)
        links = [link for node_id in named if (link := self.link(node_id, now)) is not None]
        if self._may_rebootstrap and all(link.has_failed for link in links):
            links += self._bootstrap_links(now)
        return links

    def _next_to_try(self, links: list[NodeLink], now: float) -> NodeLink | None:
        now_possible = [link for link in links if link.retry_at <= now]
        if now_possible:
            # The earliest retry_at first: a node that fails slowly must not keep others from being tried.
            earliest = min(link.retry_at for link in now_possible)
            return self._random.choice([link for link in now_possible if link.retry_at == earliest])
        return min(links, key=lambda link: link.retry_at, default=None)


def _is_configuration_error(error: KafkaError | None) -> bool:
    """Return True for TLS, authentication and version errors.

    As in the Java client they are raised at once, because only another configuration helps. Other errors can
    come from a broker that is starting, so they are retried.
    """
    return isinstance(error, CONFIGURATION_ERRORS) and not error.retriable
