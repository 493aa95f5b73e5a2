"""Old releases of other clients, kafka-python 2.0.2 and confluent-kafka 1.9.2, on brokers of each release.

They need Python 3.10, from pyenv or PATH, in an environment of their own, which pip fills once.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pykafka2.testing import QUICK, KafkaCluster

from .maven import cache_folder, skip_or_fail

pytestmark = pytest.mark.long

RELEASES = ["2.8", "3.9", "4.0", "4.4"]
PACKAGES = ("kafka-python==2.0.2", "confluent-kafka==1.9.2")
INSTALL_TIMEOUT = 300.0
RUN_TIMEOUT = 60.0

KAFKA_PYTHON = """
import json, sys
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

servers = sys.argv[1]
said = {}
admin = KafkaAdminClient(bootstrap_servers=servers)
admin.create_topics([NewTopic("orders", 2, 3, topic_configs={"retention.ms": "1234567"})])
said["topics"] = sorted(name for name in admin.list_topics() if not name.startswith("__"))
producer = KafkaProducer(bootstrap_servers=servers, acks="all", compression_type="gzip")
said["api_version"] = producer.config["api_version"]
sent = []
for n in range(100):
    sent.append(producer.send("orders", b"%d" % n, key=b"k", headers=[("h", b"x")], partition=n % 2))
producer.flush()
said["offsets"] = [one.get(10).offset for one in sent[-2:]]
producer.close()

def read(count, **options):
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest",
        enable_auto_commit=False, consumer_timeout_ms=20000, **options)
    values = []
    for record in consumer:
        values.append(int(record.value))
        if len(values) == count:
            break
    consumer.commit()
    consumer.close()
    return values

first = read(60)
said["read"] = sorted(first + read(40))
consumer = KafkaConsumer(bootstrap_servers=servers, group_id="readers")
both = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
said["committed"] = [consumer.committed(one) for one in both]
said["ends"] = list(consumer.end_offsets(both).values())
said["times"] = [found.offset for found in consumer.offsets_for_times({one: 0 for one in both}).values()]
consumer.close()
said["groups"] = [name for name, kind in admin.list_consumer_groups()]
described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "orders")])[0]
said["retention"] = [row[1] for row in described.resources[0][4] if row[0] == "retention.ms"]
admin.create_partitions({"orders": __import__("kafka.admin", fromlist=["x"]).NewPartitions(3)})
admin.delete_topics(["orders"])
admin.close()
print(json.dumps(said))
"""

CONFLUENT = """
import json, sys
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

servers = {"bootstrap.servers": sys.argv[1]}
said = {}
admin = AdminClient(servers)
for future in admin.create_topics([NewTopic("orders", 2, 3, config={"retention.ms": "1234567"})]).values():
    future.result(20)
offsets = []
producer = Producer({**servers, "enable.idempotence": True, "compression.type": "lz4"})
for n in range(100):
    producer.produce("orders", b"%d" % n, b"k", n % 2, headers=[("h", b"x")],
                     on_delivery=lambda error, message: offsets.append(error or message.offset()))
producer.flush(20)
said["offsets"] = sorted(offsets)[-2:]

transactional = Producer({**servers, "transactional.id": "mover"})
transactional.init_transactions(20)
for n in range(4):
    transactional.begin_transaction()
    transactional.produce("orders", b"%d" % (100 + n), partition=0)
    if n % 2:
        transactional.abort_transaction(20)
    else:
        transactional.commit_transaction(20)
successor = Producer({**servers, "transactional.id": "mover"})
successor.init_transactions(20)
try:
    transactional.begin_transaction()
    transactional.produce("orders", b"fenced", partition=0)
    transactional.commit_transaction(20)
except KafkaException as error:
    said["fenced"] = error.args[0].name()

def read(count):
    consumer = Consumer({**servers, "group.id": "readers", "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "isolation.level": "read_committed"})
    consumer.subscribe(["orders"])
    values = []
    while len(values) < count:
        message = consumer.poll(20)
        values.append(int(message.value()))
    consumer.commit(asynchronous=False)
    both = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    committed = consumer.committed(both, 20)
    consumer.close()
    return values, [one.offset for one in committed]

first, _ = read(60)
rest, said["committed"] = read(42)
said["read"] = sorted(first + rest)
said["groups"] = [group.id for group in admin.list_groups(timeout=20)]
resource = ConfigResource("topic", "orders")
said["retention"] = [admin.describe_configs([resource])[resource].result(20)["retention.ms"].value]
for future in admin.delete_topics(["orders"]).values():
    future.result(20)
print(json.dumps(said))
"""


@cache
def old_python() -> Path:
    """Return the interpreter of an environment of Python 3.10 with the old clients."""
    found = sorted(Path.home().glob(".pyenv/versions/3.10.*/bin/python"))
    base = str(found[-1]) if found else shutil.which("python3.10")
    if base is None:
        skip_or_fail("no Python 3.10 for the old clients, neither from pyenv nor on PATH")
    folder = cache_folder() / "venv-old-clients"
    python, is_whole = folder / "bin" / "python", folder / "installed"
    if not is_whole.exists():
        subprocess.run([base, "-m", "venv", "--clear", str(folder)], check=True, timeout=INSTALL_TIMEOUT)
        command = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES]
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT)
        is_whole.touch()
    return python


def report(program: str, cluster: KafkaCluster) -> dict[str, Any]:
    """Return what a program printed about this cluster."""
    done = subprocess.run(
        [str(old_python()), "-c", program, cluster.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
    )
    assert done.returncode == 0, f"{done.stderr}\n{cluster.timeline(100).text()}"
    sys.stderr.write(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_kafka_python_2_0_2_produces_reads_and_administers(release: str) -> None:
    with KafkaCluster(as_version=release, config=dict(QUICK)) as cluster:
        said = report(KAFKA_PYTHON, cluster)
        cluster.wait_until(lambda: "orders" not in cluster.topics())
    assert said["topics"] == ["orders"]
    assert said["offsets"] == [49, 49]
    assert said["read"] == list(range(100))
    assert said["committed"] == said["ends"] == [50, 50]
    assert said["times"] == [0, 0]
    assert said["groups"] == ["readers"]
    assert said["retention"] == ["1234567"]


@pytest.mark.parametrize("release", RELEASES)
def test_confluent_kafka_1_9_2_produces_transacts_reads_and_administers(release: str) -> None:
    with KafkaCluster(as_version=release, config=dict(QUICK)) as cluster:
        said = report(CONFLUENT, cluster)
        cluster.wait_until(lambda: "orders" not in cluster.topics())
    assert said["offsets"] == [49, 49]
    assert said["fenced"] == "_FENCED"
    assert said["read"] == [*range(100), 100, 102]
    assert said["committed"][1] == 50
    assert said["groups"] == ["readers"]
    assert said["retention"] == ["1234567"]
