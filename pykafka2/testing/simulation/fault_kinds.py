"""Kinds of faults, each a small object with start, stop, and an outcome.

A fault is effective only if it is observable: bytes were held up, a connection ended, a leader moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka2.testing.simulation.world import GROUP_ID, World
from pykafka2.testing.views.groups import coordinator_partition

if TYPE_CHECKING:
    from pykafka2.testing.simulation.links import Link
    from pykafka2.testing.simulation.pipe import Pipe
    from pykafka2.testing.simulation.transports import SimConnection

# How long a fault that needs bytes under way looks for some.
SEARCH_TIME = 0.5


# ---------------------------------------------------------------------- connections


class ConnectionFault:
    """Picks a live connection, preferably with bytes in flight; `pick` chooses."""

    def __init__(self, pick: float) -> None:
        self._pick = pick
        self._became = ""

    def start(self, world: World) -> None:
        network = world.simulation.network
        world.simulation.wait_until(lambda: bool(self.candidates(world)), SEARCH_TIME)
        candidates = self.candidates(world) or network.live_connections()
        if candidates:
            self._became = self.harm(world, candidates[int(self._pick * len(candidates))])

    def candidates(self, world: World) -> list[SimConnection]:
        return world.simulation.network.live_connections(busy=True)

    def harm(self, world: World, connection: SimConnection) -> str:
        raise NotImplementedError

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return self._became


class BreakConnection(ConnectionFault):
    def harm(self, world: World, connection: SimConnection) -> str:
        was_busy = connection.is_busy
        world.simulation.network.break_connection(connection, "fault")
        return "lost bytes" if was_busy else "was idle"


class LateBytes(ConnectionFault):
    """The client gets a reset and reconnects; its sent bytes reach the broker later."""

    def __init__(self, pick: float, late_by: float) -> None:
        super().__init__(pick)
        self._late_by = late_by

    def candidates(self, world: World) -> list[SimConnection]:
        live = world.simulation.network.live_connections(busy=True)
        return [connection for connection in live if connection.to_server.under_way]

    def harm(self, world: World, connection: SimConnection) -> str:
        had_bytes = bool(connection.to_server.under_way)
        world.simulation.network.break_for_client(connection, self._late_by)
        return "bytes came late" if had_bytes else ""


class LoseNext(ConnectionFault):
    """The next bytes in one direction are lost with the connection: a request, or the response to it."""

    def __init__(self, pick: float, to_server: bool) -> None:
        super().__init__(pick)
        self._to_server = to_server
        self._pipe: Pipe | None = None

    def harm(self, world: World, connection: SimConnection) -> str:
        self._pipe = connection.to_server if self._to_server else connection.to_client
        self._pipe.lose_next = True
        return ""

    def outcome(self, world: World) -> str:
        if self._pipe is None or self._pipe.lose_next:
            if self._pipe is not None:
                self._pipe.lose_next = False
            return ""
        return "request lost" if self._to_server else "reply lost"


# ---------------------------------------------------------------------- links


class LinkFault:
    """A temporary change of the links between two places."""

    def __init__(self, ways: list[tuple[str, str]]) -> None:
        self._ways = ways
        self._links: list[Link] = []
        self._before = 0

    def start(self, world: World) -> None:
        network = world.simulation.network
        self._links = [
            link for source, target in self._ways for link in network.links.matching(source, target)
        ]
        self._before = self.count()
        for link in self._links:
            self.change(world, link)

    def change(self, world: World, link: Link) -> None:
        link.is_cut = True

    def restore(self, link: Link) -> None:
        link.is_cut = False

    def count(self) -> int:
        return sum(link.blocked for link in self._links)

    def stop(self, world: World) -> None:
        for link in self._links:
            self.restore(link)
        world.simulation.network.links.joined()

    def outcome(self, world: World) -> str:
        return "held up" if self.count() > self._before else ""


class Clog(LinkFault):
    """A cut that ends by itself, without a call to join the link."""

    def __init__(self, ways: list[tuple[str, str]], seconds: float) -> None:
        super().__init__(ways)
        self._seconds = seconds

    def change(self, world: World, link: Link) -> None:
        link.clogged_until = world.simulation.scheduler.now + self._seconds

    def restore(self, link: Link) -> None:
        pass


class Slow(LinkFault):
    def __init__(self, ways: list[tuple[str, str]], extra_latency: float) -> None:
        super().__init__(ways)
        self._extra_latency = extra_latency

    def change(self, world: World, link: Link) -> None:
        link.extra_latency = self._extra_latency

    def restore(self, link: Link) -> None:
        link.extra_latency = 0.0

    def count(self) -> int:
        return sum(link.slowed for link in self._links)

    def outcome(self, world: World) -> str:
        return "slowed" if self.count() > self._before else ""


class BrokerLink:
    """The link between two brokers is cut: replication stalls, and the ISR may shrink."""

    def __init__(self, one: int, other: int, both: bool) -> None:
        self._one, self._other, self._both = one, other, both
        self._cut_before = 0
        self._cut_fetches = 0

    def start(self, world: World) -> None:
        self._cut_before = world.cluster.links.cut_fetches
        world.cut_link(self._one, self._other)
        if self._both:
            world.cut_link(self._other, self._one)

    def stop(self, world: World) -> None:
        self._cut_fetches = world.cluster.links.cut_fetches - self._cut_before
        world.join_link(self._one, self._other)
        if self._both:
            world.join_link(self._other, self._one)

    def outcome(self, world: World) -> str:
        return "replication cut" if self._cut_fetches else ""


# ---------------------------------------------------------------------- whole places


class Refuse:
    """A broker refuses connections, and an existing one breaks, so that a client reconnects."""

    def __init__(self, broker: int) -> None:
        self._place = f"broker-{broker}"
        self._before = 0
        self._refused = 0

    def start(self, world: World) -> None:
        network = world.simulation.network
        self._before = network.refusals
        self._set(world, True)
        for connection in network.live_connections():
            if connection.server_place == self._place:
                network.break_connection(connection, "fault")

    def stop(self, world: World) -> None:
        self._refused = world.simulation.network.refusals - self._before
        self._set(world, False)

    def outcome(self, world: World) -> str:
        return "refused" if self._refused else ""

    def _set(self, world: World, is_refusing: bool) -> None:
        for listener in world.simulation.network.listeners():
            if listener.place == self._place:
                listener.is_refusing = is_refusing


class Pause:
    """A process is paused, as in a long garbage collection."""

    def __init__(self, place: str, seconds: float) -> None:
        self._place = place
        self._seconds = seconds
        self._before = 0

    def start(self, world: World) -> None:
        scheduler = world.simulation.scheduler
        self._before = scheduler.deferred.get(self._place, 0)
        scheduler.pause(self._place, scheduler.now + self._seconds)

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return "stood still" if world.simulation.scheduler.deferred.get(self._place, 0) > self._before else ""


class Crash:
    """A broker crashes, with or without its unreplicated records, and restarts.

    Unnoticed, it is fenced only after its session timeout.  Kafka does not wait for disks, so records are
    lost only where it tolerates that: one broker at a time, and never the last one in sync.
    """

    def __init__(self, broker: int, clean: bool, unnoticed: bool = False) -> None:
        self._broker = broker
        self._clean = clean
        self._unnoticed = unnoticed
        self._became = ""

    def start(self, world: World) -> None:
        if len(world.live_brokers) <= 1 or self._broker not in world.live_brokers:
            return
        led = world.partitions_led_by(self._broker)
        # If unnoticed it stays in the ISR, and may be its last live member when others crash.
        loses = world.may_lose_a_tail(self._broker) and not self._unnoticed
        world.live_brokers.remove(self._broker)
        if self._clean:
            world.cluster.controls.stop_broker(self._broker)
        else:
            world.cluster.controls.crash_broker(
                self._broker,
                lose_unreplicated=loses,
                unnoticed=self._unnoticed,
            )
        self._became = "a leader fell" if led else "a follower fell"

    def stop(self, world: World) -> None:
        if self._became:
            world.cluster.controls.restart_broker(self._broker)
            world.live_brokers.append(self._broker)
            world.live_brokers.sort()

    def outcome(self, world: World) -> str:
        return self._became


class MoveLeader:
    def __init__(self, topic: str, partition: int, to: int) -> None:
        self._topic, self._partition, self._to = topic, partition, to
        self._became = ""

    def start(self, world: World) -> None:
        state = world.partition(self._topic, self._partition)
        if self._to == state.leader or self._to not in state.isr or self._to not in world.live_brokers:
            return
        world.move_leader(self._topic, self._partition, self._to)
        if world.partition(self._topic, self._partition).leader == self._to:
            self._became = "moved"

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return self._became


class MoveCoordinator:
    """Another broker becomes the coordinator of the group: it loads the log, the old one responds with
    errors.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._became = ""

    def start(self, world: World) -> None:
        if not world.groups.operations or self._to not in world.live_brokers:
            return
        partition = coordinator_partition(world.cluster.running, GROUP_ID, "group")
        state = world.partition(*partition)
        if state.leader != self._to and self._to in state.isr:
            world.move_leader(*partition, self._to)
            self._became = "moved"

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return self._became


