"""Coordinators lie to a transactional producer: what was not acknowledged is never said to be committed."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import KafkaError
from pykafka2.testing import QUICK, Simulation
from tests.gate import rest_in_gate
from tests.hostile_brokers.liar import End, Silence
from tests.hostile_brokers.lies import Lie, body, body_of, saying, setting
from tests.hostile_brokers.worlds import BAD, World, check, ending

pytestmark = pytest.mark.slow

BEGIN, END, FIND = "InitProducerId", "EndTxn", "FindCoordinator"
ANY = KafkaError


def every(path: str, value: Any) -> Any:
    return setting((path, value))


LIES = [
    Lie("begin: producer id -1 without an error", BEGIN, every("producer_id", -1), ANY),
    Lie("begin: epoch -1 without an error", BEGIN, every("producer_epoch", -1), ANY),
    Lie("begin: an unknown error", BEGIN, every("error_code", 12_345), ANY, "12345"),
    Lie("begin: a concurrent transaction for ever", BEGIN, every("error_code", 51), ANY),
    Lie("begin: fenced", BEGIN, every("error_code", 90), ANY),
    Lie("begin: silence", BEGIN, saying(Silence), ANY),
    Lie("begin: an answer cut short", BEGIN, body_of(lambda data: data[:5]), ANY),
    Lie("begin: no coordinator", FIND, every("coordinators", []), ANY),
    Lie("begin: coordinator -1 without an error", FIND, every("coordinators.*.node_id", -1), ANY),
    Lie(
        "begin: an unknown coordinator error",
        FIND,
        every("coordinators.*.error_code", 12_345),
        ANY,
        "12345",
    ),
    Lie("commit: an unknown error", END, every("error_code", 12_345), ANY, "12345"),
    Lie("commit: unknown server error", END, every("error_code", -1), ANY),
    Lie("commit: fenced", END, every("error_code", 90), ANY),
    Lie("commit: a state that cannot be", END, every("error_code", 48), ANY),
    Lie("commit: a concurrent transaction for ever", END, every("error_code", 51), ANY),
    Lie("commit: silence", END, saying(Silence), ANY),
    Lie("commit: the end in place of an answer", END, saying(End), ANY),
    Lie("commit: an answer cut short", END, body_of(lambda data: data[:5]), ANY),
    Lie("commit: bytes of anything", END, body(b"\xff" * 9), ANY),
    Lie("commit: the next producer id is -7", END, every("producer_id", -7)),
    Lie("commit: the next epoch is -7", END, every("producer_epoch", -7)),
    Lie(
        "commit: the next producer is another", END, setting(("producer_id", 999_999), ("producer_epoch", 5))
    ),
]


@pytest.mark.parametrize("lie", rest_in_gate(LIES), ids=str)
def test_false_transaction_response_is_raised_and_another_producer_continues(
    simulation: Simulation, lie: Lie
) -> None:
    world = World(simulation, everywhere=True, config=QUICK)
    options: dict[str, Any] = {"transactional_id": "t", "transaction_timeout_ms": 6_000}
    producer = world.producer(**options)
    if lie.api == END:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"1", partition=0)
    with world.lied_to(lie):
        call = producer.commit_transaction if lie.api == END else producer.init_transactions
        outcome = ending(lambda: call())
    check(lie, [outcome])
    ending(lambda: producer.close(2))
    producer = world.producer(**options)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"after", partition=0)
    producer.commit_transaction()
    producer.close(5)
    simulation.sleep(1)
    with world.consumer(isolation_level="read_committed") as consumer:
        consumer.assign([BAD])
        consumer.seek(BAD, 0)
        values = [record.value for records in consumer.poll(2_000).values() for record in records]
    assert values in ([b"after"], [b"1", b"after"]), values
    if lie.api == END and outcome is None:
        assert values[0] == b"1"
