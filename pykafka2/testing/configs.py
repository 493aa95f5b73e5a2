"""The broker's and the topics' configuration: names, types, defaults, and the nearest name for a misspelt
one.

Names, defaults and synonyms are those of Apache Kafka 4.3; what Kafka knows and this broker does not act on
is accepted and kept, so that tools may set and read it back.  Values travel as strings, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from pykafka2.errors import ConfigurationError, InvalidConfig, UnknownOption

Parser = Callable[[str], Any]

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


def _number(low: int, high: int) -> Parser:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"a number from {low} to {high}")
        return value

    return parse


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("true or false")
    return lowered == "true"


def _one_of(*choices: str) -> Parser:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError("one of " + ", ".join(choices))
        return text

    return parse


def _list_of(*choices: str) -> Parser:
    def parse(text: str) -> frozenset[str]:
        values = frozenset(part.strip() for part in text.split(",") if part.strip())
        if not values <= set(choices):
            raise ValueError("a list of " + ", ".join(choices))
        return values

    return parse


def _names_of(*choices: str) -> Parser:
    """A list whose order counts."""

    def parse(text: str) -> tuple[str, ...]:
        values = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not values or not set(values) <= set(choices):
            raise ValueError("a list of " + ", ".join(choices))
        return values

    return parse


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("a number from 0 to 1")
    return value


def _limits(text: str) -> dict[str, int]:
    pairs = [part.strip().rpartition(":") for part in text.split(",") if part.strip()]
    if not all(name and limit.isdigit() for name, _, limit in pairs):
        raise ValueError("a list of address:number")
    return {name: int(limit) for name, _, limit in pairs}


INT = _number(0, MAX_INT)
LONG = _number(0, MAX_LONG)
ANY_LONG = _number(-1, MAX_LONG)


@attrs.define(frozen=True)
class Key:
    """One configuration: how its text is read, its default, its broker-wide synonym if it is a topic's."""

    name: str
    parse: Parser
    default: str
    synonym: str | None = None
    type_code: int = 0  # DescribeConfigs: 1 boolean, 2 string, 3 int, 5 long, 6 double, 7 list


BOOLEAN_TYPE, STRING_TYPE, INT_TYPE, LONG_TYPE, DOUBLE_TYPE, LIST_TYPE = 1, 2, 3, 5, 6, 7

_TOPIC_KEYS = (
    Key("cleanup.policy", _list_of("delete", "compact"), "delete", "log.cleanup.policy", LIST_TYPE),
    Key(
        "compression.type",
        _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "producer",
        "compression.type",
        STRING_TYPE,
    ),
    Key("compression.gzip.level", _number(-1, 9), "-1", "compression.gzip.level", INT_TYPE),
    Key("compression.lz4.level", _number(1, 17), "9", "compression.lz4.level", INT_TYPE),
    Key("compression.zstd.level", _number(-131072, 22), "3", "compression.zstd.level", INT_TYPE),
    Key("delete.retention.ms", LONG, "86400000", "log.cleaner.delete.retention.ms", LONG_TYPE),
    Key("file.delete.delay.ms", LONG, "60000", "log.segment.delete.delay.ms", LONG_TYPE),
    Key("flush.messages", _number(1, MAX_LONG), str(MAX_LONG), "log.flush.interval.messages", LONG_TYPE),
    Key("flush.ms", LONG, str(MAX_LONG), "log.flush.interval.ms", LONG_TYPE),
    Key("follower.replication.throttled.replicas", str, "", None, LIST_TYPE),
    Key("index.interval.bytes", INT, "4096", "log.index.interval.bytes", INT_TYPE),
    Key("leader.replication.throttled.replicas", str, "", None, LIST_TYPE),
    Key("local.retention.bytes", _number(-2, MAX_LONG), "-2", None, LONG_TYPE),
    Key("local.retention.ms", _number(-2, MAX_LONG), "-2", None, LONG_TYPE),
    Key("max.compaction.lag.ms", LONG, str(MAX_LONG), "log.cleaner.max.compaction.lag.ms", LONG_TYPE),
    Key("max.message.bytes", INT, "1048588", "message.max.bytes", INT_TYPE),
    Key("message.timestamp.after.max.ms", LONG, "3600000", "log.message.timestamp.after.max.ms", LONG_TYPE),
    Key(
        "message.timestamp.before.max.ms",
        LONG,
        str(MAX_LONG),
        "log.message.timestamp.before.max.ms",
        LONG_TYPE,
    ),
    Key(
        "message.timestamp.type",
        _one_of("CreateTime", "LogAppendTime"),
        "CreateTime",
        "log.message.timestamp.type",
        STRING_TYPE,
    ),
    Key("min.cleanable.dirty.ratio", _ratio, "0.5", "log.cleaner.min.cleanable.ratio", DOUBLE_TYPE),
    Key("min.compaction.lag.ms", LONG, "0", "log.cleaner.min.compaction.lag.ms", LONG_TYPE),
    Key("min.insync.replicas", _number(1, MAX_INT), "1", "min.insync.replicas", INT_TYPE),
    Key("preallocate", _boolean, "false", "log.preallocate", BOOLEAN_TYPE),
    Key("remote.storage.enable", _boolean, "false", None, BOOLEAN_TYPE),
    Key("retention.bytes", ANY_LONG, "-1", "log.retention.bytes", LONG_TYPE),
    Key("retention.ms", ANY_LONG, "604800000", "log.retention.ms", LONG_TYPE),
    Key("segment.bytes", _number(14, MAX_INT), "1073741824", "log.segment.bytes", INT_TYPE),
    Key("segment.index.bytes", _number(4, MAX_INT), "10485760", "log.index.size.max.bytes", INT_TYPE),
    Key("segment.jitter.ms", LONG, "0", "log.roll.jitter.ms", LONG_TYPE),
    Key("segment.ms", _number(1, MAX_LONG), "604800000", "log.roll.ms", LONG_TYPE),
    Key(
        "unclean.leader.election.enable",
        _boolean,
        "false",
        "unclean.leader.election.enable",
        BOOLEAN_TYPE,
    ),
)
TOPIC_KEYS: Final[dict[str, Key]] = {key.name: key for key in _TOPIC_KEYS}

