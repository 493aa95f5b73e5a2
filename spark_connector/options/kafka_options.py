"""Options `kafka.*`: names of Java's clients, translated to pykafka2's where they differ.

Pure.  Names and values are checked by the clients themselves when they are created, before anything is sent.
Neighbor: connections.py creates the clients.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from pykafka2.errors import ConfigurationError

logger = logging.getLogger(__name__)

PREFIX = "kafka."

NOT_FOR_SOURCES = {
    "auto.offset.reset": "startingOffsets sets where a query begins",
    "key.deserializer": "keys are read as binary; cast the column",
    "value.deserializer": "values are read as binary; cast the column",
    "enable.auto.commit": "the source commits no offsets; Spark's checkpoint holds them",
    "interceptor.classes": "they would have to run in every task",
}
NOT_FOR_SINKS = {
    "key.serializer": "keys are written as they are in their column, binary or string",
    "value.serializer": "values are written as they are in their column, binary or string",
    "interceptor.classes": "they would have to run in every task",
    "partitioner.class": "Java's classes cannot be loaded; use a column named partition",
    "transactional.id": "delivery=exactly_once names the transactions itself",
}
# Options of consumer groups, which have no effect: the source reads without a group.
OF_GROUPS = (
    "group.id",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
)
OF_PRODUCERS = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "bulk.batch.size",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "enable.idempotence",
        "key.serializer",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.idle.ms",
        "partitioner",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.class",
        "partitioner.ignore.keys",
        "partitioner.rack.aware",
        "retries",
        "transaction.timeout.ms",
        "transaction.two.phase.commit.enable",
        "transactional.id",
        "value.serializer",
    }
)
"""Options that only producers have; a source ignores them, so that it and a sink can share options."""
OF_CONSUMERS = frozenset(
    {
        *OF_GROUPS,
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "consumer.timeout.ms",
        "default.offset.commit.callback",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.incremental.fetch.sessions",
        "exclude.internal.topics",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "isolation.level",
        "key.deserializer",
        "max.decompressed.bytes",
        "max.partition.fetch.bytes",
        "on.bad.record",
        "partition.assignment.strategy",
        "queued.max.bytes",
        "share.acknowledgement.mode",
        "share.acquire.mode",
        "value.deserializer",
    }
)
"""Options that only consumers have; a sink ignores them."""
NOT_OF_ADMINS = frozenset({"client.rack"})
"""Options that consumers and producers have, and admin clients lack."""
SECRET = re.compile(r"password|secret|token|credential|jaas|\.key$|keystore\.key|\.pem$")


def for_source(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return options for a `KafkaConsumer`."""
    _refuse(kafka, NOT_FOR_SOURCES)
    own = _own(kafka, OF_PRODUCERS, "source")
    return _translated({name: value for name, value in own.items() if name not in OF_GROUPS})


def for_sink(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return options for a `KafkaProducer`."""
    _refuse(kafka, NOT_FOR_SINKS)
    own = _own(kafka, OF_CONSUMERS, "sink")
    if own.pop("enable.idempotence", "true").strip().lower() != "true":
        raise ConfigurationError(
            "kafka.enable.idempotence must be true: the sink's producers are always idempotent."
        )
    return _translated(own)


def redacted(kafka: Mapping[str, str]) -> dict[str, str]:
    """Hide secrets, for messages and reprs."""
    return {name: "[hidden]" if is_secret(name) else value for name, value in kafka.items()}


def is_secret(name: str) -> bool:
    """Return whether the value of an option must not be shown, however its name is spelled."""
    return SECRET.search(name.lower().replace("_", ".")) is not None


def _refuse(kafka: Mapping[str, str], reasons: Mapping[str, str]) -> None:
    if not kafka.get("bootstrap.servers", "").strip():
        raise ConfigurationError(
            "kafka.bootstrap.servers is missing. Set it to 'host:port', or to several separated by commas."
        )
    for name in kafka:
        if name in reasons:
            raise ConfigurationError(f"kafka.{name} cannot be set: {reasons[name]}.")


def _own(kafka: Mapping[str, str], of_others: frozenset[str], here: str) -> dict[str, str]:
    """Return the options without those that only the other kind of client has."""
    ignored = sorted(of_others.intersection(kafka))
    if ignored:
        logger.debug("The %s ignores options of the other kind of client: %s", here, ", ".join(ignored))
    return {name: value for name, value in kafka.items() if name not in of_others}


def _translated(options: dict[str, str]) -> dict[str, str]:
    for store, names in (("truststore", ("ssl.cafile",)), ("keystore", ("ssl.certfile", "ssl.keyfile"))):
        if options.get(f"ssl.{store}.type", "").upper() == "PEM":
            del options[f"ssl.{store}.type"]
            path = options.pop(f"ssl.{store}.location", None)
            if path is not None:
                options.update(dict.fromkeys(names, path))
    if "ssl.endpoint.identification.algorithm" in options:
        wanted = options.pop("ssl.endpoint.identification.algorithm").strip().lower()
        if wanted not in ("", "https"):
            raise ConfigurationError(
                f"kafka.ssl.endpoint.identification.algorithm={wanted!r}: only 'https' and '' are legal."
            )
        options["ssl.check.hostname"] = "true" if wanted else "false"
    return options
