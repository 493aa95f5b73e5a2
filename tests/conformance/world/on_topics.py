"""TopicCommand, ConfigCommand and ClientMetricsCommand with all their verbs, as a shell would run them."""

from __future__ import annotations

import time

from .asker import Asker
from .side import Answers, Side


def topics(side: Side) -> Answers:
    a = Asker(side)
    topic = "TopicCommand"
    a.ask(
        topic,
        "--create",
        "--topic",
        "made",
        "--partitions",
        3,
        "--replication-factor",
        3,
        "--config",
        "retention.ms=5000",
        "--config",
        "max.message.bytes=9000",
    )
    a.ask(topic, "--create", "--topic", "placed", "--replica-assignment", "0:1,1:2,2:0")
    a.ask(topic, "--create", "--topic", "made", "--if-not-exists")
    a.ask(topic, "--create", "--topic", "made")
    a.ask(topic, "--create", "--topic", "with_underscore.and.dot")
    a.ask(topic, "--create", "--topic", "wide", "--replication-factor", 5)
    a.ask(topic, "--create", "--topic", "odd", "--config", "nonsense=1")
    a.ask(topic, "--create", "--topic", "no good name")
    time.sleep(0.3)
    a.ask(topic, "--list", keep=lambda line: not line.startswith("conf"))
    a.ask(topic, "--list", "--exclude-internal", "--topic", "ma.*")
    a.ask(topic, "--describe", "--topic", "placed")
    a.ask(topic, "--describe", "--topic", "unknown")
    a.ask(topic, "--describe", "--topic", "unknown", "--if-exists")
    for which in (
        "--under-replicated-partitions",
        "--unavailable-partitions",
        "--at-min-isr-partitions",
        "--under-min-isr-partitions",
        "--topics-with-overrides",
    ):
        a.ask(topic, "--describe", which, "--topic", "placed|made")
    a.ask(topic, "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    a.ask(topic, "--alter", "--topic", "made", "--partitions", 5)
    a.ask(topic, "--alter", "--topic", "made", "--partitions", 2)
    a.ask(topic, "--alter", "--topic", "placed", "--partitions", 4, "--replica-assignment", "0:1,1:2,2:0,0:2")
    a.ask(topic, "--alter", "--topic", "unknown", "--partitions", 2, "--if-exists")
    a.ask(topic, "--delete", "--topic", "made")
    a.ask(topic, "--delete", "--topic", "made")
    a.ask(topic, "--delete", "--topic", "made", "--if-exists")
    return a.answers


def configs(side: Side) -> Answers:
    a = Asker(side)
    config = "ConfigCommand"
    a.ask("TopicCommand", "--create", "--topic", "configured", "--partitions", 1)

    def change(kind: str, name: str, *arguments: object) -> None:
        entity = ("--entity-name", name) if name else ("--entity-default",)
        a.ask(config, "--entity-type", kind, *entity, "--alter", *arguments)
        a.ask(
            config, "--entity-type", kind, *entity, "--describe", name=f"describe {kind} {name} {arguments}"
        )

    change("topics", "configured", "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]")
    change("topics", "configured", "--delete-config", "retention.ms")
    change("topics", "configured", "--delete-config", "retention.ms")
    change("topics", "configured", "--add-config", "nonsense=1")
    change("topics", "configured", "--add-config", "retention.ms=soon")
    change("topics", "unknown", "--add-config", "retention.ms=1")
    change("brokers", "1", "--add-config", "message.max.bytes=2000000")
    change("brokers", "1", "--delete-config", "message.max.bytes")
    change("brokers", "", "--add-config", "log.retention.ms=9000000")
    change("brokers", "", "--delete-config", "log.retention.ms")
    change("brokers", "1", "--add-config", "log.dirs=/x")
    change("groups", "g", "--add-config", "consumer.session.timeout.ms=50000")
    change("groups", "g", "--add-config", "consumer.session.timeout.ms=1")
    change("groups", "g", "--delete-config", "consumer.session.timeout.ms")
    change("client-metrics", "m", "--add-config", "interval.ms=1000,metrics=[org.apache.kafka.]")
    change("client-metrics", "m", "--add-config", "interval.ms=1")
    change("client-metrics", "m", "--delete-config", "interval.ms,metrics")
    change("broker-loggers", "1", "--add-config", "root=DEBUG")
    change("broker-loggers", "1", "--delete-config", "root")
    for kind in ("topics", "brokers", "groups", "client-metrics"):
        a.ask(config, "--entity-type", kind, "--describe", keep=lambda line: "conf" in line.lower())
    a.ask(config, "--entity-type", "topics", "--entity-name", "configured", "--describe", "--all")
    a.ask(config, "--entity-type", "groups", "--entity-name", "g", "--describe", "--all")
    a.ask(
        config,
        "--entity-type",
        "users",
        "--entity-name",
        "u",
        "--alter",
        "--add-config",
        "SCRAM-SHA-256=[password=p]",
    )
    a.ask(
        config,
        "--entity-type",
        "clients",
        "--entity-name",
        "c",
        "--alter",
        "--add-config",
        "producer_byte_rate=1e9",
    )
    a.ask(
        config,
        "--entity-type",
        "ips",
        "--entity-name",
        "127.0.0.2",
        "--alter",
        "--add-config",
        "connection_creation_rate=99",
    )
    metrics = "ClientMetricsCommand"
    a.ask(
        metrics,
        "--alter",
        "--name",
        "mine",
        "--interval",
        5000,
        "--metrics",
        "org.apache.kafka.consumer.",
        "--match",
        "client_id=x",
    )
    a.ask(metrics, "--list")
    a.ask(metrics, "--describe", "--name", "mine")
    a.ask(metrics, "--describe")
    a.ask(metrics, "--alter", "--name", "mine", "--interval", 1)
    a.ask(metrics, "--delete", "--name", "mine")
    a.ask(metrics, "--list", name="list after delete")
    return a.answers
