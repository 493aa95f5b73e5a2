"""One of the two clusters as a scenario sees it: raw requests to named brokers, every answer written down."""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pykafka2 import errors
from pykafka2.broker.base.features import release_of
from pykafka2.broker.requests import FOR_THE_CONTROLLER
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Request
from tests.broker.support.raw_client import RawClient

from ..real_kafka import RESTRICTED_PASSWORD, RESTRICTED_USER
from .plain import Plainer, request_of

TIMEOUT = 60.0
ELSEWHERE = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
TAKEN_IN = 0.05
SHORT_REPLY = 40
"""Bytes; of a longer reply to a bare frame only the beginning is written down: it names ports and more."""

Scenario = Callable[["Side"], None]
BUSY = frozenset({14, 15, 16, 51})
"""A coordinator that loads, is unknown or elsewhere still; a transaction that is being ended: ask again."""

SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Register a scenario under its function's name."""
    assert function.__name__ not in SCENARIOS
    SCENARIOS[function.__name__] = function
    return function


class Hangup(Exception):
    """The broker closed the connection instead of answering."""


class Side:
    """The cluster at these addresses, by broker id, for one run of one scenario.  Close it.

    `transcript` maps each request, numbered, to its response, as `Plainer` writes it.
    """

    def __init__(
        self,
        name: str,
        addresses: Sequence[str],
        by_sasl: Sequence[str] = (),
        release: str | None = None,
    ) -> None:
        self.name = name
        self._release = release_of(release)
        self.transcript: dict[str, Any] = {}
        self._addresses = [address.rpartition(":") for address in addresses]
        # Addresses for the client "eve", which authenticates; other clients use `_addresses`.
        self._by_sasl = [address.rpartition(":") for address in by_sasl]
        ports = (*enumerate(self._addresses), *enumerate(self._by_sasl))
        self._plainer = Plainer({int(port): broker for broker, (_, _, port) in ports})
        self._wires: dict[tuple[int, str], RawClient] = {}
        self._topics = 0

    # ------------------------------------------------------------------ requests

    def ask(
        self, label: str, api: str, version: int, broker: int = 0, client: str = "wire", **fields: Any
    ) -> Any:
        """Ask, write the answer down under the label, return it (None where there was none)."""
        version = self._known(api, version)
        try:
            response = self.quietly(api, version, broker, client, **fields)
        except Hangup:
            self.note(f"{label}: {api} v{version}", "closes the connection")
        except TimeoutError:
            self.note(f"{label}: {api} v{version}", "does not answer")
        else:
            self.note(f"{label}: {api} v{version}", response)
            return response
        self.hang_up(broker, client)
        return None

    def quietly(
        self,
        api: str,
        version: int,
        broker: int = 0,
        client: str = "wire",
        patience: float = TIMEOUT,
        **fields: Any,
    ) -> Any:
        """Ask and write nothing down.  Raises Hangup, or TimeoutError after so much patience."""
        request, version = request_of(api, fields), self._known(api, version)
        if self._release.has_zookeeper and request.API_KEY in FOR_THE_CONTROLLER:
            broker = self.quietly("Metadata", 11, topics=[]).controller_id
        ticket = self._send(request, version, broker, client)
        ticket[0].socket.settimeout(patience)
        try:
            return self._receive(request, version, ticket)
        finally:
            ticket[0].socket.settimeout(TIMEOUT)

    def eventually(
        self,
        label: str,
        until: Callable[[Any], object],
        api: str,
        version: int,
        broker: int = 0,
        client: str = "wire",
        **fields: Any,
    ) -> Any:
        """Ask until the answer is as wanted, and write down only that one; after TIMEOUT the last one."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            version = self._known(api, version)
            response = self.quietly(api, version, broker, client, **fields)
            if until(response) or time.monotonic() > deadline:
                self.note(f"{label}: {api} v{version}", response)
                return response
            time.sleep(0.02)

    def when_ready(self, label: str, api: str, version: int, broker: int = 0, **fields: Any) -> Any:
        """Ask until the answer is none of BUSY, and write that one down."""

        def is_ready(answer: Any) -> bool:
            if hasattr(answer, "error_code"):
                return answer.error_code not in BUSY
            return all(one.error_code not in BUSY for topic in answer.topics for one in topic.partitions)

        return self.eventually(label, is_ready, api, version, broker, **fields)

    def send(
        self, api: str, version: int, broker: int = 0, client: str = "wire", **fields: Any
    ) -> tuple[Any, ...]:
        """Send only, and leave the broker a moment to take it in; `receive` takes what this returns."""
        request, version = request_of(api, fields), self._known(api, version)
        ticket = self._send(request, version, broker, client)
        time.sleep(TAKEN_IN)
        # A busy machine needs longer: the answer to this shows that earlier bytes were read.
        self.quietly("ListGroups", 4, broker, "looks")
        return request, version, ticket, api

    def receive(self, label: str, sent: tuple[Any, ...]) -> Any:
        request, version, ticket, api = sent
        response = self._receive(request, version, ticket)
        self.note(f"{label}: {api} v{version}", response)
        return response

    def frame(self, label: str, data: bytes, broker: int = 0) -> None:
        """Send these bytes after their length on a connection of their own; write down what comes back."""
        self.bytes(label, struct.pack(">i", len(data)) + data, broker)

    def bytes(self, label: str, data: bytes, broker: int = 0) -> None:
        """Send these bytes, length included, on a connection of their own."""
        with self._connect(broker) as wire:
            connection = wire.socket
            connection.sendall(data)
            try:
                size = connection.recv(4, socket.MSG_WAITALL)
            except ConnectionError:
                size = b""
            if len(size) < 4:
                self.note(label, "closes the connection")
                return
            length = struct.unpack(">i", size)[0]
            reply = connection.recv(length, socket.MSG_WAITALL)
            self.note(label, reply.hex() if length <= SHORT_REPLY else f"answers {reply[:6].hex()}...")

    def note(self, label: str, value: Any) -> None:
        """Write down, numbered."""
        if value is not None and not isinstance(value, str | int | list | dict):
            value = self._plainer.plain(value)
        self.transcript[f"{len(self.transcript) + 1:02d} {label}"] = value

    def note_fixed(self, label: str, value: str) -> None:
        """Write down without a number: the same label is compared, wherever it stands."""
        self.transcript[label] = value

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until this holds, at most TIMEOUT."""
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            assert time.monotonic() < deadline, f"not so in time: {what}"
            time.sleep(0.01)

    @staticmethod
    def error(answer: Any) -> str:
        """The name of an answer's error."""
        return errors.name_of(answer.error_code)

    def _known(self, api: str, version: int) -> int:
        """Return the version, or the newest of the release if that is older, as clients negotiate it."""
        known = self._release.ranges.get(request_of(api, {}).API_KEY)
        return version if known is None else min(version, known[1])

    # ------------------------------------------------------------------ topics

    def topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        replicas: Sequence[int] = (0, 1, 2),
    ) -> str:
        """Create a topic whose leaders are the first replica; all brokers know it when this returns."""
        topic = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [
                {"partition_index": index, "broker_ids": list(replicas)} for index in range(partitions)
            ],
            "configs": [{"name": name, "value": value} for name, value in (configs or {}).items()],
        }
        created = self.quietly("CreateTopics", 7, topics=[topic], timeout_ms=10_000)
        assert created.topics[0].error_code == 0, created
        self.await_topic(name, replicas)
        return name

    def await_topic(self, name: str, replicas: Sequence[int] = (0, 1, 2)) -> None:
        """Wait until all brokers lead clients to it, with the whole ISR."""
        deadline = time.monotonic() + TIMEOUT
        waiting = [0, 1, 2]
        while waiting:
            assert time.monotonic() < deadline, f"{name} is not everywhere"
            found = self.quietly("Metadata", 12, waiting[0], topics=[{"name": name}]).topics[0]
            if found.error_code == 0 and all(
                one.leader_id == replicas[0] and len(one.isr_nodes) == len(replicas)
                for one in found.partitions
            ):
                waiting.pop(0)
            else:
                time.sleep(0.01)
        # Clients learn of a leader a moment before it knows itself that it leads.
        ends = [{"partition_index": one.partition_index, "timestamp": -1} for one in found.partitions]
        while any(self._errors("ListOffsets", 7, replicas[0], topics=[{"name": name, "partitions": ends}])):
            assert time.monotonic() < deadline, f"{name} cannot be read"
            time.sleep(0.01)

    def await_topic_in_groups(self, name: str, coordinator: int) -> None:
        """Wait until the broker that coordinates groups assigns the topic in groups of KIP-848: its
        coordinator learns of new topics after clients do.

        Groups of one member are made to look, one after the other, as the first assignment of a group comes
        at once and later ones at intervals.  They are gone when this returns.
        """
        deadline = time.monotonic() + TIMEOUT
        member: dict[str, Any] = {
            "member_id": "looks",
            "rebalance_timeout_ms": 10_000,
            "topic_partitions": [],
        }
        for number in itertools.count():
            member["group_id"] = group = f"looks-for-{name}-{number}"
            join = {**member, "member_epoch": 0, "subscribed_topic_names": [name]}
            joined = self.quietly("ConsumerGroupHeartbeat", 1, coordinator, **join)
            leave = {"group_id": group, "member_id": "looks", "member_epoch": -1}
            self.quietly("ConsumerGroupHeartbeat", 1, coordinator, **leave)
            self.quietly("DeleteGroups", 2, coordinator, groups_names=[group])
            if joined.assignment is not None and joined.assignment.topic_partitions:
                return
            assert time.monotonic() < deadline, f"no group is given {name}: {joined}"
            time.sleep(0.02)

    def _errors(self, api: str, version: int, broker: int, **fields: Any) -> list[int]:
        answer = self.quietly(api, version, broker, replica_id=-1, **fields)
        return [one.error_code for topic in answer.topics for one in topic.partitions]

    def await_topic_everywhere(self, name: str, partitions: int = 1) -> None:
        """Wait until every broker knows so many partitions at least, each with its whole ISR, of a topic not
        made by `topic`."""
        deadline = time.monotonic() + TIMEOUT
        for broker in range(3):
            while True:
                found = self.quietly("Metadata", 12, broker, topics=[{"name": name}]).topics[0]
                whole = [len(one.isr_nodes) == len(one.replica_nodes) for one in found.partitions]
                if found.error_code == 0 and len(whole) >= partitions and all(whole):
                    break
                assert time.monotonic() < deadline, f"{name} is not everywhere"
                time.sleep(0.02)

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """The leader's id."""
        found = self.quietly("Metadata", 12, topics=[{"name": topic}]).topics[0].partitions
        leader: int = next(one.leader_id for one in found if one.partition_index == partition)
        return leader

    def coordinator(self, key: str, kind: int = 0) -> int:
        """The broker that coordinates this group (kind 0) or transactional id (1), once it does."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            # Version 3, as older releases have no other form.
            found = self.quietly("FindCoordinator", 3, key_type=kind, key=key)
            if found.error_code == 0:
                node: int = found.node_id
                # Found is not yet loaded.
                if self._coordinates(node, key, kind):
                    return node
            assert time.monotonic() < deadline, f"no coordinator of {key}: {found}"
            time.sleep(0.02)

    def _coordinates(self, node: int, key: str, kind: int) -> bool:
        """Whether a broker coordinates; others hear of its election before it does."""
        if kind and ApiKey.LIST_TRANSACTIONS not in self._release.ranges:
            return True
        if kind:
            return bool(self.quietly("ListTransactions", 0, node).error_code == 0)
        if self._known("OffsetFetch", 8) < 8:
            code = self.quietly("OffsetFetch", 7, node, group_id=key, topics=[]).error_code
            return errors.name_of(code) not in ELSEWHERE
        requested = [{"group_id": key, "topics": []}]
        code = self.quietly("OffsetFetch", 8, node, groups=requested).groups[0].error_code
        return errors.name_of(code) not in ELSEWHERE

    def id_of(self, topic: str) -> bytes:
        """The topic's id."""
        found: bytes = self.quietly("Metadata", 12, topics=[{"name": topic}]).topics[0].topic_id
        return found

    # ------------------------------------------------------------------ sockets

    def hang_up(self, broker: int = 0, client: str = "wire") -> None:
        """Close that connection."""
        wire = self._wires.pop((broker, client), None)
        if wire is not None:
            wire.close()

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def _connect(self, broker: int, client: str = "") -> RawClient:
        by_sasl = self._by_sasl if client == RESTRICTED_USER else []
        wire = RawClient("".join((by_sasl or self._addresses)[broker]), client)
        wire.socket.settimeout(TIMEOUT)
        if by_sasl:
            token = f"\0{RESTRICTED_USER}\0{RESTRICTED_PASSWORD}".encode()
            for request, version in (
                (request_of("SaslHandshake", {"mechanism": "PLAIN"}), 1),
                (request_of("SaslAuthenticate", {"auth_bytes": token}), 2),
            ):
                response = wire.call(request, version)
                assert response.error_code == 0, response
        return wire

    def _send(self, request: Request[Any], version: int, broker: int, client: str) -> tuple[RawClient, int]:
        wire = self._wires.get((broker, client))
        if wire is None:
            wire = self._wires[broker, client] = self._connect(broker, client)
        try:
            return wire, wire.send(request, version)
        except ConnectionError:
            raise Hangup from None

    def _receive(self, request: Request[Any], version: int, ticket: tuple[RawClient, int]) -> Any:
        wire, correlation_id = ticket
        try:
            received, response = wire.receive(type(request), version)
        except ConnectionError:
            raise Hangup from None
        assert received == correlation_id
        return response
