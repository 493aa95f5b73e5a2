"""The Python programs of kafka-python's README, run with pykafka2 after only their import is changed.

They are read from the source distributions at test time.  Only what a test needs is added: the cluster's
address, an end for loops that wait for records (consumer_timeout_ms), and reading from the beginning.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.testing import QUICK, KafkaCluster

from .kafka_python_suite import VERSIONS
from .suites import Distribution

TOPICS = {
    "my_favorite_topic": 1,
    "foobar": 3,
    "json-foo": 1,
    "msgpackfoo": 1,
    "txn_topic": 1,
    "fizzbuzz": 1,
    "flipflap": 1,
}

NOT_INSTALLED = "msgpack"

CLIENT = re.compile(r"(Kafka(?:Consumer|Producer))\((.*)\)$", re.MULTILINE)
ADDED = {
    "KafkaConsumer": "consumer_timeout_ms=1000, auto_offset_reset='earliest'",
    "KafkaProducer": "",
}


def programs(readme: str) -> list[str]:
    """The blocks of Python in a README in reStructuredText, in order."""
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:(?: {4}.*)?\n)+)", readme, re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE) for block in blocks]


def changed(program: str, servers: str) -> str:
    """The program with our import, and with what a test needs."""

    def with_test_options(call: re.Match[str]) -> str:
        name, argument_text = call.groups()
        argument_text = re.sub(r"bootstrap_servers=[^,)]*,?\s*", "", argument_text)
        arguments = [argument_text, f"bootstrap_servers={servers!r}", ADDED[name]]
        return f"{name}({', '.join(filter(None, arguments))})"

    return CLIENT.sub(with_test_options, re.sub(r"\bfrom kafka\b", "from pykafka2", program))


def run(program: str, servers: str) -> None:
    """Run it with what earlier programs of the README have imported and made."""
    with (
        KafkaConsumer(
            "foobar", bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=1000
        ) as consumer,
        KafkaProducer(bootstrap_servers=servers) as producer,
    ):
        namespace: dict[str, Any] = {"KafkaConsumer": KafkaConsumer, "KafkaProducer": KafkaProducer}
        namespace |= {"consumer": consumer, "producer": producer}
        try:
            exec(program, namespace)
        finally:
            for name in ("consumer", "producer"):
                namespace[name].close()


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with KafkaCluster(brokers=1, topics=TOPICS, config=QUICK) as cluster:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for topic, partitions in TOPICS.items():
                for partition in range(partitions):
                    producer.send(topic, b'{"foo": "bar"}', partition=partition, headers=[("name", b"value")])
        yield cluster.bootstrap_servers


@pytest.mark.parametrize(("version", "least"), [("3.0.12", 16), ("2.3.3", 14), ("2.0.6", 12)])
def test_programs_of_the_readme_run_with_the_import_changed(
    version: str, least: int, servers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    distribution = Distribution("kafka-python", version, VERSIONS[version])
    readme = distribution.unpacked(tmp_path) / "README.rst"
    failed, ran = [], 0
    level = logging.getLogger().level
    for program in programs(readme.read_text()):
        if NOT_INSTALLED in program:
            continue
        ran += 1
        try:
            run(changed(program, servers), servers)
        except Exception as error:
            failed.append((program, repr(error)))
        finally:
            logging.getLogger().setLevel(level)
    assert failed == []
    assert ran >= least
    assert "ConsumerRecord(topic='my_favorite_topic', partition=0, offset=0" in capsys.readouterr().out
