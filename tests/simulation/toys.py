"""Small loops and scripts for the tests of the scheduler and the in-memory network."""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.clock import FOREVER
from pykafka2.errors import KafkaError
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.transport import READABLE, Ready, SocketOptions
from pykafka2.testing.simulation import Simulation
from pykafka2.testing.simulation.selector import SimSelector
from pykafka2.testing.simulation.transports import SimListener, SimTransport


class Ticker:
    """A loop that wants to be turned every `period` seconds."""

    def __init__(self, period: float) -> None:
        self.period = period
        self.turned_at: list[float] = []

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        self.turned_at.append(now)
        return now + self.period


class EchoServer:
    """Accepts connections and sends back what it reads, as far as there is room."""

    def __init__(self, simulation: Simulation, name: str = "broker-0 echo") -> None:
        self.simulation = simulation
        self.selector: SimSelector = simulation.network.selector()
        self.listener: SimListener = simulation.network.listen("127.0.0.1", 0)
        self.unsent: dict[SimTransport, bytes] = {}
        self.ended: list[str] = []
        self.received = b""
        self.reads = 0
        self.selector.register(self.listener, READABLE, self.listener)
        self.task = simulation.runtime.spawn(name, self, self.selector)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.listener.host, self.listener.port)

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        for source, _ in events:
            if isinstance(source, SimListener):
                while (accepted := source.accept()) is not None:
                    self.unsent[accepted] = b""
                    self.selector.register(accepted, READABLE, accepted)
            elif isinstance(source, SimTransport):
                self._serve(source)
        return FOREVER

    def _serve(self, transport: SimTransport) -> None:
        buffer = bytearray(1 << 16)
        try:
            count = transport.read_into(memoryview(buffer))
        except KafkaError as error:
            self._end(transport, str(error))
            return
        if count == 0:
            self._end(transport, "end of stream")
            return
        if count:
            self.reads += 1
            self.received += buffer[:count]
            self.unsent[transport] += bytes(buffer[:count])
        self._send(transport)

    def _send(self, transport: SimTransport) -> None:
        try:
            taken = transport.write([self.unsent[transport]])
        except KafkaError as error:
            self._end(transport, str(error))
            return
        self.unsent[transport] = self.unsent[transport][taken:]

    def _end(self, transport: SimTransport, why: str) -> None:
        self.ended.append(why)
        del self.unsent[transport]
        transport.close()


class Caller:
    """A blocking client for one actor: connects, writes, reads, with a selector of its own."""

    def __init__(self, simulation: Simulation, endpoint: Endpoint) -> None:
        self.simulation = simulation
        self.transport = simulation.network.connect(endpoint, options=SocketOptions())

    def establish(self, timeout: float = 5.0) -> bool:
        return self.simulation.wait_until(self.transport.establish, timeout)

    def exchange(self, data: bytes, timeout: float = 5.0) -> bytes:
        """Write all of it and read as much back."""
        sent, received = 0, b""
        deadline = self.simulation.now + timeout
        buffer = bytearray(1 << 16)
        while len(received) < len(data) and self.simulation.now < deadline:
            sent += self.transport.write([data[sent:]]) if sent < len(data) else 0
            count = self.transport.read_into(memoryview(buffer))
            if count is None:
                self.simulation.sleep(0.002)
            elif count == 0:
                break
            else:
                received += buffer[:count]
        return received
