"""Client quotas: altered, described, and enforced (KIP-546, KIP-219, KIP-599)."""

from __future__ import annotations

import time
from typing import Any

from tests.broker.support.batches import batch

from .on_access import ALTER_CONFIGS, CLUSTER, DESCRIBE_CONFIGS, EVE, only, rule
from .on_fetch import fill
from .side import Side, scenario

EXACT, DEFAULT, ANY = range(3)
PUBLISHED_IN = 0.2
"""Seconds; a broker of Apache Kafka describes a quota slightly before it applies it."""

Entity = dict[str, str | None]


def entry(entity: Entity, **values: float | None) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
        "ops": [
            {"key": key, "value": 0.0 if value is None else value, "remove": value is None}
            for key, value in values.items()
        ],
    }


def in_order(answer: Any) -> Any:
    """Entities and keys in order of names; Kafka has them in hash order."""
    for one in answer.entries or ():
        one.entity.sort(key=lambda part: part.entity_type)
        getattr(one, "values", []).sort(key=lambda value: value.key)
    if answer.entries is not None:
        answer.entries.sort(
            key=lambda one: [(part.entity_type, part.entity_name or "") for part in one.entity]
        )
    return answer


def alter(side: Side, label: str, *entries: dict[str, Any], version: int = 1, **options: Any) -> None:
    answer = side.quietly("AlterClientQuotas", version, entries=list(entries), **options)
    side.note(f"{label}: AlterClientQuotas v{version}", in_order(answer))


def describe(side: Side, label: str, *components: Any, version: int = 1, strict: bool = False) -> None:
    parts = [
        {"entity_type": kind, "match_type": match_type, "match": match}
        for kind, match_type, match in components
    ]
    answer = side.quietly("DescribeClientQuotas", version, components=parts, strict=strict)
    side.note(f"{label}: DescribeClientQuotas v{version}", in_order(answer))


def count_everywhere(side: Side, count: int) -> None:
    for broker in range(3):
        side.until(
            lambda broker=broker: len(side.quietly("DescribeClientQuotas", 1, broker).entries) == count,
            "the quotas are on every broker",
        )
    time.sleep(PUBLISHED_IN)


