"""The coordinators' bench on a running cluster: the same short requests, over the wire, in virtual time.

Each request that waits has a connection of its own, as each member of a real group has.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

from pykafka2.broker.coordinators.groups.shard import GroupShard
from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC, partition_for
from pykafka2.broker.coordinators.replay import Deferred
from pykafka2.errors import CoordinatorNotAvailable
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.struct import Request, Response
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from pykafka2.testing.views.groups import GroupView
from tests.broker.support.bench import GROUP, Bench
from tests.broker.support.raw_client import RawClient

R = TypeVar("R", bound=Response)

TOPICS = {"orders": 6, "refunds": 3}
PARTITION = (OFFSETS_TOPIC, partition_for(GROUP, 50))
A_MOMENT = 0.05
"""Virtual seconds within which a broker answers what it need not wait for."""


class Reply(Deferred[R]):
    """A response that comes over the wire."""

    __slots__ = ("_bench", "wire")

    def __init__(self, bench: GroupBench, wire: RawClient, request: Request[R], version: int) -> None:
        super().__init__(request, version)
        self._bench = bench
        self.wire = wire

    def look(self) -> None:
        """Take the reply if it has come."""
        if not self.is_done and self.wire.has_response():
            self.complete(self.wire.receive(type(self.request), self.version)[1])
            self._bench.idle.append(self.wire)


class GroupBench(Bench):
    """`Bench` whose coordinator is a broker of a simulated cluster.

    `reload` moves the group's partition to another broker; `now` is the simulation's.
    """

    def __init__(
        self,
        simulation: Simulation,
        brokers: int = 1,
        config: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.group_id = GROUP
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(brokers, TOPICS, config=config or {}, **options)
        self.idle: list[RawClient] = []
        self.waiting: list[Reply[Any]] = []
        self.find()

    # -- where and when -----------------------------------------------------------------------------

    def find(self, broker: int = 0) -> int:
        """The coordinator's broker id, as a broker says it."""
        wire = self.wire(broker)
        asked = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id])
        (found,) = wire.call(asked, 6).coordinators
        if found.error_code:
            raise CoordinatorNotAvailable(found.error_message or "")
        self.coordinator = found.node_id
        wire.close()
        return found.node_id

    def wire(self, broker: int, client_id: str = "client") -> RawClient:
        """A new connection to a broker."""
        return RawClient(self.cluster.broker(broker).address, client_id, simulation=self.simulation)

    @property
    def group(self) -> GroupView:
        return self.cluster.group(self.group_id)

    @property
    def shard(self) -> GroupShard:  # type: ignore[override]
        broker = self.cluster.broker(self.cluster.coordinator(self.group_id))
        return broker.coordinators.groups.shards[partition_for(self.group_id, 50)]

    @property
    def now(self) -> float:  # type: ignore[override]
        return self.simulation.now

    def advance(self, seconds: float) -> None:
        """Let virtual time pass; what has been answered by then is there."""
        self.simulation.run_for(seconds)
        self.look()

    def reload(self) -> None:
        """Have another broker coordinate the group; what waited is answered by then."""
        to = (self.coordinator + 1) % len(self.cluster.brokers)
        self.cluster.controls.move_coordinator(self.group_id, to)
        self.moved(to)

    def moved(self, to: int) -> None:
        """The group is coordinated by this broker now: ask there."""
        self.advance(A_MOMENT)
        for wire in self.idle:
            wire.close()
        self.idle.clear()
        self.coordinator = to

    # -- asking -------------------------------------------------------------------------------------

    def ask(self, request: Request[R], version: int | None = None, client: str = "client") -> Reply[R]:
        """Send a request, and give the broker a moment."""
        version = request.MAX_VERSION if version is None else version
        while self.idle and not self.idle[-1].is_open():
            self.idle.pop().close()
        wire = self.idle.pop() if self.idle else self.wire(self.coordinator)
        wire.send(request, version)
        reply = Reply(self, wire, request, version)
        self.waiting.append(cast("Reply[Any]", reply))
        deadline = self.now + A_MOMENT
        while not reply.is_done and self.now < deadline:
            self.advance(0.002)
        return reply

    def look(self) -> None:
        for reply in self.waiting:
            reply.look()
        self.waiting = [reply for reply in self.waiting if not reply.is_done]


def code(reply: Deferred[Any]) -> int | None:
    """The error code; None while it waits."""
    return None if reply.response is None else int(reply.response.error_code)