_BROKER_KEYS = (
    Key("auto.create.topics.enable", _boolean, "true", None, BOOLEAN_TYPE),
    Key("broker.rack", str, "", None, STRING_TYPE),
    Key("broker.session.timeout.ms", INT, "9000", None, INT_TYPE),
    Key("channel.mode", _one_of("pipelined", "serial"), "pipelined", None, STRING_TYPE),
    Key("connections.max.idle.ms", LONG, "600000", None, LONG_TYPE),
    Key("controlled.shutdown.enable", _boolean, "true", None, BOOLEAN_TYPE),
    Key("default.replication.factor", _number(-1, 32767), "-1", None, INT_TYPE),
    Key("delete.topic.enable", _boolean, "true", None, BOOLEAN_TYPE),
    Key("fetch.max.bytes", _number(1024, MAX_INT), "57671680", None, INT_TYPE),
    Key("group.consumer.assignment.interval.ms", INT, "1000", None, INT_TYPE),
    Key("group.consumer.assignors", _names_of("uniform", "range"), "uniform,range", None, LIST_TYPE),
    Key("group.consumer.heartbeat.interval.ms", _number(1, MAX_INT), "5000", None, INT_TYPE),
    Key("group.consumer.max.size", _number(1, MAX_INT), str(MAX_INT), None, INT_TYPE),
    Key(
        "group.consumer.migration.policy",
        _one_of("disabled", "upgrade", "downgrade", "bidirectional"),
        "bidirectional",
        None,
        STRING_TYPE,
    ),
    Key("group.consumer.session.timeout.ms", _number(1, MAX_INT), "45000", None, INT_TYPE),
    Key("group.initial.rebalance.delay.ms", INT, "3000", None, INT_TYPE),
    Key("group.max.session.timeout.ms", INT, "1800000", None, INT_TYPE),
    Key("group.max.size", _number(1, MAX_INT), str(MAX_INT), None, INT_TYPE),
    Key("group.min.session.timeout.ms", INT, "6000", None, INT_TYPE),
    Key("log.validate", _one_of("headers", "strict"), "headers", None, STRING_TYPE),
    Key("max.connection.creation.rate", INT, str(MAX_INT), None, INT_TYPE),
    Key("max.connections", INT, str(MAX_INT), None, INT_TYPE),
    Key("max.connections.per.ip", INT, str(MAX_INT), None, INT_TYPE),
    Key("max.connections.per.ip.overrides", _limits, "", None, STRING_TYPE),
    Key("max.pipelined.requests", _number(1, MAX_INT), "256", None, INT_TYPE),
    Key("max.pipelined.bytes", _number(1, MAX_LONG), "134217728", None, LONG_TYPE),
    Key("num.io.threads", _number(1, 64), "1", None, INT_TYPE),
    Key("num.network.threads", _number(1, 64), "1", None, INT_TYPE),
    Key("num.partitions", _number(1, MAX_INT), "1", None, INT_TYPE),
    Key("offset.metadata.max.bytes", INT, "4096", None, INT_TYPE),
    Key("offsets.commit.timeout.ms", _number(1, MAX_INT), "5000", None, INT_TYPE),
    Key("offsets.retention.check.interval.ms", _number(1, MAX_LONG), "600000", None, LONG_TYPE),
    Key("offsets.retention.minutes", _number(1, MAX_INT), "10080", None, INT_TYPE),
    Key("offsets.topic.num.partitions", _number(1, MAX_INT), "50", None, INT_TYPE),
    Key("offsets.topic.replication.factor", _number(-1, 32767), "-1", None, INT_TYPE),
    Key("offsets.topic.segment.bytes", _number(1, MAX_INT), "104857600", None, INT_TYPE),
    Key("producer.id.expiration.ms", _number(1, MAX_INT), "86400000", None, INT_TYPE),
    Key("queued.max.request.bytes", ANY_LONG, "-1", None, LONG_TYPE),
    Key("queued.max.requests", _number(1, MAX_INT), "500", None, INT_TYPE),
    Key("replica.fetch.backoff.ms", INT, "50", None, INT_TYPE),
    Key("replica.fetch.max.bytes", _number(1, MAX_INT), "1048576", None, INT_TYPE),
    Key("replica.fetch.min.bytes", INT, "1", None, INT_TYPE),
    Key("replica.fetch.response.max.bytes", _number(1, MAX_INT), "10485760", None, INT_TYPE),
    Key("replica.fetch.wait.max.ms", INT, "500", None, INT_TYPE),
    Key("replica.lag.time.max.ms", LONG, "30000", None, LONG_TYPE),
    Key("socket.request.max.bytes", _number(1, MAX_INT), "104857600", None, INT_TYPE),
    Key("socket.send.buffer.bytes", _number(-1, MAX_INT), "-1", None, INT_TYPE),
    Key("socket.receive.buffer.bytes", _number(-1, MAX_INT), "-1", None, INT_TYPE),
    Key("threads", _one_of("shared", "separate"), "shared", None, STRING_TYPE),
    Key(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _number(1, MAX_INT),
        "10000",
        None,
        INT_TYPE,
    ),
    Key("transaction.max.timeout.ms", _number(1, MAX_INT), "900000", None, INT_TYPE),
    Key(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _number(1, MAX_INT),
        "3600000",
        None,
        INT_TYPE,
    ),
    Key("transaction.state.log.min.isr", _number(1, MAX_INT), "2", None, INT_TYPE),
    Key("transaction.state.log.num.partitions", _number(1, MAX_INT), "50", None, INT_TYPE),
    Key("transaction.state.log.replication.factor", _number(-1, 32767), "-1", None, INT_TYPE),
    Key("transaction.state.log.segment.bytes", _number(1, MAX_INT), "104857600", None, INT_TYPE),
    Key("transactional.id.expiration.ms", _number(1, MAX_INT), "604800000", None, INT_TYPE),
)
_SYNONYMS = tuple(
    Key(key.synonym, key.parse, key.default, None, key.type_code) for key in _TOPIC_KEYS if key.synonym
)
BROKER_KEYS: Final[dict[str, Key]] = {key.name: key for key in (*_BROKER_KEYS, *_SYNONYMS)}


