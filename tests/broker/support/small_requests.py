"""Requests of at most 1 KB that could cost much: wide, extreme, special and random ones of every API.

A wide request has as many elements in one of its lists as fit.  An extreme one has one field at its limit.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Final

from pykafka2.broker.handlers.api import APIS, load
from pykafka2.protocol import registry
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.struct import Request
from pykafka2.records.encoder import BatchBuilder
from tests.broker.support.batches import NOW_MS
from tests.broker.support.hostile_requests import ATTACKS, INT32, INT64
from tests.conformance.behaviour.plain import request_of
from tests.fuzz.making import GROUP, TOPIC, any_instance, damaged, extreme, wide

LARGEST: Final = 1024
"""Bytes of a request with its header, after the size."""

load()

Fields = Mapping[str, Any]
Case = tuple[str, bytes]
"""A name, and a frame with its size."""


def cases_of(key: int, randoms: int) -> Iterator[Case]:
    """Yield all cases of an API."""
    api, name = APIS[key], registry.API_KEYS[key].name
    cls = registry.request_class(key)
    for what, version, fields in special_cases(name):
        yield from _fitting(f"{name}: {what}", request_of(name, fields), version)
    for what, attack in ATTACKS.items():
        if attack.api == name:
            yield from _fitting(f"{name}: {what}", attack.request, attack.version)
    for version in sorted({api.min_version, api.max_version}):
        for what, request in (*wide(cls, version, LARGEST), *extreme(cls, version)):
            yield from _fitting(f"{name} v{version}: {what}", request, version)
    for seed in range(randoms):
        random = Random(seed)
        version = random.randint(api.min_version, api.max_version)
        for case in _fitting(f"{name} v{version}: seed {seed}", any_instance(random, cls, version), version):
            yield case
            body = damaged(random, case[1], begin=14)[4:]
            if len(body) <= LARGEST:
                yield f"{case[0]}, damaged", len(body).to_bytes(4, "big") + body


def has_cases_of_its_own(name: str) -> bool:
    """Return whether an API has cases besides those that its fields give."""
    return bool(special_cases(name)) or any(attack.api == name for attack in ATTACKS.values())


def _fitting(name: str, request: Request[Any], version: int) -> Iterator[Case]:
    frame = b"".join(encode_request(request, version, 1, "small"))
    if len(frame) <= LARGEST + 4:
        yield name, frame


PATTERNS: Final = {
    "nested repetitions": "(a+)+$",
    "the cube of the text": "(?:.|a)?(.)*(.)*(.)*[!?]",
    "the square of the text": ".*a.*!",
    "four wide parts": ".*a.*a.*a.*b",
    "many parts that can be empty": "(.*)" * 60 + "!",
    "counted repetitions": "((.{0,60}){0,60}){0,60}!",
    "repetitions of a million": "((a{1000}){1000}){1000}",
    "repetitions of nothing": "((){1000}){1000}",
    "sets of nodes that differ": ".*a.{400}",
    "all of Unicode": "(?i).*" + "[\\x00-\\x{10ffff}]" * 40 + "!",
    "all of Unicode, literally": "(?i)" + "[\0-\U0010ffff]" * 90 + "!",
    "a wide class": "(?i)[" + "".join(chr(300 + 2 * n) for n in range(400)) + "]{1,1000}.*",
    "boundaries": "(\\b|\\B|a|)*" * 70 + "!",
    "nested groups": "(" * 90 + "a*" + ")*" * 90,
    "a lookahead": "(?=(a+)+$)a",
}


def special_cases(name: str) -> list[tuple[str, int, Fields]]:
    make = SPECIAL.get(name)
    return [] if make is None else make()


def _heartbeats() -> list[tuple[str, int, Fields]]:
    fields = {
        "group_id": "patterns", "member_epoch": 0, "rebalance_timeout_ms": 10_000, "topic_partitions": [],
        "subscribed_topic_names": None, "instance_id": None, "rack_id": None, "server_assignor": None,
    }  # fmt: skip
    return [
        (what, 1, {**fields, "member_id": f"m{number}", "subscribed_topic_regex": pattern})
        for number, (what, pattern) in enumerate(PATTERNS.items())
    ]


def _listings() -> list[tuple[str, int, Fields]]:
    return [
        (what, 2, {"duration_filter": -1, "transactional_id_pattern": pattern})
        for what, pattern in PATTERNS.items()
    ]


def _metrics(name: str, version: int) -> list[tuple[str, int, Fields]]:
    extra = {"config_operation": 0} if name == "IncrementalAlterConfigs" else {}
    found: list[tuple[str, int, Fields]] = []
    for what, pattern in PATTERNS.items():
        value = {"name": "match", "value": f"client_id={pattern.replace(',', '')}", **extra}
        found.append((what, version, {"resources": [_resource(16, "m", value)]}))
    numbers = {
        "a number of 700 digits": ("retention.ms", "9" * 700),
        "a fraction": ("min.cleanable.dirty.ratio", "0." + "1" * 700),
        "an exponent": ("min.cleanable.dirty.ratio", "1e999999999"),
        "a list": ("leader.replication.throttled.replicas", ",".join(f"{n}:0" for n in range(150))),
        "commas": ("leader.replication.throttled.replicas", "," * 800),
    }
    for what, (option, value) in numbers.items():
        one = {"name": option, "value": value, **extra}
        found.append((what, version, {"resources": [_resource(2, TOPIC, one)]}))
    duration = {"name": "share.auto.offset.reset", "value": "by_duration:P" + "1" * 700 + "D", **extra}
    return [*found, ("a duration", version, {"resources": [_resource(32, GROUP, duration)]})]


def _resource(kind: int, name: str, config: Fields) -> Fields:
    return {"resource_type": kind, "resource_name": name, "configs": [config]}


def bomb(codec: str, size: int) -> bytes:
    """Return a batch that decompresses to many bytes: one record of zeros."""
    builder = BatchBuilder(codec, max_bytes=1 << 30)
    builder.append(NOW_MS, None, bytes(size), [])
    return bytes(builder.build())


def many(codec: str, records: int) -> bytes:
    """Return a batch of many equal records."""
    builder = BatchBuilder(codec, max_bytes=1 << 30)
    for _ in range(records):
        builder.append(NOW_MS, None, b"", [])
    return bytes(builder.build())


def _produced() -> list[tuple[str, int, Fields]]:
    found: list[tuple[str, int, Fields]] = []
    sizes_of = {
        "gzip": (200_000, 800_000),
        "snappy": (15_000,),
        "lz4": (150_000, 200_000),
        "zstd": (1_000_000, 5_000_000, 20_000_000),
    }
    for codec, sizes in sizes_of.items():
        batches = {f"{size:,} zeros in {codec}": bomb(codec, size) for size in sizes}
        batches |= {f"{n:,} records in {codec}": many(codec, n) for n in (5_000, 20_000, 50_000)}
        for what, records in batches.items():
            topics = (TOPIC, "raw", "compacted")
            found += [(f"{what} to {topic}", 12, _batch_to(topic, records)) for topic in topics]
    found.append(("many headers", 12, _batch_to(TOPIC, many("none", 90))))
    return found


def _batch_to(topic: str, records: bytes) -> Fields:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    return {"acks": -1, "timeout_ms": 1000, "topic_data": data, "transactional_id": None}


def _fetched() -> list[tuple[str, int, Fields]]:
    one = {"partition": 0, "partition_max_bytes": INT32, "current_leader_epoch": -1}
    return [
        (
            f"everything of {topic}",
            12,
            {
                "replica_id": -1, "session_epoch": -1, "max_bytes": INT32, "min_bytes": 1, "max_wait_ms": 0,
                "topics": [{"topic": topic, "partitions": [one]}],
            },
        )
        for topic in (TOPIC, "large")
    ]  # fmt: skip


def _offsets() -> list[tuple[str, int, Fields]]:
    return [
        (
            f"{time} of {topic}",
            9,
            {
                "replica_id": -1,
                "topics": [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": time}]}],
            },
        )
        for time in (-1, -2, -3, -4, -5, 0, NOW_MS - 1, NOW_MS + 1, INT64)
        for topic in (TOPIC, "large")
    ]


def _created() -> list[tuple[str, int, Fields]]:
    def topics(names: list[str], partitions: int, **fields: Any) -> Fields:
        one = {"num_partitions": partitions, "replication_factor": 1, "assignments": [], **fields}
        return {
            "timeout_ms": 1000,
            "validate_only": False,
            "topics": [{"name": name, **one} for name in names],
        }

    assigned = [{"partition_index": n, "broker_ids": [0]} for n in range(70)]
    return [
        ("1,000 partitions", 7, topics(["wide"], 1_000)),
        ("10,000 partitions", 7, topics(["wider"], 10_000)),
        ("50 topics of 200 partitions", 7, topics([f"w{n}" for n in range(50)], 200)),
        ("70 assigned partitions", 7, topics(["assigned"], -1, replication_factor=-1, assignments=assigned)),
    ]


def _metadata() -> list[tuple[str, int, Fields]]:
    named = [{"topic_id": bytes(16), "name": f"new-{n}"} for n in range(35)]
    return [("35 topics made", 12, {"topics": named, "allow_auto_topic_creation": True})]


def _tokens() -> list[tuple[str, int, Fields]]:
    def claims(text: str) -> bytes:
        parts = (
            base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in ('{"alg":"none"}', text)
        )
        return f"n,,\x01auth=Bearer {'.'.join(parts)}.\x01\x01".encode()

    tokens = {
        "commas": b"n,," + b"n=a," * 200,
        "extensions": b"n,,n=ann,r=abc" + b",a=b" * 200 + b",",
        "encoded commas": b"n,,n=" + b"=2C" * 300 + b"!",
        "a long nonce": b"n,,n=ann,r=" + b"a" * 900,
        "NUL": bytes(900),
        "nested JSON": claims("[" * 600),
        "nested objects": claims('{"a":' * 120),
        "a long number": claims('{"exp":' + "9" * 600 + "}"),
        "an exponent": claims('{"exp":1e308,"iat":-1e308,"sub":"a"}'),
        "many claims": claims(json.dumps({str(n): n for n in range(60)})),
        "spaces": b"n,,\x01auth=Bearer" + b" " * 900 + b"\x01\x01",
        "pairs": b"n,,\x01" + b"a=b\x01" * 220,
    }
    return [(what, 2, {"auth_bytes": token}) for what, token in tokens.items()]


SPECIAL: Final[dict[str, Callable[[], list[tuple[str, int, Fields]]]]] = {
    "ConsumerGroupHeartbeat": _heartbeats,
    "ListTransactions": _listings,
    "IncrementalAlterConfigs": lambda: _metrics("IncrementalAlterConfigs", 1),
    "AlterConfigs": lambda: _metrics("AlterConfigs", 2),
    "Produce": _produced,
    "Fetch": _fetched,
    "ListOffsets": _offsets,
    "CreateTopics": _created,
    "Metadata": _metadata,
    "SaslAuthenticate": _tokens,
    "CreatePartitions": lambda: [
        (
            f"{count:,}",
            3,
            {"topics": [{"name": TOPIC, "count": count, "assignments": None}], "timeout_ms": 1000},
        )
        for count in (1_000, 10_000)
    ],
    "AlterUserScramCredentials": lambda: [
        (
            f"{iterations:,} iterations",
            0,
            {
                "upsertions": [
                    {
                        "name": "u",
                        "mechanism": 1,
                        "iterations": iterations,
                        "salt": b"s",
                        "salted_password": b"p",
                    }
                ]
            },
        )
        for iterations in (4_096, 16_384, INT32)
    ],
}
