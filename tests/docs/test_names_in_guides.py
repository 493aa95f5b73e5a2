"""Names in code style on the pages for users, such as `client_rack`, are those of the library."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from pykafka2.admin.options import ADMIN_OPTIONS
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.contrib.prometheus import FAMILIES, FINEST, exported_name
from pykafka2.producer.options import PRODUCER_OPTIONS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "CHANGELOG.md",
    *(page for page in sorted((ROOT / "docs" / "guides").glob("*.md"))),
]
BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
IN_CODE = re.compile(r"`([^`]+)`")
WORD = re.compile(r"[A-Za-z_]\w*")
NOT_A_WORD = re.compile(r"[a-z\d]_[a-zA-Z\d]|[a-z][A-Z]")
"""Matches what no ordinary word has: an underscore, or a capital letter within."""
SETTING = re.compile(r"(?<![\w./*-])[a-z][a-z\d]*(?:\.[a-z][a-z\d]*){2,}(?![\w/(*-])")
"""A setting of brokers or of other clients, such as `replica.selector.class`."""
OF_OTHERS = {
    "aiokafka": {"AIOKafkaAdminClient", "create_ssl_context", "last_poll_timestamp"},
    "Apache Kafka": {
        "NetworkProcessorAvgIdlePercent",
        "RequestHandlerAvgIdlePercent",
        "commitAsync",
        "commitSync",
        "maybeUnmute",
    },
    "Celery and gunicorn": {"broker_login_method", "broker_use_ssl", "post_fork", "worker_process_init"},
    "Confluent": {
        "basic.auth.user.info",
        "confluent_kafka",
        "identityPoolId",
        "logicalCluster",
        "message.timeout.ms",
        "schema.registry.url",
    },
    "FastStream": {"TestKafkaBroker", "publish_batch"},
    "freezegun": {"freeze_time"},
    "kafka-python": {"coordinator.assignors.roundrobin", "max_usable_produce_magic"},
    "OpenTelemetry": {"BatchSpanProcessor", "records_lag"},
    "pandas": {"to_pandas"},
    "Python": {"BufferError", "ProcessPoolExecutor", "as_completed", "captureWarnings"},
    "Spark": {
        "JAVA_GATEWAY_EXITED",
        "MALFORMED_LOG_FILE",
        "OUTPUT_MODE_NOT_SUPPORTED",
        "addPyFile",
        "allowlistCheck",
        "planPartitions",
        "realTime",
        "realTimeMode",
        "spark.python.worker.reuse",
    },
    "the reader": {"env.tar.gz", "msk_iam_token", "my_company", "orders.test.js", "test_orders", "test_shop"},
    "the tests": {"real_asyncio", "tests.campaign.run"},
}
"""Names that pages use and the library does not, by their owner."""


@cache
def known_words() -> frozenset[str]:
    """Return all words and settings of the sources and examples, and the names of the test files."""
    found = {name for names in OF_OTHERS.values() for name in names}
    for table in (PRODUCER_OPTIONS, CONSUMER_OPTIONS, ADMIN_OPTIONS):
        for option in table.options.values():
            found |= {option.dotted, option.name.replace("_", ".")}
    for folder in ("pykafka2", "spark_connector", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            found.update(WORD.findall(text), SETTING.findall(text))
    found |= {*FAMILIES, *(exported_name(metric) for metric in FINEST.values())}
    found.update(path.stem for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*"))
    return frozenset(found)


def unknown_names(text: str) -> list[str]:
    """Return the names in code style that neither the library nor a code block of the page has."""
    own = {name for block in BLOCK.findall(text) for name in WORD.findall(block) + SETTING.findall(block)}
    code = IN_CODE.findall(BLOCK.sub("", text))
    named = {word for one in code for word in WORD.findall(one) if NOT_A_WORD.search(word)}
    named |= {setting.removeprefix("kafka.") for one in code for setting in SETTING.findall(one)}
    return sorted(named - own - known_words())


@pytest.mark.gate
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_code_style_exist(page: Path) -> None:
    assert unknown_names(page.read_text(encoding="utf-8")) == []


def test_misspelt_names_are_found() -> None:
    text = (
        "`client_rack` `client_rak` `CommitFailed` `CommitFailled`\n```\nmy_own\n```\n`my_own()` `words` "
        "`replica.selector.class=x` `replica.selector.clas` `kafka.group.id.x` `kafka.max.poll.records`"
    )
    assert unknown_names(text) == ["CommitFailled", "client_rak", "group.id.x", "replica.selector.clas"]
