"""Messages to and from plain dicts, with what differs from run to run replaced.

Topic ids, member ids, producer ids and sessions become "id-1", "id-2" ... in order of appearance, ports the
id of the broker that listens there, times of today "now".  Fields at their default are left out, so that a
transcript shows what was said.  Lists of named things are sorted by their names: Kafka answers in hash order.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from pykafka2 import errors
from pykafka2.protocol import registry
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.struct import Request, Struct
from pykafka2.records.batch import RecordBatch, batches
from pykafka2.records.decoder import decode_tuples

NAMES = (
    "api_key", "name", "topic", "topic_name", "partition_index", "partition", "index", "group_id", "node_id",
    "broker_id", "resource_type", "resource_name", "transactional_id", "feature", "member_id", "replica_id",
    "principal", "operation",
)  # fmt: skip
"""The name of an element of a list; lists of such elements are sorted."""

SETS = ("isr_nodes", "subscribed_topic_names")

COUNTED = {"producer_id": "producer", "session_id": "session", "ongoing_txn_producer_id": "producer"}
FIRST = {"producer": 0, "session": 1}
FIRST_PRODUCER = ("producer_id", 0)  # an id like others, although it is a zero
MASKED = {
    "cluster_id": "the cluster's",
    "controller_id": "a broker",
    "finalized_features_epoch": "some epoch",
}
WORDED = ("error_message", "batch_index_error_message")
"""Fields for people: compared by whether they are there; their words are compared apart."""

LONG_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
ANY_UUID = re.compile(LONG_UUID.pattern + r"|(?<![\w-])[\w-]{22}(?![\w-])")
PLACE = re.compile(r"127\.0\.0\.1:\d+")
OBJECT = re.compile(r"Request\(processor=.*\)")  # as Java prints it
MOMENT = re.compile(r"-?\d{13,}")
DAY_MS = 86_400_000


def request_of(api: str, fields: Mapping[str, Any]) -> Request[Any]:
    """A request by its name from nested dicts; what is not given holds its default, or zero, or nothing."""
    for info in registry.API_KEYS.values():
        if info.name == api:
            request: Request[Any] = _struct_of(registry.request_class(info.key), fields)
            return request
    raise LookupError(f"no API named {api}")


def _struct_of(cls: type[Struct], values: Mapping[str, Any]) -> Any:
    fields = {one.name: one for one in resolved_fields(cls)}
    unknown = values.keys() - fields.keys()
    if unknown:
        raise LookupError(f"{cls.__name__} has no {sorted(unknown)}, only {sorted(fields)}")
    arguments: dict[str, Any] = {}
    for name, one in fields.items():
        value = values.get(name, one.absent_value())
        if one.struct is None or value is None or name not in values:
            arguments[name] = value
        elif one.array:
            arguments[name] = [_struct_of(one.struct, element) for element in value]
        else:
            arguments[name] = _struct_of(one.struct, value)
    return cls(**arguments)


class Plainer:
    """Makes messages plain; one for each scenario, as it numbers what it meets."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._ports = ports
        self._numbers: dict[tuple[str, object], str] = {}
        self._counts: dict[str, int] = {}

    def plain(self, message: Struct) -> dict[str, Any]:
        """The message as nested dicts of what differs from the defaults."""
        result: dict[str, Any] = self._numbered("", _sorted_raw(message))
        return result

    def number(self, kind: str, value: object) -> str:
        key = (kind, value)
        if key not in self._numbers:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._numbers[key] = f"{kind}-{self._counts[kind]}"
        return self._numbers[key]

    def _numbered(self, name: str, value: Any) -> Any:
        if name in MASKED:
            return MASKED[name]
        if isinstance(value, dict):
            return {key: self._numbered(key, one) for key, one in value.items()}
        if isinstance(value, list):
            elements = [self._numbered(name, one) for one in value]
            return sorted(elements) if name in SETS else elements
        if isinstance(value, bytes):
            return self.number("id", value) if len(value) == 16 else value.hex()
        if isinstance(value, str):
            pattern = ANY_UUID if name in (*WORDED, "member_id", "leader") else LONG_UUID
            text = pattern.sub(lambda match: self.number("id", match[0]), value)
            if name in WORDED:
                text = OBJECT.sub("(itself)", MOMENT.sub("(a time)", PLACE.sub("an address", text)))
            return text
        if isinstance(value, int) and not isinstance(value, bool):
            return self._number_of(name, value)
        return value

    def _number_of(self, name: str, value: int) -> int | str:
        if name.endswith("error_code"):
            return errors.name_of(value)
        if name == "port":
            return f"of broker {self._ports[value]}" if value in self._ports else value
        if name in COUNTED and value >= FIRST[COUNTED[name]]:
            return self.number(COUNTED[name], value)
        if abs(value - time.time() * 1000) < DAY_MS:
            return "now"
        return value


def _sorted_raw(value: Any) -> Any:
    """Structs as dicts, lists of named ones sorted; ids as they are."""
    if isinstance(value, Struct):
        return _raw_struct(value)
    if isinstance(value, list):
        raw = [_sorted_raw(one) for one in value]
        if raw and isinstance(raw[0], dict):
            raw.sort(key=lambda one: [(name, str(one[name]).zfill(12)) for name in NAMES if name in one])
        return raw
    return value


def _raw_struct(message: Struct) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for one in resolved_fields(type(message)):
        value = getattr(message, one.name)
        if one.kind == "records" and value is not None:
            raw[one.name] = [_batch(batch) for batch in batches(value)]
        elif one.name == "error_code" or value != one.absent_value() or (one.name, value) == FIRST_PRODUCER:
            raw[one.name] = bytes(value) if isinstance(value, memoryview) else _sorted_raw(value)
    return raw


def _batch(batch: RecordBatch) -> dict[str, Any]:
    raw: dict[str, Any] = {"base_offset": batch.base_offset, "count": batch.count}
    raw["leader_epoch"] = batch.partition_leader_epoch
    raw["attributes"] = batch.attributes
    raw["max_timestamp"] = batch.max_timestamp
    if batch.producer_id >= 0:
        raw["producer_id"] = batch.producer_id
        raw["producer_epoch"] = batch.producer_epoch
        raw["base_sequence"] = batch.base_sequence
    try:
        raw["records"] = [[row[0], _short(row[2]), _short(row[3])] for row in decode_tuples(batch)]
    except errors.KafkaError as problem:
        raw["records"] = f"cannot be read: {type(problem).__name__}"
    return raw


def _short(data: bytes | None) -> str | None:
    """Its hexadecimal digits; of long data the first and how many bytes."""
    return (
        None if data is None else data.hex() if len(data) <= 40 else f"{data[:4].hex()}... {len(data)} bytes"
    )
