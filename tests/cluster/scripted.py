"""A cluster whose answers a test writes, and a runtime in virtual time that turns a client against it.

Everything of the client is real down to the transport; the brokers decode real frames and answer what the
test's handlers say.  One thread, no sockets, no sleeping: `wait_until` turns the loops and jumps the clock.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import attrs

from pykafka2.clock import FOREVER, SeededEntropy
from pykafka2.cluster.client import ClusterClient
from pykafka2.driver.runtime import Outcome, Step, ignore_error
from pykafka2.driver.wait_queue import Waiter, WaitQueue, Watched
from pykafka2.errors import Disconnected, NoBrokersAvailable
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.frames import FrameReader
from pykafka2.network.script import Lane
from pykafka2.network.transport import READABLE, WRITABLE, Buffer, Ready, SocketOptions
from pykafka2.options import ClientOptions, OptionTable
from pykafka2.protocol.framing import decode_request, encode_response
from pykafka2.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykafka2.protocol.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from pykafka2.protocol.registry import API_KEYS
from pykafka2.protocol.struct import Request, Response

T = TypeVar("T")
R = TypeVar("R", bound=Response)

BOOTSTRAP = "broker-0:9092"
CLIENT_OPTIONS = OptionTable(ClientOptions)
TELEMETRY = (GetTelemetrySubscriptionsRequest.API_KEY, PushTelemetryRequest.API_KEY)


class Hold:
    """A handler's answer: none, until the test calls `release`."""

    def __init__(self) -> None:
        self.release: Callable[[Response], None] = lambda response: None


class Drop:
    """A handler's answer: the connection ends instead."""


@attrs.define
class Raw:
    """A handler's answer: these bytes, whatever they are."""

    data: bytes


@attrs.define
class Later:
    """A handler's answer: what `make` gives, after so many seconds; sooner if the test calls `now`."""

    seconds: float
    make: Callable[[], Response]
    now: Callable[[], None] = lambda: None


Answer = Response | Hold | Drop | Later | Raw
Handler = Callable[[Any, "ScriptedBroker"], Answer]


class VirtualClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now * 1000)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000


@attrs.define(eq=False)
class Transport:
    """The client's end of a connection to a scripted broker."""

    network: Network
    broker: ScriptedBroker | None
    peer: str
    received: bytearray = attrs.Factory(bytearray)
    replies: deque[list[bytes]] = attrs.Factory(deque)
    reader: FrameReader = attrs.Factory(lambda: FrameReader("client"))
    is_open: bool = False
    is_broken: bool = False
    is_closed: bool = False

    def establish(self) -> bool:
        if self.broker is None or not self.broker.is_up:
            raise Disconnected(f"{self.peer}: nothing listens there (connection refused)")
        self.is_open = True
        self.broker.transports.append(self)
        return True

    def interest(self) -> int:
        return READABLE if self.is_open else WRITABLE

    def read_into(self, buffer: memoryview) -> int | None:
        if self.received:
            count = min(len(buffer), len(self.received))
            buffer[:count] = self.received[:count]
            del self.received[:count]
            return count
        return 0 if self.is_broken else None

    def write(self, buffers: Sequence[Buffer]) -> int:
        if self.is_broken or self.broker is None:
            raise Disconnected(f"{self.peer}: the peer reset the connection")
        data = b"".join(buffers)
        view = memoryview(data)
        while view:
            target = self.reader.buffer()
            count = min(len(target), len(view))
            target[:count] = view[:count]
            view = view[count:]
            for frame in self.reader.received(count):
                self.broker.on_frame(self, frame)
        return len(data)

    def close(self, *, reset: bool = False) -> None:
        self.is_closed = True

    def readiness(self) -> int:
        if not self.is_open:
            return WRITABLE
        return READABLE if self.received or self.is_broken else 0


class Selector:
    def __init__(self) -> None:
        self.registered: dict[Transport, tuple[int, object]] = {}
        self.is_woken = False

    def register(self, source: Any, interest: int, data: object) -> None:
        self.registered[source] = (interest, data)

    modify = register

    def unregister(self, source: Any) -> None:
        self.registered.pop(source, None)

    def select(self, timeout: float | None) -> list[Ready]:
        self.is_woken = False
        return [
            (data, bits)
            for source, (interest, data) in self.registered.items()
            if (bits := source.readiness() & interest)
        ]

    def has_ready(self) -> bool:
        return self.is_woken or any(s.readiness() & i for s, (i, _) in self.registered.items())

    def wake(self) -> None:
        self.is_woken = True

    def close(self) -> None:
        self.registered.clear()


