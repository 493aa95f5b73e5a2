"""Two clients for Python that need an environment of their own: faust-streaming, and the abandoned pykafka.

    python -m tests.conformance.venv_clients [--real]

faust-streaming's worker (on aiokafka) runs an agent with a table, at least once and exactly once.  pykafka
2.8 speaks the protocol of Kafka 0.9, which 4.x serves no more: it has to be refused at once, and the events
of the cluster have to say so.  Installed by pip into the cache folder.  A minute; not part of the gate.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from .maven import cache_folder
from .suites import Distribution, Serving, run

FAUST = "faust-streaming==0.15.3"
PYKAFKA = Distribution("pykafka", "2.8.0", "f0bbd394ae6970042a587c99fe4dc0966e67787249d963d4ce2f810dc9490577")
NEEDED_BY_PYKAFKA = ("six", "kazoo", "tabulate")
INSTALL_TIMEOUT = 300.0
RUN_TIMEOUT = 180.0
COUNT = 200

WORKER = """
import os, faust

app = faust.App(
    os.environ["APP"], broker="kafka://" + os.environ["KAFKA"], store="memory://", web_enabled=False,
    topic_replication_factor=1, topic_partitions=4, processing_guarantee=os.environ["GUARANTEE"],
    consumer_auto_offset_reset="earliest", topic_disable_leader=True,
)
orders = app.topic(app.conf.id + "-orders", value_type=bytes, value_serializer="raw", partitions=4)
totals = app.topic(app.conf.id + "-totals", value_serializer="json", partitions=4)
counts = app.Table("counts", default=int, partitions=4)

@app.agent(orders)
async def count(stream):
    seen = 0
    async for key, value in stream.items():
        name = value.decode().split("-")[0]
        counts[name] += 1
        await totals.send(key=name, value=counts[name])
        seen += 1
        if seen == 200:
            print("COUNTED", sorted(counts.items()), flush=True)
            os._exit(0)
"""

FEED = """
import asyncio, os
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

async def feed(servers, name):
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([NewTopic(name + end, 4, 1) for end in ("-orders", "-totals")])
    await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(200):
            value = f"k{number % 5}-{number}".encode()
            await producer.send_and_wait(name + "-orders", value, key=value[:2])

asyncio.run(feed(os.environ["KAFKA"], os.environ["APP"]))
"""
"""From outside: a worker leaves out topics that are not there when it starts, on Apache Kafka as here."""

OLD = """
import os, sys
from pykafka import KafkaClient

client = KafkaClient(hosts=os.environ["KAFKA"], broker_version="0.9.0")
topic = client.topics[b"old"]
try:
    with topic.get_sync_producer() as producer:
        producer.produce(b"x")
except Exception as error:
    print("REFUSED", type(error).__name__)
else:
    print("TAKEN")
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--real", action="store_true", help="run against Apache Kafka, to compare")
    options = parser.parse_args(arguments)
    succeeded = [_faust_counts(guarantee, options.real) for guarantee in ("at_least_once", "exactly_once")]
    if not options.real:
        succeeded.append(_pykafka_is_refused())
    print(f"{sum(succeeded)} passed, {succeeded.count(False)} failed")
    return 0 if all(succeeded) else 1


def _faust_counts(guarantee: str, real: bool) -> bool:
    python = _environment("faust", FAUST)
    with tempfile.TemporaryDirectory() as name, Serving().started(real) as servers:
        folder = Path(name)
        (folder / "worker.py").write_text(WORKER)
        settings = {
            "KAFKA": servers,
            "APP": f"counting-{guarantee}",
            "GUARANTEE": guarantee,
            "PYTHONPATH": "",
        }
        output = run([str(python), "-c", FEED], folder, settings, RUN_TIMEOUT)
        command = [str(python), "-m", "faust", "-A", "worker", "worker", "--without-web"]
        output += run(command, folder, settings, RUN_TIMEOUT)
    # What the worker prints it logs, each argument as a line.
    expected = str([(f"k{number}", COUNT // 5) for number in range(5)])
    return _report(f"faust-streaming counts {guarantee.replace('_', ' ')}", expected in output, output)


def _pykafka_is_refused() -> bool:
    from pykafka2.testing import KafkaCluster

    python = _environment("pykafka", *NEEDED_BY_PYKAFKA)
    with tempfile.TemporaryDirectory() as name, KafkaCluster(brokers=1, topics={"old": 1}) as cluster:
        sources = PYKAFKA.unpacked(Path(name))
        settings = {"KAFKA": cluster.bootstrap_servers, "PYTHONPATH": str(sources)}
        output = run([str(python), "-c", OLD], sources, settings, RUN_TIMEOUT)
        refused = [event.text for event in cluster.events.events("refused")]
    is_explained = refused == [
        "broker 0 closed a connection of pykafka: Produce v0 is not served, v3 to v13 are"
    ]
    return _report("pykafka is refused", "REFUSED" in output and is_explained, f"{output}\n{refused}")


def _report(what: str, is_good: bool, output: str) -> bool:
    print(f"ok      {what}" if is_good else f"FAILED  {what}\n{output}", flush=True)
    return is_good


def _environment(name: str, *packages: str) -> Path:
    """The interpreter of an environment that has these packages."""
    folder = cache_folder() / f"venv-{name}"
    python = folder / "bin" / "python"
    is_whole = folder / "installed"
    if not is_whole.exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT)
        is_whole.touch()
    return python


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
