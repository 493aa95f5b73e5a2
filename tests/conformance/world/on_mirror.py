"""MirrorMaker 2 from one cluster to another."""

from __future__ import annotations

from typing import Any

from .on_connect import wait, worker_log
from .side import Answers, Side

MIRROR = "org.apache.kafka.connect.mirror.MirrorMaker"


def mirror(side: Side) -> Answers:
    """From this cluster to a bundled one beside it: records, configs, a group's offsets, checkpoints."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    from pykafka2.testing import KafkaCluster

    from ..behaviour.golden import BUNDLED_CONFIG

    answers: Answers = {}
    make = ("--bootstrap-server", side.servers, "--create", "--topic", "mirrored", "--partitions", 2)
    side.tool("TopicCommand", *make, "--replication-factor", 3, "--config", "retention.ms=123456789")
    producer = Producer({"bootstrap.servers": side.servers})
    for number in range(200):
        producer.produce("mirrored", f"value {number}".encode(), partition=number % 2)
    producer.flush(20)
    reader: Any = Consumer(
        {"bootstrap.servers": side.servers, "group.id": "reader", "enable.auto.commit": False}
    )
    reader.commit(
        offsets=[TopicPartition("mirrored", 0, 60), TopicPartition("mirrored", 1, 100)], asynchronous=False
    )
    config = {name: value for name, value in BUNDLED_CONFIG.items() if name != "channel.mode"}
    with KafkaCluster(brokers=3, config=config) as target:
        settings = side.folder / "mirror.properties"
        settings.write_text(MIRROR_SETTINGS.format(source=side.servers, target=target.bootstrap_servers))
        copy: Any = Consumer(
            {"bootstrap.servers": target.bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
        )
        with side.process(MIRROR, str(settings)) as process:

            def alive() -> None:
                assert process.poll() is None, f"MirrorMaker ended:\n{worker_log(side)}"

            def ends() -> list[int]:
                alive()
                topic = copy.list_topics("source.mirrored", 5).topics["source.mirrored"]
                if len(topic.partitions) < 2:
                    return []
                return [
                    copy.get_watermark_offsets(TopicPartition("source.mirrored", n), 5)[1] for n in (0, 1)
                ]

            wait(lambda: ends() == [100, 100], "the copies", side)
            for number in range(200, 300):
                producer.produce("mirrored", f"value {number}".encode(), partition=number % 2)
            producer.flush(20)
            wait(lambda: ends() == [150, 150], "the copies of what came later", side)
            reader.commit(
                offsets=[TopicPartition("mirrored", 0, 150), TopicPartition("mirrored", 1, 150)],
                asynchronous=False,
            )

            def committed() -> list[int]:
                alive()
                spots = copy.committed([TopicPartition("source.mirrored", n) for n in (0, 1)], 5)
                return [spot.offset for spot in spots]

            wait(lambda: committed() == [150, 150], "the group's offsets", side)
            answers["the group's offsets there"] = committed()

            def topics() -> list[str]:
                return sorted(
                    name for name in copy.list_topics(timeout=5).topics if not name.startswith("__")
                )

            wait(
                lambda: {"source.heartbeats", "source.checkpoints.internal"} <= set(topics()),
                "its topics",
                side,
            )
            answers["topics there"] = topics()
            process.terminate()
            process.wait(timeout=30)
        describe = (
            "--bootstrap-server",
            target.bootstrap_servers,
            "--describe",
            "--topic",
            "source.mirrored",
        )
        answers["the copy's settings"] = "retention.ms=123456789" in side.tool("TopicCommand", *describe)[1]
        copy.assign([TopicPartition("source.mirrored", number, 0) for number in (0, 1)])
        values: list[str] = []
        wait(
            lambda: bool(
                values.extend(one.value().decode() for one in copy.consume(100, 0.5)) or len(values) >= 300
            ),
            "values",
            side,
        )
        answers["each value once"] = sorted(values) == sorted(f"value {number}" for number in range(300))
        copy.close()
    reader.close()
    listed = side.tool("TopicCommand", "--bootstrap-server", side.servers, "--list")[1].split()
    answers["topics here"] = sorted(name for name in listed if "mm2" in name or "heartbeats" in name)
    return answers


MIRROR_SETTINGS = """\
clusters = source, target
source.bootstrap.servers = {source}
target.bootstrap.servers = {target}
source->target.enabled = true
source->target.topics = mirrored
source->target.groups = reader
target->source.enabled = false
source->target.emit.heartbeats.enabled = true
emit.checkpoints.interval.seconds = 1
emit.heartbeats.interval.seconds = 1
refresh.topics.interval.seconds = 2
refresh.groups.interval.seconds = 2
sync.topic.configs.interval.seconds = 2
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
offset.lag.max = 0
replication.factor = 3
checkpoints.topic.replication.factor = 3
heartbeats.topic.replication.factor = 3
offset-syncs.topic.replication.factor = 3
offset.storage.replication.factor = 3
status.storage.replication.factor = 3
config.storage.replication.factor = 3
source.consumer.auto.offset.reset = earliest
exactly.once.source.support = enabled
plugin.discovery = only_scan
"""