class Network:
    def __init__(self) -> None:
        self.brokers: dict[tuple[str, int], ScriptedBroker] = {}
        self.unresolvable: set[str] = set()
        self.connects: list[Endpoint] = []
        self.server_names: list[str | None] = []

    def selector(self) -> Selector:
        return Selector()

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> list[Endpoint]:
        if host in self.unresolvable:
            raise NoBrokersAvailable(f"DNS cannot resolve {host!r}")
        return [Endpoint(host, port, name=f"canonical.{host}" if canonical else None)]

    def connect(
        self,
        endpoint: Endpoint,
        *,
        options: SocketOptions,
        tls: object = None,
        server_name: str | None = None,
    ) -> Transport:
        self.connects.append(endpoint)
        self.server_names.append(server_name)
        broker = self.brokers.get((endpoint.host, endpoint.port))
        return Transport(self, broker, str(endpoint))

    def listen(self, host: str, port: int, *, tls: object = None) -> Any:
        raise NotImplementedError


@attrs.define(eq=False)
class VirtualTask:
    name: str
    step: Step
    selector: Selector
    wake_at: float = -FOREVER
    error: BaseException | None = None
    is_stopped: bool = False
    is_running: bool = False
    turns: int = 0
    worked: float = 0.0

    def wake(self) -> None:
        self.selector.wake()

    def stop(self, timeout: float = 5.0) -> bool:
        self.is_stopped = True
        return True

    def is_due(self, now: float) -> bool:
        return not self.is_stopped and (self.wake_at <= now or self.selector.has_ready())

    def turn(self, now: float) -> None:
        self.is_running = True
        try:
            self.wake_at = self.step.run_once(now, self.selector.select(0))
        finally:
            self.is_running = False


class VirtualRuntime:
    """A `Runtime` whose loops are turned by the waiting caller."""

    def __init__(self, network: Network, seed: int = 0) -> None:
        self.clock: Any = VirtualClock()
        self.entropy: Any = SeededEntropy(seed)
        self.network: Any = network
        self.tasks: list[VirtualTask] = []
        self._timers: dict[Callable[[], None], float] = {}

    def call_later(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        """Run `call` at a later moment, once; the returned function runs it sooner."""

        def fire() -> None:
            if self._timers.pop(fire, None) is not None:
                call()

        self._timers[fire] = self.clock.now + seconds
        return fire

    def spawn(
        self,
        name: str,
        step: Step,
        selector: Any = None,
        on_failed: Callable[[BaseException], None] = ignore_error,
    ) -> VirtualTask:
        task = VirtualTask(name, step, selector)
        self.tasks.append(task)
        return task

    def wait_until(self, predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        deadline = self.clock.now + timeout
        for _ in range(100_000):
            if predicate():
                return True
            for fire in [fire for fire, at in self._timers.items() if at <= self.clock.now]:
                fire()
            due = [task for task in self.tasks if task.is_due(self.clock.now)]
            for task in due:
                task.turn(self.clock.now)
            if due:
                continue
            if self.clock.now >= deadline:
                return predicate()
            wake_ups = [task.wake_at for task in self.tasks if not task.is_stopped]
            self.clock.now = min([deadline, *wake_ups, *self._timers.values()])
        raise AssertionError(
            "the loops turn without end: a callback asks to be called again at once, every time"
        )

    def run_for(self, seconds: float) -> None:
        self.wait_until(lambda: False, seconds)

    def notify(self) -> None:
        pass

    def check_waiters(self) -> None:
        pass

    def join(self, waiter: Waiter, watched: Watched | None) -> None:
        pass

    def leave(self, waiter: Waiter, watched: Watched | None) -> None:
        pass

    def offload(
        self, work: Callable[[], T], then: Callable[[Outcome[T]], None], lane: Lane = Lane.COMPUTING
    ) -> None:
        try:
            outcome: Outcome[T] = Outcome(work())
        except Exception as error:
            outcome = Outcome(error=error)
        then(outcome)

    def is_current(self, task: Any) -> bool:
        return bool(task.is_running)

    def is_in_a_loop(self) -> bool:
        return False

    def close(self) -> None:
        pass


@attrs.define(eq=False)
class Seen:
    """A request that a broker received."""

    at: float
    version: int
    request: Any


class ScriptedBroker:
    """Decodes requests, keeps them in `seen`, and answers with what the handlers say."""

    def __init__(self, cluster: ScriptedCluster, node_id: int) -> None:
        self.cluster = cluster
        self.id = node_id
        self.host, self.port = f"broker-{node_id}", 9092
        self.is_up = True
        self.handlers: dict[type[Request[Any]], Handler] = {}
        self.transports: list[Transport] = []
        self.seen: list[Seen] = []
        self.versions = {
            key: (api.min_version, api.max_version)
            for key, api in API_KEYS.items()
            if key not in TELEMETRY  # as a broker that receives no metrics of clients
        }

    def on(self, request: type[Request[R]], handler: Callable[[Any, ScriptedBroker], Answer]) -> None:
        self.handlers[request] = handler

    def requests(self, request: type[Request[Any]]) -> list[Any]:
        return [one.request for one in self.seen if isinstance(one.request, request)]

    def stop(self) -> None:
        """Stop listening and reset all connections."""
        self.is_up = False
        self.disconnect()

    def disconnect(self) -> None:
        for transport in self.transports:
            transport.is_broken = True
        self.transports.clear()

    def on_frame(self, transport: Transport, frame: Any) -> None:
        header, request = decode_request(frame)
        version = header.request_api_version
        self.seen.append(Seen(self.cluster.runtime.clock.now, version, request))
        answer = self.answer(request)

        # As a real broker, it answers one connection in order, so what is held holds up what comes after.
        reply: list[bytes] = []
        transport.replies.append(reply)

        def send(response: Response) -> None:
            reply.append(b"".join(encode_response(response, version, header.correlation_id)))
            while transport.replies and transport.replies[0]:
                transport.received += transport.replies.popleft()[0]

        if isinstance(answer, Hold):
            answer.release = send
        elif isinstance(answer, Later):
            make = answer.make
            answer.now = self.cluster.runtime.call_later(answer.seconds, lambda: send(make()))
        elif isinstance(answer, Raw):
            transport.received += answer.data
        elif isinstance(answer, Drop):
            transport.is_broken = True
        else:
            send(answer)

    def answer(self, request: Any) -> Answer:
        handler = self.handlers.get(type(request)) or self.cluster.handlers.get(type(request))
        if handler is not None:
            return handler(request, self)
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=key, min_version=low, max_version=high)
                    for key, (low, high) in self.versions.items()
                ]
            )
        if isinstance(request, MetadataRequest):
            return self.cluster.metadata(request)
        raise AssertionError(f"the test has no answer to {request!r}")