@scenario
def quotas_altered_and_described(side: Side) -> None:
    ann, bob = {"user": "ann"}, {"user": "bob"}
    app = {"client-id": "quota-app"}
    ann_app: Entity = {"user": "ann", "client-id": "quota-app"}
    alter(side, "refused: no entity", entry({}, producer_byte_rate=1000.0))
    alter(side, "refused: unknown type", entry({"group": "g"}, producer_byte_rate=1000.0))
    alter(side, "refused: empty name", entry({"user": ""}, producer_byte_rate=1000.0))
    alter(side, "refused: unknown key", entry(ann, bytes_per_day=1000.0))
    alter(side, "refused: key of another type", entry(ann, connection_creation_rate=10.0))
    alter(side, "refused: key of another type, too", entry({"ip": "127.0.0.9"}, producer_byte_rate=10.0))
    for value in (0.0, -1.0, 1.5, 1e30):
        alter(side, f"refused: {value}", entry(ann, producer_byte_rate=value))
    alter(side, "refused: a large connection rate", entry({"ip": "127.0.0.9"}, connection_creation_rate=3e9))
    alter(side, "refused: user and ip", entry({"user": "ann", "ip": "127.0.0.9"}, producer_byte_rate=1e9))
    alter(side, "refused: no address", entry({"ip": "not an address"}, connection_creation_rate=5.0))
    alter(side, "entity twice", entry(bob, producer_byte_rate=1e9), entry(bob, consumer_byte_rate=1e9))
    twice = entry(app, producer_byte_rate=1e9)
    twice["ops"] *= 2
    alter(side, "key twice", twice)
    alter(side, "one refused, one not", entry(ann, unknown=1.0), entry(bob, producer_byte_rate=2e9))
    alter(side, "only validated", entry(ann, producer_byte_rate=1e9), validate_only=True)
    alter(side, "only validated, refused", entry(ann, unknown=1e9), validate_only=True)
    alter(side, "nothing", entry(ann))
    alter(side, "no entries")
    alter(side, "removed, though unknown", entry(ann, producer_byte_rate=None, unknown=None))
    alter(
        side,
        "several",
        entry(ann, producer_byte_rate=1e9, consumer_byte_rate=2e9),
        entry(bob, request_percentage=99999.5),
        entry({"user": None}, controller_mutation_rate=99999.5),
        entry(app, producer_byte_rate=3e9),
        entry({"client-id": None}, consumer_byte_rate=4e9),
        entry(ann_app, producer_byte_rate=5e9),
        entry({"user": "ann", "client-id": None}, producer_byte_rate=6e9),
        entry({"user": None, "client-id": None}, producer_byte_rate=7e9),
        entry({"ip": "127.0.0.9"}, connection_creation_rate=8.0),
        entry({"ip": None}, connection_creation_rate=900000.0),
        version=0,
    )
    count_everywhere(side, 10)
    describe(side, "all")
    describe(side, "all, strictly", strict=True)
    for strict in (False, True):
        how = ", strictly" if strict else ""
        describe(side, f"one user{how}", ("user", EXACT, "ann"), strict=strict)
        describe(side, f"the default user{how}", ("user", DEFAULT, None), strict=strict)
        describe(side, f"any user{how}", ("user", ANY, None), strict=strict)
        describe(side, f"a client id{how}", ("client-id", EXACT, "quota-app"), strict=strict, version=0)
        describe(side, f"both{how}", ("user", ANY, None), ("client-id", EXACT, "quota-app"), strict=strict)
        describe(side, f"any address{how}", ("ip", ANY, None), strict=strict)
        describe(side, f"none{how}", ("user", EXACT, "nobody"), strict=strict)
    describe(side, "filter refused: no name", ("user", EXACT, None))
    describe(side, "filter refused: default with a name", ("user", DEFAULT, "ann"))
    describe(side, "filter refused: any with a name", ("user", ANY, "ann"))
    describe(side, "filter refused: unknown match type", ("user", 3, None))
    describe(side, "filter refused: unknown type", ("group", ANY, None))
    describe(side, "filter refused: empty type", ("", ANY, None))
    describe(side, "filter refused: type twice", ("user", ANY, None), ("user", EXACT, "ann"))
    describe(side, "filter refused: ip and user", ("user", ANY, None), ("ip", ANY, None))
    alter(side, "one of two removed", entry(ann, producer_byte_rate=None))
    alter(
        side,
        "the others removed",
        entry(bob, request_percentage=None, producer_byte_rate=None),
        entry({"user": None}, controller_mutation_rate=None),
        entry(app, producer_byte_rate=None),
        entry({"client-id": None}, consumer_byte_rate=None),
        entry(ann_app, producer_byte_rate=None),
        entry({"user": "ann", "client-id": None}, producer_byte_rate=None),
        entry({"user": None, "client-id": None}, producer_byte_rate=None),
        entry({"ip": "127.0.0.9"}, connection_creation_rate=None),
        entry({"ip": None}, connection_creation_rate=None),
    )
    count_everywhere(side, 1)
    describe(side, "what is left")
    side.quietly("AlterClientQuotas", 1, entries=[entry(ann, consumer_byte_rate=None)])
    count_everywhere(side, 0)


@scenario
def quotas_of_bytes(side: Side) -> None:
    topic = side.topic("quotas-of-bytes", partitions=1)
    leader = side.leader_of(topic)
    fill(side, topic, leader, 8)
    writer, reader, other = ({"client-id": f"quota-{name}"} for name in ("writer", "reader", "other"))
    entries = [entry(writer, producer_byte_rate=20_000.0), entry(reader, consumer_byte_rate=20.0)]
    side.quietly("AlterClientQuotas", 1, entries=entries)
    count_everywhere(side, 2)

    def produce(label: str, client: str, size: int) -> None:
        data = {"index": 0, "records": batch([b"x" * size])}
        topics = [{"name": topic, "partition_data": [data]}]
        answer = side.quietly("Produce", 12, leader, client, acks=1, timeout_ms=5000, topic_data=topics)
        side.note(label, {"throttle_time_ms": answer.throttle_time_ms})

    produce("below the quota", "quota-writer", 1000)
    produce("another client", other["client-id"], 300_000)
    side.hang_up(leader, "quota-writer")
    side.quietly("AlterClientQuotas", 1, entries=[entry(writer, producer_byte_rate=20_001.0)])
    time.sleep(PUBLISHED_IN)
    started = time.monotonic()
    data = {"index": 0, "records": batch([b"x" * 229_000])}
    topics = [{"name": topic, "partition_data": [data]}]
    answer = side.quietly("Produce", 12, leader, "quota-writer", acks=1, timeout_ms=5000, topic_data=topics)
    # 11.4 seconds of the quota in a window of 10 to 11 seconds, depending on how fast all this is.
    side.note("above the quota by at most 1.5 s", 400 <= answer.throttle_time_ms <= 1500)
    side.quietly(
        "ApiVersions", 3, leader, "quota-writer", client_software_name="a", client_software_version="1"
    )
    waited = time.monotonic() - started
    side.note(
        "the next answer comes after the throttle time", waited >= answer.throttle_time_ms / 1000 - 0.01
    )

    def fetch() -> Any:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        topics = [{"topic": topic, "partitions": [partition]}]
        return side.quietly(
            "Fetch",
            12,
            leader,
            "quota-reader",
            max_wait_ms=0,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=topics,
        )

    answer = fetch()
    side.note("a fetch above the quota is throttled", answer.throttle_time_ms > 0)
    side.note("its topics", len(answer.responses))
    side.hang_up(leader, "quota-reader")
    entries = [entry(writer, producer_byte_rate=None), entry(reader, consumer_byte_rate=None)]
    side.quietly("AlterClientQuotas", 1, entries=entries)
    count_everywhere(side, 0)
    answer = fetch()
    side.note("a fetch without a quota is throttled", answer.throttle_time_ms > 0)
    side.note("its topics now", len(answer.responses))