# ---------------------------------------------------------------------- everywhere


class ClockJump:
    """The wall clock jumps; timers must not change."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._before = 0

    def start(self, world: World) -> None:
        self._before = world.simulation.clock.wall_readings
        world.simulation.clock.jump(self._seconds)

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return "was read" if world.simulation.clock.wall_readings > self._before else ""


class ClientClockJump:
    """The wall clock of one client jumps."""

    def __init__(self, place: str, seconds: float) -> None:
        self._place = place
        self._seconds = seconds
        self._before = 0

    def start(self, world: World) -> None:
        clock = world.simulation.clock.of(self._place)
        self._before = clock.wall_readings
        clock.jump(self._seconds)

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        was_read = world.simulation.clock.of(self._place).wall_readings > self._before
        return "was read" if was_read else ""


class Setting:
    """A temporary property of the whole network: small reads, small buffers."""

    def __init__(self, attribute: str, value: Any, counter: str, word: str) -> None:
        self._attribute, self._value, self._counter, self._word = attribute, value, counter, word
        self._normal: Any = None
        self._before = 0
        self._counted = 0

    def start(self, world: World) -> None:
        network = world.simulation.network
        self._normal = getattr(network, self._attribute)
        self._before = getattr(network, self._counter)
        setattr(network, self._attribute, self._value)

    def stop(self, world: World) -> None:
        network = world.simulation.network
        self._counted = getattr(network, self._counter) - self._before
        setattr(network, self._attribute, self._normal)
        # Writers that waited for room in the small buffer can continue.
        for connection in network.live_connections():
            connection.client.readiness_changed()
            connection.server.readiness_changed()

    def outcome(self, world: World) -> str:
        return self._word if self._counted else ""
