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
from tests.consumer import test_consumer_option_effects as consumer_tests
from tests.docs.spark_option_page import spark_page
from tests.producer import test_producer_option_effects as producer_tests

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

PRODUCER_HEAD = """\
# Options of the producer

Keyword arguments of `KafkaProducer`, or a mapping as its first argument; dots and underscores mean the same
(`linger.ms`, `linger_ms`). Names and defaults are those of Apache Kafka 4.3.1's producer, except that the
kernel sizes socket buffers. Numbers can be text (`"5"`), as in property files.

The constructor raises `ConfigurationError` for an invalid value, and
`UnknownOption` for an unknown name, with the nearest known one. `None` leaves the default. The last column
names the test that shows what the option does.
"""

PARTITIONERS = """\
## Partitioners by name

The names that `partitioner` accepts besides a callable or an object. Those with librdkafka's names map every
key to the same partition as librdkafka and the clients built on it.

| Name | Records with a key | Records without |
| --- | --- | --- |
| not set | murmur2 of the key, as in Java | stick to one partition for `batch_size` bytes (KIP-794) |
| `murmur2_random` | the same | the same |
| `murmur2` | the same | like records with an empty key |
| `murmur2_round_robin` | the same | round robin over the partitions with a leader |
| `consistent` | CRC32 of the key | like records with an empty key |
| `consistent_random` | CRC32 of the key; an empty key counts as none | stick, as by default |
| `fnv1a` | FNV-1a of the key | like records with an empty key |
| `fnv1a_random` | FNV-1a of the key | stick, as by default |
| `round_robin` | round robin over the partitions with a leader | the same; Java's `RoundRobinPartitioner` |
| `random` | any partition with a leader | the same |
"""

CONSUMER_HEAD = """\
# Options of the consumer

Keyword arguments of `KafkaConsumer`, or a mapping as its first argument; dots and underscores mean the same
(`fetch.min.bytes`, `fetch_min_bytes`). Names and defaults are those of Apache Kafka 4.3.1's consumer, except
that the kernel sizes socket buffers. Numbers can be text (`"5"`), as in property files.

The constructor raises `ConfigurationError` for an invalid value, and
`UnknownOption` for an unknown name, with the nearest known one. `None` leaves the default. The last column
names the test that shows what the option does.
"""

MEMBERS_ONLY = """\
## Only with a group

Without a `group_id` these options raise `ConfigurationError`, unless their value has no effect:
{groups_only}.

With `group_protocol="consumer"` the brokers decide instead of these options, which raise
`ConfigurationError`: {classic_only}.
"""

REFUSED_HEAD = """\
## Not supported

These options of Kafka or kafka-python raise `ConfigurationError`, except for values without an effect.
"""

IGNORED_HEAD = """\
## Ignored

Accepted with one warning, so that programs written for other clients run.
"""


def page(head: str, table: OptionTable[Any], shown_by: dict[str, tuple[str, str]], tail: str) -> str:
    """Return the whole page, with a row for every name that the table knows; `tail` follows its options.

    Raises SystemExit for options without a row in `shown_by`.
    """
    missing = sorted(option.name for option in table.options.values() if option.name not in shown_by)
    if missing:
        raise SystemExit(
            f"SHOWN_BY has no row for {', '.join(missing)}; add the test that shows what each option does to "
            "tests/producer/test_producer_option_effects.py or tests/consumer/test_consumer_option_effects.py"
        )
    rows = sorted(_row(option, shown_by[option.name]) for option in table.options.values())
    return (
        "\n".join(
            [
                head,
                *_table(("Option", "Default", "Valid values", "What it does", "Shown by"), rows),
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