@scenario
def quotas_of_controller_mutations(side: Side) -> None:
    client = "quota-creator"
    entity = {"client-id": client}
    side.quietly("AlterClientQuotas", 1, entries=[entry(entity, controller_mutation_rate=1.0)])
    count_everywhere(side, 1)

    def note(label: str, answer: Any, results: Any) -> None:
        # The bucket fills while the scenario runs: by tens of seconds both agree.
        side.hang_up(0, client)
        side.note(
            label,
            {
                "errors": [one.error_code for one in results],
                "worded": [one.error_message for one in results if hasattr(one, "error_message")],
                "throttle_time, in tens of seconds": round(answer.throttle_time_ms / 10_000),
            },
        )

    def create(label: str, name: str, partitions: int, version: int = 7, **options: Any) -> None:
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        answer = side.quietly("CreateTopics", version, 0, client, timeout_ms=9000, topics=[topic], **options)
        note(f"{label}: CreateTopics v{version}", answer, answer.topics)

    names = ["quotas-first", "quotas-second", "quotas-third"]
    create("within the burst, only validated", names[0], 1, validate_only=True)
    create("above it", names[0], 50)
    create("overdrawn", names[1], 1)
    create("overdrawn and invalid", names[1], 0)
    create("overdrawn, only validated", names[1], 1, validate_only=True)
    create("overdrawn, in an old version", names[2], 10, version=5)
    side.await_topic_everywhere(names[0], partitions=50)
    wanted = [{"name": names[0], "count": 51, "assignments": None}]
    answer = side.quietly("CreatePartitions", 3, 0, client, timeout_ms=9000, topics=wanted)
    note("overdrawn: CreatePartitions v3", answer, answer.results)
    answer = side.quietly("CreatePartitions", 2, 0, client, timeout_ms=9000, topics=wanted)
    note("overdrawn: CreatePartitions v2", answer, answer.results)
    answer = side.quietly("DeleteTopics", 5, 0, client, timeout_ms=9000, topic_names=[names[0]])
    note("overdrawn: DeleteTopics v5", answer, answer.responses)
    answer = side.quietly("DeleteTopics", 4, 0, client, timeout_ms=9000, topic_names=[names[2]])
    note("overdrawn: DeleteTopics v4", answer, answer.responses)
    side.quietly("AlterClientQuotas", 1, entries=[entry(entity, controller_mutation_rate=None)])
    count_everywhere(side, 0)
    side.quietly("DeleteTopics", 5, timeout_ms=9000, topic_names=[names[0]])


@scenario
def access_to_quotas(side: Side) -> None:
    entity = {"user": "access-ann"}
    changes = {"entries": [entry(entity, producer_byte_rate=1e9)]}
    two = {"entries": [entry(entity, producer_byte_rate=1e9), entry({"user": None}, unknown=1.0)]}
    only(side)
    side.ask("described without rights", "DescribeClientQuotas", 1, components=[], strict=False, **EVE)
    side.ask("altered without rights", "AlterClientQuotas", 1, **changes, **EVE)
    side.ask("two altered without rights", "AlterClientQuotas", 1, **two, **EVE)
    only(side, rule(CLUSTER, "kafka-cluster", DESCRIBE_CONFIGS))
    side.ask("described with DESCRIBE_CONFIGS", "DescribeClientQuotas", 1, components=[], strict=False, **EVE)
    side.ask("altered with DESCRIBE_CONFIGS", "AlterClientQuotas", 1, **changes, **EVE)
    only(side, rule(CLUSTER, "kafka-cluster", ALTER_CONFIGS))
    side.ask("altered with ALTER_CONFIGS", "AlterClientQuotas", 1, **changes, **EVE)
    count_everywhere(side, 1)
    side.ask("described with ALTER_CONFIGS", "DescribeClientQuotas", 1, components=[], strict=False, **EVE)
    side.quietly("AlterClientQuotas", 1, entries=[entry(entity, producer_byte_rate=None)])
    count_everywhere(side, 0)
    only(side)
