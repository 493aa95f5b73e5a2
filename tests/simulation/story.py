"""One story of loops, actors and faults; prints its trace hash (test_trace.py runs it)."""

from __future__ import annotations

import sys

from pykafka2.errors import KafkaError
from pykafka2.testing.simulation import Simulation
from tests.simulation.toys import Caller, EchoServer


def tell(seed: int) -> str:
    """Five callers talk to two servers while connections break; the trace hash of all that."""
    with Simulation(seed) as simulation:
        servers = [EchoServer(simulation, f"broker-{number} echo") for number in range(2)]

        def talk(number: int) -> None:
            for turn in range(20):
                caller = Caller(simulation, servers[(number + turn) % 2].endpoint)
                try:
                    caller.establish()
                    caller.exchange(f"{number}/{turn}".encode() * 50)
                except KafkaError:
                    simulation.note(f"{number} lost its connection")
                finally:
                    caller.transport.close()

        actors = [simulation.spawn(lambda number=number: talk(number)) for number in range(5)]  # type: ignore[misc]
        for _ in range(20):
            simulation.sleep(0.01)
            for connection in simulation.network.live_connections(busy=True)[:1]:
                simulation.network.break_connection(connection, "story")
        for actor in actors:
            actor.result()
        simulation.note(f"names: {sorted({actor.name for actor in actors})}")
        return simulation.trace_hash


if __name__ == "__main__":
    sys.stdout.write(tell(int(sys.argv[1])))