@attrs.define
class ScriptedTopic:
    leaders: list[int]
    """The leader of each partition; -1 for none."""
    epochs: list[int]
    topic_id: bytes
    error_code: int = 0


class ScriptedCluster:
    """Brokers with topics, whose leaders a test sets, and a runtime to turn clients in."""

    def __init__(self, brokers: int = 1, topics: dict[str, list[int]] | None = None, seed: int = 0) -> None:
        self.network = Network()
        self.runtime = VirtualRuntime(self.network, seed)
        self.handlers: dict[type[Request[Any]], Handler] = {}
        self.brokers = [ScriptedBroker(self, node_id) for node_id in range(brokers)]
        for broker in self.brokers:
            self.network.brokers[broker.host, broker.port] = broker
        self.controller_id = 0
        self.topics: dict[str, ScriptedTopic] = {}
        self._ids = random.Random(seed)
        for name, leaders in (topics or {}).items():
            self.add_topic(name, leaders)

    @property
    def now(self) -> float:
        return float(self.runtime.clock.now)

    def add_topic(self, name: str, leaders: Iterable[int]) -> ScriptedTopic:
        leaders = list(leaders)
        topic = ScriptedTopic(leaders, [0] * len(leaders), self._ids.randbytes(16))
        self.topics[name] = topic
        return topic

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        self.topics[topic].leaders[partition] = to
        self.topics[topic].epochs[partition] += 1

    def on(self, request: type[Request[Any]], handler: Handler) -> None:
        """Answer on every broker that has no handler of its own for it."""
        self.handlers[request] = handler

    def requests(self, request: type[Request[Any]]) -> list[Any]:
        seen = sorted((one for broker in self.brokers for one in broker.seen), key=lambda one: one.at)
        return [one.request for one in seen if isinstance(one.request, request)]

    def client(self, **options: Any) -> ClusterClient:
        parsed = CLIENT_OPTIONS.parse(None, {"bootstrap_servers": BOOTSTRAP, **options})
        return ClusterClient(parsed, name="client", runtime=self.runtime)

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = {topic.topic_id: name for name, topic in self.topics.items()}
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=broker.id, host=broker.host, port=broker.port)
                for broker in self.brokers
                if broker.is_up
            ],
            cluster_id="scripted",
            controller_id=self.controller_id,
            topics=[
                self._topic_response(
                    one.name if one.name is not None else names.get(one.topic_id), one.topic_id
                )
                for one in (
                    [MetadataRequestTopic(name=name) for name in self.topics]
                    if request.topics is None
                    else request.topics
                )
            ],
        )

    def _topic_response(self, name: str | None, topic_id: bytes) -> MetadataResponseTopic:
        if name is None:
            return MetadataResponseTopic(error_code=100, name=None, topic_id=topic_id, partitions=[])
        topic = self.topics.get(name)
        if topic is None or topic.error_code:
            code = 3 if topic is None else topic.error_code
            return MetadataResponseTopic(error_code=code, name=name, partitions=[])
        return MetadataResponseTopic(
            name=name,
            topic_id=topic.topic_id,
            partitions=[
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=epoch,
                    replica_nodes=[leader],
                    isr_nodes=[leader],
                )
                for index, (leader, epoch) in enumerate(zip(topic.leaders, topic.epochs, strict=True))
            ],
        )
