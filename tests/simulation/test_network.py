"""The in-memory network against a server that echoes."""

from __future__ import annotations

import pytest

from pykafka2.errors import ConfigurationError, Disconnected, NoBrokersAvailable
from pykafka2.network.endpoint import Endpoint
from pykafka2.testing.simulation import Simulation
from tests.simulation.toys import Caller, EchoServer


def test_bytes_go_there_and_back_in_order() -> None:
    with Simulation(1) as simulation:
        server = EchoServer(simulation)
        caller = Caller(simulation, server.endpoint)
        assert not caller.transport.establish()
        assert caller.establish()
        data = bytes(range(256)) * 1000
        assert caller.exchange(data) == data
        assert server.received == data


@pytest.mark.parametrize("seed", range(5))
def test_reads_are_cut_into_pieces_by_the_seed(seed: int) -> None:
    with Simulation(seed) as simulation:
        simulation.network.slicing = 1.0
        server = EchoServer(simulation)
        caller = Caller(simulation, server.endpoint)
        caller.establish()
        data = bytes(range(100))
        assert caller.exchange(data) == data
        assert server.reads > 3


def test_a_reader_that_does_not_read_stops_its_writer() -> None:
    with Simulation(1) as simulation:
        simulation.network.buffer_bytes = 1000
        listener = simulation.network.listen("127.0.0.1", 0)
        caller = Caller(simulation, Endpoint(listener.host, listener.port))
        caller.establish()
        accepted = listener.accept()
        assert accepted is not None
        assert caller.transport.write([b"x" * 600, b"y" * 600]) == 1000
        simulation.sleep(1)
        assert caller.transport.write([b"z"]) == 0
        buffer = memoryview(bytearray(700))
        taken = accepted.read_into(buffer)
        assert taken
        assert caller.transport.write([b"z" * 1000]) == taken
        caller.transport.close()
        accepted.close()
        listener.close()


def test_connection_refused_names_the_address() -> None:
    with Simulation(1) as simulation:
        caller = Caller(simulation, Endpoint("127.0.0.1", 9))
        with pytest.raises(Disconnected, match=r"127.0.0.1:9: .*refused"):
            caller.establish()


def test_unknown_names_do_not_resolve_and_known_ones_give_all_addresses() -> None:
    with Simulation(1) as simulation:
        simulation.network.names["kafka"] = ["10.0.0.1", "10.0.0.2"]
        assert [e.host for e in simulation.network.resolve("kafka", 1)] == ["10.0.0.1", "10.0.0.2"]
        with pytest.raises(NoBrokersAvailable, match="nowhere"):
            simulation.network.resolve("nowhere", 1)


def test_an_address_is_listened_on_once() -> None:
    with Simulation(1) as simulation:
        listener = simulation.network.listen("127.0.0.1", 9092)
        with pytest.raises(ConfigurationError, match="in use"):
            simulation.network.listen("127.0.0.1", 9092)
        listener.close()
        simulation.network.listen("127.0.0.1", 9092).close()


def test_a_clean_close_arrives_after_the_bytes_before_it() -> None:
    with Simulation(1) as simulation:
        server = EchoServer(simulation)
        caller = Caller(simulation, server.endpoint)
        caller.establish()
        caller.transport.write([b"last words"])
        caller.transport.close()
        simulation.sleep(1)
        assert server.received == b"last words"
        # The echo met a closed end, so what comes back is either the end or a reset.
        assert len(server.ended) == 1
        assert simulation.network.connections == {}


def test_a_broken_connection_raises_at_both_ends() -> None:
    with Simulation(1) as simulation:
        server = EchoServer(simulation)
        caller = Caller(simulation, server.endpoint)
        caller.establish()
        caller.exchange(b"hello")
        (connection,) = simulation.network.live_connections()
        simulation.network.break_connection(connection, "test")
        with pytest.raises(Disconnected, match="reset"):
            caller.exchange(b"hello")
        simulation.sleep(1)
        assert len(server.ended) == 1


def test_cut_is_one_way_and_blocked_bytes_arrive_after_it() -> None:
    with Simulation(1) as simulation:
        server = EchoServer(simulation)
        caller = Caller(simulation, server.endpoint)
        caller.establish()
        simulation.network.cut("broker-0", "main")
        assert caller.exchange(b"hello", timeout=5) == b""
        assert server.received == b"hello"
        assert simulation.network.links.between("broker-0", "main").blocked > 0
        simulation.network.join("broker-0", "main")
        simulation.sleep(0.1)
        assert caller.transport.read_into(memoryview(bytearray(10)))


def test_lasting_cut_closes_the_connection_of_the_sender() -> None:
    with Simulation(1) as simulation:
        server = EchoServer(simulation)
        caller = Caller(simulation, server.endpoint)
        caller.establish()
        simulation.network.cut("main", "broker-0")
        with pytest.raises(Disconnected, match="timed out"):
            caller.exchange(b"hello", timeout=60)
        assert server.received == b""
        simulation.network.heal()
        simulation.sleep(1)
        assert server.received == b""
        assert "timed out" in server.ended[0]


def test_connecting_through_a_cut_waits_for_its_end() -> None:
    with Simulation(1) as simulation:
        server = EchoServer(simulation)
        simulation.network.cut("main", "broker-0")
        caller = Caller(simulation, server.endpoint)
        assert not caller.establish(timeout=5)
        simulation.network.heal()
        assert caller.establish(timeout=2)


def test_a_clog_delays_and_loses_nothing() -> None:
    with Simulation(1) as simulation:
        server = EchoServer(simulation)
        caller = Caller(simulation, server.endpoint)
        caller.establish()
        simulation.network.clog("main", "broker-0", 3.0)
        began = simulation.now
        assert caller.exchange(b"hello") == b"hello"
        assert simulation.now - began >= 3.0


def test_bytes_of_a_dead_connection_may_arrive_late() -> None:
    with Simulation(1) as simulation:
        server = EchoServer(simulation)
        caller = Caller(simulation, server.endpoint)
        caller.establish()
        caller.transport.write([b"ghost"])
        (connection,) = simulation.network.live_connections(busy=True)
        simulation.network.break_for_client(connection, late_by=2.0)
        with pytest.raises(Disconnected):
            caller.transport.establish()
        simulation.sleep(1)
        assert server.received == b""
        simulation.sleep(2)
        assert server.received == b"ghost"
        assert "reset" in server.ended[0]


def test_the_next_bytes_can_be_lost_with_their_connection() -> None:
    with Simulation(1) as simulation:
        server = EchoServer(simulation)
        caller = Caller(simulation, server.endpoint)
        caller.establish()
        (connection,) = simulation.network.live_connections()
        connection.to_client.lose_next = True
        with pytest.raises(Disconnected):
            caller.exchange(b"hello")
        assert server.received == b"hello"


def test_bandwidth_makes_large_things_slow() -> None:
    with Simulation(1) as simulation:
        simulation.network.links.between("main", "broker-0").bytes_per_second = 1000.0
        server = EchoServer(simulation)
        caller = Caller(simulation, server.endpoint)
        caller.establish()
        assert caller.exchange(b"x" * 2000, timeout=10) == b"x" * 2000
        assert simulation.now >= 2.0
