"""The pages of the site that list a client's options, made from its option table.

    python -m tests.docs.option_pages

writes them anew after an option has changed; test_option_pages.py compares.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pykafka2.consumer.options import CONSUMER_OPTIONS, GROUPS_ONLY, OF_CLASSIC_GROUPS
from pykafka2.option_fields import Option
from pykafka2.options import OptionTable
from pykafka2.producer.options import PRODUCER_OPTIONS
from pykafka2.refused_options import Refused
from tests.consumer import test_options_act as consumer_tests
from tests.docs.spark_option_page import spark_page
from tests.producer import test_options_act as producer_tests

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

PRODUCER_HEAD = """\
# Options of the producer

Keyword arguments of `KafkaProducer`, or a mapping as its first argument; dots and underscores mean the same
(`linger.ms`, `linger_ms`). Names and defaults are those of Apache Kafka 4.3.1's producer, but that sockets'
buffers are left to the kernel. A value that is not legal raises `ConfigurationError` when the producer is
made, an unknown name `UnknownOption` with the nearest known one. `None` stands for "not given". The last
column names the test that shows what the option does.
"""

PARTITIONERS = """\
## Partitioners by name

What `partitioner` takes besides a callable or an object. Those with librdkafka's names put every key where
librdkafka, and what is built on it, puts it.

| Name | Records with a key | Records without |
| --- | --- | --- |
| none given | murmur2 of the key, as in Java | stick to a partition for `batch_size` bytes (KIP-794) |
| `murmur2_random` | the same | the same |
| `murmur2` | the same | as those with an empty key |
| `murmur2_round_robin` | the same | one partition with a leader after the other |
| `consistent` | CRC32 of the key | as those with an empty key |
| `consistent_random` | CRC32 of the key; an empty one is none | stick, as by default |
| `fnv1a` | FNV-1a of the key | as those with an empty key |
| `fnv1a_random` | FNV-1a of the key | stick, as by default |
| `round_robin` | one partition with a leader after the other | the same; Java's `RoundRobinPartitioner` |
| `random` | any partition with a leader | the same |
"""

CONSUMER_HEAD = """\
# Options of the consumer

Keyword arguments of `KafkaConsumer`, or a mapping as its first argument; dots and underscores mean the same
(`fetch.min.bytes`, `fetch_min_bytes`). Names and defaults are those of Apache Kafka 4.3.1's consumer, but
that sockets' buffers are left to the kernel. A value that is not legal raises `ConfigurationError` when the
consumer is made, an unknown name `UnknownOption` with the nearest known one. `None` stands for "not given".
The last column names the test that shows what the option does.
"""

MEMBERS_ONLY = """\
## Only with a group

These raise `ConfigurationError` when they are given without a `group_id`, unless their value asks for
nothing: {groups_only}.

With `group_protocol="consumer"` the brokers decide what these say, and giving one raises
`ConfigurationError`: {classic_only}.
"""

REFUSED_HEAD = """\
## Refused

Options of Kafka or kafka-python that are not offered. Giving one raises `ConfigurationError`; values that ask
for nothing may stand.
"""

IGNORED_HEAD = """\
## Without meaning here

Accepted with one warning, so that programs written for other clients run.
"""


def page(head: str, table: OptionTable[Any], shown_by: dict[str, tuple[str, str]], tail: str) -> str:
    """The whole page, with a row for every name that the table knows; `tail` follows its options."""
    rows = [_row(option, shown_by[option.name]) for option in table.options.values()]
    rows.sort()
    return (
        "\n".join(
            [
                head,
                *_table(("Option", "Default", "Legal", "What it does", "Shown by"), rows),
                tail,
                REFUSED_HEAD,
                *_table(("Option", "Why"), _refused(table.refused)),
                IGNORED_HEAD,
                *_table(
                    ("Option", "Why"), [(f"`{name}`", why) for name, why in sorted(table.ignored.items())]
                ),
            ]
        ).rstrip()
        + "\n"
    )


def members_only() -> str:
    """The part of the consumer's page on options of groups, from the lists that the consumer checks by."""
    return MEMBERS_ONLY.format(groups_only=_named(GROUPS_ONLY), classic_only=_named(OF_CLASSIC_GROUPS))


def _named(fields: Iterable[str]) -> str:
    return ", ".join(sorted(f"`{CONSUMER_OPTIONS.options[field].name}`" for field in fields))


def _row(option: Option, test: tuple[str, str]) -> tuple[str, ...]:
    names = f"`{option.name}`"
    if option.aliases:
        names += " (or " + ", ".join(f"`{alias}`" for alias in option.aliases) + ")"
    return names, f"`{option.default!r}`", option.legal, option.doc, "`" + "::".join(test) + "`"


def _refused(refused: dict[str, Refused]) -> list[tuple[str, ...]]:
    """One row for all that are refused for the same reason."""
    by_reason: dict[str, list[str]] = {}
    for name, why in refused.items():
        by_reason.setdefault(why.reason, []).append(name)
    return [(", ".join(f"`{name}`" for name in sorted(names)), reason) for reason, names in by_reason.items()]


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines] + [""]


PAGES = {
    "producer-options.md": lambda: page(
        PRODUCER_HEAD, PRODUCER_OPTIONS, producer_tests.SHOWN_BY, PARTITIONERS
    ),
    "consumer-options.md": lambda: page(
        CONSUMER_HEAD, CONSUMER_OPTIONS, consumer_tests.SHOWN_BY, members_only()
    ),
    "spark-options.md": spark_page,
}

if __name__ == "__main__":
    for name, made in PAGES.items():
        (REFERENCE / name).write_text(made(), encoding="utf-8")
