"""OAUTHBEARER tokens from coroutines: on the client's loop, in virtual time, with a limit."""

from __future__ import annotations

import asyncio
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from pykafka2.aio import KafkaConsumer, KafkaProducer
from pykafka2.aio.aiokafka_options import TokenOfLoop
from pykafka2.aio.bridge import Bridge
from pykafka2.errors import IllegalState, SaslAuthenticationFailed
from pykafka2.network.sasl.oauth_token import Token
from pykafka2.testing import KafkaCluster, Listener, Simulation
from tests.aio.running import run

LISTENERS = {"SASL_PLAINTEXT": Listener(mechanisms=["OAUTHBEARER"])}


def security(call: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": call,
    }


def play(seed: int) -> tuple[list[float], list[bytes | None], str]:
    """Send and read with three brokers; the token takes a virtual second."""
    with Simulation(seed) as simulation:
        cluster: KafkaCluster = simulation.cluster(3, {"orders": 3}, listeners=LISTENERS)
        calls: list[float] = []

        async def token() -> str:
            calls.append(simulation.now)
            await asyncio.sleep(1)
            return cluster.token("alice")

        def options(place: str) -> dict[str, Any]:
            runtime = simulation.runtime.at(place)
            return {"bootstrap_servers": cluster.bootstrap_servers, "runtime": runtime, **security(token)}

        async def main() -> list[bytes | None]:
            async with KafkaProducer(**options("shop")) as producer:
                for partition in range(3):
                    await producer.send_and_wait("orders", b"%d" % partition, partition=partition)
            found: list[bytes | None] = []
            reader = options("office") | {"auto_offset_reset": "earliest"}
            async with KafkaConsumer("orders", **reader) as consumer:
                async for record in consumer:
                    found.append(record.value)
                    if len(found) == 3:
                        return sorted(found, key=str)
            return found

        return calls, simulation.run(main), simulation.trace_hash


@pytest.mark.gate
@pytest.mark.parametrize("seed", range(3))
def test_coroutine_of_a_token_provider_runs_in_virtual_time(seed: int) -> None:
    began = time.monotonic()
    calls, found, trace = play(seed)
    assert found == [b"0", b"1", b"2"]
    assert len(calls) == 2  # connections of one client that open at the same time share a token
    assert play(seed) == (calls, found, trace)
    assert time.monotonic() - began < 60


def test_connections_that_open_together_call_the_provider_one_after_the_other() -> None:
    with Simulation(seed=1) as simulation:
        cluster: KafkaCluster = simulation.cluster(3, {"orders": 3}, listeners=LISTENERS)
        calls: list[float] = []

        async def token() -> Token:
            calls.append(simulation.now)
            await asyncio.sleep(1)
            return Token(cluster.token("alice"))  # without an expiry each connection needs its own

        async def main() -> None:
            async with KafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers,
                runtime=simulation.runtime.at("shop"),
                **security(token),
            ) as producer:
                await producer.partitions_for("orders")
                sending = [producer.send_and_wait("orders", b"v", partition=number) for number in range(3)]
                await asyncio.gather(*sending)

        simulation.run(main)
        assert len(calls) >= 3
        assert all(later - earlier >= 1 for earlier, later in pairwise(calls))


def test_token_of_a_closed_loop_raises_at_once() -> None:
    bridge = Bridge("KafkaProducer", None)
    provider = TokenOfLoop(bridge, lambda: None)
    with pytest.raises(
        IllegalState, match="the event loop of this client has closed; create a client in each loop"
    ):
        provider.token()

    async def enter() -> None:
        bridge.enter()

    asyncio.run(enter())
    with pytest.raises(
        IllegalState, match="the event loop of this client has closed; create a client in each loop"
    ):
        provider.token()
    bridge.runtime.close()


def test_token_that_takes_too_long_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka2.aio.aiokafka_options.TOKEN_TIMEOUT", 0.05)
    ended: list[str] = []

    async def never() -> str:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(threading.current_thread().name)
        return "unused"

    async def program() -> None:
        bridge = Bridge("KafkaProducer", None)
        bridge.enter()
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(TokenOfLoop(bridge, never).token)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ended == ["MainThread"]
        assert asyncio.all_tasks() == {asyncio.current_task()}
        bridge.runtime.close()

    run(program())


@pytest.mark.kafka(brokers=1, topics=["orders"], listeners=LISTENERS)
def test_exception_of_a_token_coroutine_is_the_cause_of_the_failed_login(kafka_cluster: KafkaCluster) -> None:
    async def token() -> str:
        raise ZeroDivisionError

    async def program() -> None:
        producer = KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, max_block_ms=10_000, **security(token)
        )
        with pytest.raises(SaslAuthenticationFailed, match="raised ZeroDivisionError"):
            await producer.start()

    run(program())


@pytest.mark.kafka(brokers=3, topics={"orders": 3}, listeners=LISTENERS)
def test_connections_that_open_together_get_a_token_each_over_sockets(kafka_cluster: KafkaCluster) -> None:
    running: list[int] = []

    async def token() -> Token:
        running.append(1)
        assert sum(running) == 1  # one after the other
        await asyncio.sleep(0.05)
        running.append(-1)
        return Token(kafka_cluster.token("alice"))

    async def program() -> None:
        async with KafkaProducer(
            bootstrap_servers=kafka_cluster.bootstrap_servers, **security(token)
        ) as producer:
            await asyncio.gather(
                *(producer.send_and_wait("orders", b"v", partition=number) for number in range(3))
            )

    run(program())
    assert running.count(1) >= 3
