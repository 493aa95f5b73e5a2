"""This broker's treatment of Kafka's options (kafka_table.py), and options of its own.

Options that Kafka does not have, options with another default, and options that are refused or have no
effect. Data only; keys.py reads it.
"""

from __future__ import annotations

from typing import Final

OWN_TABLE: Final = """\
allow.everyone.if.no.acl.found BOOLEAN false
channel.mode STRING pipelined [pipelined, serial]
client.telemetry BOOLEAN false
log.validate STRING headers [headers, strict]
max.pipelined.bytes LONG 134217728 [1,...]
max.pipelined.requests INT 256 [1,...]
producer.id.expiration.check.interval.ms INT 600000 [1,...]
super.users STRING ""
threads STRING shared [shared, separate]
"""
"""Options that `KafkaCluster` has in addition to Kafka's broker options, including those of the authorizer.
"""

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""Apache Kafka's authorizer, which checks ACLs; a value of the option `authorizer.class.name`."""

DEPARTURES: Final[dict[str, tuple[str, str, str]]] = {
    "authorizer.class.name": (
        "",
        f"[, {STANDARD_AUTHORIZER}]",
        "no classes can be loaded; this one is built in",
    ),
    "default.replication.factor": ("-1", "[-1,...,32767]", "three replicas, or as many as brokers"),
    "group.consumer.assignors": ("uniform,range", "[uniform, range]", "no classes can be loaded"),
    "max.connections.per.ip.overrides": ("", "[address]:[number],...", "Kafka checks it without saying so"),
    "num.io.threads": ("1", "[1,...,64]", "brokers share one thread; more handlers only cost time"),
    "num.network.threads": ("1", "[1,...,64]", "as num.io.threads"),
    "offsets.topic.compression.codec": ("0", "[0,...,4]", "Kafka ends at its start with any other"),
    "offsets.topic.replication.factor": ("-1", "[-1,...,32767]", "as default.replication.factor"),
    "replica.fetch.backoff.ms": ("50", "[0,...]", "a follower in a test should not sleep for a second"),
    "sasl.enabled.mechanisms": (
        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "[PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER]",
        "there is no Kerberos here",
    ),
    "share.coordinator.state.topic.replication.factor": (
        "-1",
        "[-1,...,32767]",
        "as default.replication.factor",
    ),
    "socket.receive.buffer.bytes": ("-1", "[-1,...]", "the kernel tunes the buffer"),
    "socket.send.buffer.bytes": ("-1", "[-1,...]", "the kernel tunes the buffer"),
    "transaction.state.log.replication.factor": ("-1", "[-1,...,32767]", "as default.replication.factor"),
}
"""Options whose default or valid values differ from Kafka's on purpose: default, valid values, reason."""

_MADE_BY_CLUSTER = "KafkaCluster makes it; see its arguments"
_SECURITY = "KafkaCluster(listeners=..., users=...) makes it; see its arguments"
_TLS = "KafkaCluster(tls=...) makes it; see its arguments"
_TIERED = "there is no tiered storage"
_QUORUM = "the controller lives in the process, there is no KRaft quorum"
_CLASSES = "no classes can be loaded"
_LINKS = "brokers talk over links of their own, not over listeners"

REFUSED: Final[dict[str, str]] = {
    "advertised.listeners": _MADE_BY_CLUSTER,
    "alter.config.policy.class.name": _CLASSES,
    "broker.id": _MADE_BY_CLUSTER,
    "client.quota.callback.class": _CLASSES,
    "controller.": _QUORUM,
    "create.topic.policy.class.name": _CLASSES,
    "delegation.token.": _SECURITY,
    "inter.broker.listener.name": _LINKS,
    "kafka.metrics.": _CLASSES,
    "listener": _MADE_BY_CLUSTER,
    "metadata.log.dir": _QUORUM,
    "metric.reporters": _CLASSES,
    "node.id": _MADE_BY_CLUSTER,
    "principal.builder.class": _CLASSES,
    "process.roles": _MADE_BY_CLUSTER,
    "remote.": _TIERED,
    "sasl.": _SECURITY,
    "security.": _SECURITY,
    "ssl.": _TLS,
}
"""Options that `KafkaCluster(config=...)` refuses, by name or prefix, with the reason; they can still be
described.
"""

TAKEN: Final[frozenset[str]] = frozenset(
    {
        "controller.quota.window.num",
        "controller.quota.window.size.seconds",
        "delegation.token.expiry.check.interval.ms",
        "delegation.token.expiry.time.ms",
        "delegation.token.max.lifetime.ms",
        "delegation.token.secret.key",
        "sasl.enabled.mechanisms",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.server.max.receive.size",
        "ssl.client.auth",
        "ssl.principal.mapping.rules",
    }
)
"""Accepted options whose prefix is refused."""
