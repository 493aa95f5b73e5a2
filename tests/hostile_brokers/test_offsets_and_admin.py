"""Brokers lie to single calls: each ends in a value or in an error of ours, in time."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, NewTopic
from pykafka2.admin.values import AclBinding
from pykafka2.errors import CorruptResponse, KafkaError
from pykafka2.testing import Simulation
from tests.gate import rest_in_gate
from tests.hostile_brokers.liar import End, Silence
from tests.hostile_brokers.lies import Lie, body, body_of, changing, saying, setting
from tests.hostile_brokers.worlds import BAD, GOOD, World, check, ending

pytestmark = pytest.mark.slow

ANY = KafkaError
RULE = AclBinding("TOPIC", "orders", "LITERAL", "User:ann", "*", "READ", "ALLOW")
LIST, CREATE, META, GROUPS = "ListOffsets", "CreateTopics", "Metadata", "ListTransactions"
RULES, NO_RULES = "CreateAcls", "DeleteAcls"
DELETE, USERS, WHO = "DeleteTopics", "AlterUserScramCredentials", "DescribeUserScramCredentials"
PARTITIONS = "topics.*.partitions.*."


def ends(consumer: KafkaConsumer, admin: KafkaAdminClient) -> Any:
    return consumer.end_offsets([BAD, GOOD])


def create(consumer: KafkaConsumer, admin: KafkaAdminClient) -> Any:
    return admin.create_topics([NewTopic("bills", partitions=1)])


def describe(consumer: KafkaConsumer, admin: KafkaAdminClient) -> Any:
    return admin.describe_cluster(), admin.list_topics()


def transactions(consumer: KafkaConsumer, admin: KafkaAdminClient) -> Any:
    return admin.list_transactions()


def add_rule(consumer: KafkaConsumer, admin: KafkaAdminClient) -> Any:
    return admin.create_acls([RULE], raise_errors=False)


def take_rule(consumer: KafkaConsumer, admin: KafkaAdminClient) -> Any:
    return admin.delete_acls([RULE], raise_errors=False)


def remove(consumer: KafkaConsumer, admin: KafkaAdminClient) -> Any:
    return admin.delete_topics(["bills"], raise_errors=False)


def set_user(consumer: KafkaConsumer, admin: KafkaAdminClient) -> Any:
    return admin.upsert_scram_user("ann", "secret", iterations=4096)


def users(consumer: KafkaConsumer, admin: KafkaAdminClient) -> Any:
    return admin.describe_scram_users(["ann"])


CALLS: dict[str, Callable[[KafkaConsumer, KafkaAdminClient], Any]] = {
    LIST: ends,
    CREATE: create,
    META: describe,
    GROUPS: transactions,
    RULES: add_rule,
    NO_RULES: take_rule,
    DELETE: remove,
    USERS: set_user,
    WHO: users,
}


def twice(answer: Any) -> None:
    for topic in answer.topics:
        topic.partitions += [copy(one) for one in topic.partitions]


def more_results(answer: Any) -> None:
    answer.results *= 3


def offsets(**fields: Any) -> Any:
    return setting(*((PARTITIONS + name, value) for name, value in fields.items()))


LIES = [
    Lie("offsets: -1 without an error", LIST, offsets(offset=-1)),
    Lie("offsets: -2 without an error", LIST, offsets(offset=-2)),
    Lie("offsets: another partition", LIST, offsets(partition_index=99), ANY),
    Lie("offsets: a negative partition", LIST, offsets(partition_index=-1), ANY),
    Lie("offsets: every partition twice", LIST, changing(twice)),
    Lie("offsets: another topic", LIST, setting(("topics.*.name", "other")), ANY),
    Lie("offsets: nothing", LIST, setting(("topics", [])), ANY),
    Lie("offsets: an unknown error", LIST, offsets(error_code=12_345), ANY, "12345"),
    Lie("offsets: not the leader for ever", LIST, offsets(error_code=6), ANY),
    Lie("offsets: silence", LIST, saying(Silence), ANY),
    Lie("offsets: an answer cut short", LIST, body_of(lambda data: data[:-6]), ANY),
    Lie("offsets: 2**31 - 2 topics in nine bytes", LIST, body(bytes(4) + b"\xff\xff\xff\xff\x07"), ANY),
    Lie("create topics: an unknown error", CREATE, setting(("topics.*.error_code", 12_345)), ANY, "12345"),
    Lie(
        "create topics: an error of 30,000 characters",
        CREATE,
        setting(("topics.*.error_code", 42), ("topics.*.error_message", "\nx" * 15_000)),
        ANY,
    ),
    Lie("create topics: silence", CREATE, saying(Silence), ANY),
    Lie("create topics: the end in place of an answer", CREATE, saying(End), ANY),
    Lie("create topics: bytes of anything", CREATE, body(b"\xfe" * 40), ANY),
    Lie("describe cluster: bytes of anything", META, body(b"\xfe" * 40), ANY),
    Lie("describe cluster: silence", META, saying(Silence), ANY),
    Lie("describe cluster: an unknown controller", META, setting(("controller_id", -9))),
    Lie("list transactions: an unknown error", GROUPS, setting(("error_code", 12_345)), ANY, "12345"),
    Lie("list transactions: bytes of anything", GROUPS, body(b"\xfe" * 40), ANY),
    Lie("create rules: no results", RULES, setting(("results", [])), CorruptResponse, "0 results for 1"),
    Lie("create rules: more results than rules", RULES, changing(more_results), CorruptResponse, "3 results"),
    Lie("delete rules: no results", NO_RULES, setting(("filter_results", [])), CorruptResponse, "0 results"),
    Lie("list transactions: silence", GROUPS, saying(Silence), ANY),
    Lie("create topics: nothing", CREATE, setting(("topics", [])), CorruptResponse, "no result for 'bills'"),
    Lie(
        "create topics: another one",
        CREATE,
        setting(("topics.*.name", "other")),
        CorruptResponse,
        "no result for 'bills'",
    ),
    Lie(
        "delete topics: nothing", DELETE, setting(("responses", [])), CorruptResponse, "no result for 'bills'"
    ),
    Lie("set users: nothing", USERS, setting(("results", [])), CorruptResponse, "no result for 'ann'"),
    Lie(
        "set users: another",
        USERS,
        setting(("results.*.user", "bob")),
        CorruptResponse,
        "no result for 'ann'",
    ),
    Lie("describe users: nothing", WHO, setting(("results", [])), CorruptResponse, "no result for 'ann'"),
]


@pytest.mark.parametrize("lie", rest_in_gate(LIES), ids=str)
def test_a_call_that_is_lied_to_ends_in_time_and_the_next_one_is_answered(
    simulation: Simulation, lie: Lie
) -> None:
    world = World(simulation, everywhere=True)
    call = CALLS[lie.api]
    with world.consumer() as consumer, world.admin() as admin:
        consumer.assign([BAD, GOOD])
        with world.lied_to(lie):
            began = simulation.now
            error = ending(lambda: call(consumer, admin))
            assert simulation.now - began < 8
        check(lie, [error])
        if lie.api == CREATE:
            world.until(lambda: "bills" in admin.list_topics(), 5)
            assert "bills" in admin.list_topics()
        else:
            call(consumer, admin)