def nearest(name: str, known: Iterable[str]) -> str:
    """ " (did you mean ...?)" or nothing; for messages about misspelt names."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def as_text(value: object) -> str:
    """A configuration's value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


class BrokerConfig:
    """The configuration of the brokers of one cluster: `config.int("num.partitions")`, `config.seconds(...)`.

    Raises `UnknownOption` naming the nearest name, `ConfigurationError` naming what a value may be.
    """

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        self.given = {name: as_text(value) for name, value in (values or {}).items()}
        self._parsed: dict[str, Any] = {}
        for name, text in self.given.items():
            self._parsed[name] = _read_broker_value(name, text)

    def get(self, name: str) -> Any:
        """The parsed value, or the default."""
        value = self._parsed.get(name)
        if value is None:
            key = BROKER_KEYS[name]
            value = self._parsed[name] = key.parse(key.default)
        return value

    def int(self, name: str) -> int:
        value: int = self.get(name)
        return value

    def seconds(self, name: str) -> float:
        """Of a configuration in milliseconds."""
        value: int = self.get(name)
        return value / 1000.0


def _read_broker_value(name: str, text: str) -> Any:
    key = BROKER_KEYS.get(name)
    if key is None:
        raise UnknownOption(f"no broker configuration {name!r}{nearest(name, BROKER_KEYS)}")
    try:
        return key.parse(text)
    except ValueError as error:
        raise ConfigurationError(f"broker configuration {name}={text!r} is not {error}") from None


class TopicConfig:
    """A topic's configuration over the brokers'.  Immutable; `InvalidConfig` names what is wrong."""

    __slots__ = ("_parsed", "broker", "given")

    def __init__(self, given: Mapping[str, object] | None, broker: BrokerConfig) -> None:
        self.given = {name: as_text(value) for name, value in (given or {}).items()}
        self.broker = broker
        self._parsed: dict[str, Any] = {}
        for name, text in self.given.items():
            key = TOPIC_KEYS.get(name)
            if key is None:
                raise InvalidConfig(f"Unknown topic config name: {name}{nearest(name, TOPIC_KEYS)}")
            try:
                self._parsed[name] = key.parse(text)
            except ValueError as error:
                raise InvalidConfig(
                    f"Invalid value {text} for configuration {name}: it must be {error}"
                ) from None

    def get(self, name: str) -> Any:
        value = self._parsed.get(name)
        if value is None:
            key = TOPIC_KEYS[name]
            value = self.broker.get(key.synonym) if key.synonym else key.parse(key.default)
            self._parsed[name] = value
        return value

    def text(self, name: str) -> str:
        """The value as Kafka writes it."""
        if name in self.given:
            return self.given[name]
        key = TOPIC_KEYS[name]
        if key.synonym is not None and key.synonym in self.broker.given:
            return self.broker.given[key.synonym]
        return key.default

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.get("cleanup.policy")
