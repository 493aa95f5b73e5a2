"""Numbers and tables that the guides repeat are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pykafka2.admin.options import ADMIN_OPTIONS
from pykafka2.broker.config.keys import BROKER_KEYS, TOPIC_KEYS
from pykafka2.broker.replication import purgatory as delayed
from pykafka2.broker.replication.purgatory import DelayedOperation
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.producer.idempotence import MAX_IN_FLIGHT_IDEMPOTENT
from pykafka2.producer.options import PRODUCER_OPTIONS

DOCS = Path(__file__).parents[2] / "docs"
SERVERS = {"bootstrap_servers": "localhost:9092"}
BYTES_BEFORE_A_BATCH = 8 + 4
"""Base offset and length."""


def text_of(page: str) -> str:
    """Return a page with its lines joined."""
    return re.sub(r"\s*\n", " ", (DOCS / page).read_text(encoding="utf-8"))


def test_largest_batch_is_the_default_of_broker_and_topic() -> None:
    default = BROKER_KEYS["message.max.bytes"].default
    assert default == TOPIC_KEYS["max.message.bytes"].default == str(2**20 + BYTES_BEFORE_A_BATCH)
    for page in ("guides/producing.md", "guides/operating.md"):
        assert f"{int(default):,} bytes" in text_of(page)


def test_largest_request_is_the_producers_default() -> None:
    largest = PRODUCER_OPTIONS.parse(None, SERVERS).max_request_size
    assert f"| the producer's `max_request_size` | {largest:,} bytes |" in text_of("guides/producing.md")


def test_number_of_batches_in_flight_is_that_of_the_idempotent_producer() -> None:
    assert MAX_IN_FLIGHT_IDEMPOTENT == 5
    assert "up to five batches are in flight" in text_of("guides/producing.md")


def test_sizes_of_fetch_and_poll_are_the_consumers_defaults() -> None:
    options = CONSUMER_OPTIONS.parse(None, SERVERS)
    text = text_of("guides/commits.md")
    assert f"`fetch_max_bytes` ({options.fetch_max_bytes >> 20} MiB)" in text
    assert f"`max_poll_records` ({options.max_poll_records}) each" in text


def test_lag_of_the_isr_is_the_brokers_default() -> None:
    seconds = int(BROKER_KEYS["replica.lag.time.max.ms"].default or 0) // 1000
    assert f"`replica.lag.time.max.ms` ({seconds} s)" in text_of("glossary.md")


def test_table_of_kafka_13840_has_the_two_cells_that_the_planted_bug_fails() -> None:
    text = (DOCS / "guides/commits.md").read_text(encoding="utf-8")
    table = text.partition("| Java client with the bug |")[2].partition("\n\n")[0].splitlines()
    ways = [cell.strip() for cell in table[0].split("|")[:3]]
    stuck = {
        (mode, way)
        for mode, *cells in re.findall(
            r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE
        )
        for way, cell in zip(ways, cells, strict=True)
        if cell == "**never commits again**"
    }
    assert stuck == {("assign", "automatic"), ("assign", "`commitAsync`")}


@pytest.mark.parametrize("page", ["architecture.md", "broker-rules.md"])
def test_delayed_join_is_absent_as_documented(page: str) -> None:
    assert "`DelayedJoin`" in text_of(page)
    below, waiting = {DelayedOperation}, set()
    while below:
        waiting |= below
        below = {each for one in below for each in one.__subclasses__()}
    assert delayed.DelayedProduce in waiting
    assert not [one for one in waiting if "Join" in one.__name__]


UNITS = {"ms": 1, "s": 1000, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
SIZES = {"KiB": 1 << 10, "MiB": 1 << 20}
DEFAULT = re.compile(
    r"`(?P<name>[a-z][a-z\d]*(?:[._][a-z\d]+)+)`(?:\]\([^)]*\))? "
    r"\((?P<number>[\d,]+|one)(?: (?P<unit>ms|s|second|minute|hour|day|[KM]iB|byte)s?)?"
    r"(?: by default)?\)"
)
"""A name with its default: `linger_ms` (5), [`fetch_max_bytes`](...) (50 MiB)."""


def defaults_of(name: str) -> set[int]:
    """Return the defaults of the clients' options and the brokers' settings with this name."""
    tables = (PRODUCER_OPTIONS, CONSUMER_OPTIONS, ADMIN_OPTIONS)
    ours = name.removeprefix("kafka.").replace(".", "_")
    found = [option.default for table in tables for option in table.options.values() if option.name == ours]
    found += [keys[name].default for keys in (BROKER_KEYS, TOPIC_KEYS) if name in keys]
    return {int(one) for one in found if re.fullmatch(r"\d+", str(one))}


def wrong_defaults(text: str) -> list[str]:
    """Return the names with a number in brackets that is not the default; unknown names are left out."""
    wrong = []
    for found in DEFAULT.finditer(re.sub(r"\s*\n\s*", " ", text)):
        number = int(found["number"].replace(",", "").replace("one", "1")) * SIZES.get(found["unit"], 1)
        unit = 60_000 if found["name"].endswith("minutes") else 1
        known = defaults_of(found["name"])
        if known and number * UNITS.get(found["unit"], unit) // unit not in known:
            wrong.append(found[0])
    return wrong


@pytest.mark.parametrize(
    "page",
    [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "reference"],
    ids=lambda page: str(page.relative_to(DOCS)),
)
def test_defaults_that_pages_repeat_are_those_of_the_code(page: Path) -> None:
    assert wrong_defaults(page.read_text(encoding="utf-8")) == []


def test_a_wrong_default_is_found() -> None:
    right = (
        "`linger_ms` (5), `session_timeout_ms`\n(45 s), [`fetch_max_bytes`](x.md#y) (50 MiB), "
        "`no.such.setting` (3), `offsets.retention.minutes` (7 days), "
        "`transaction_timeout_ms` (60 s by default)"
    )
    assert wrong_defaults(right) == []
    wrong = ["`linger_ms` (5 s)", "`session_timeout_ms` (10 s)", "`replica.lag.time.max.ms` (3)"]
    assert wrong_defaults(" and ".join(wrong)) == wrong
