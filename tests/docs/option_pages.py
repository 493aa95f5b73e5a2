"""The reference pages of the site that are made from tables of the code.

    python -m tests.docs.option_pages

writes them again after an option, a metric, an error or a fault rule has changed; test_option_pages.py
compares. This module makes the pages of the clients' options: effect, default and valid values come from the
option tables, the rest from option_subjects.py.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pykafka2.admin.options import ADMIN_OPTIONS, AdminConfig
from pykafka2.aio import aiokafka_options
from pykafka2.consumer.assignors.assignor import Assignor
from pykafka2.consumer.options import CONSUMER_OPTIONS, GROUPS_ONLY, OF_CLASSIC_GROUPS, ConsumerConfig
from pykafka2.option_fields import Option
from pykafka2.options import OptionTable
from pykafka2.producer.options import PRODUCER_OPTIONS, ProducerConfig
from pykafka2.producer.partitioning.partitioners import Partitioner
from pykafka2.refused_options import Refused
from pykafka2.share.options import SHARE_CONSUMER_OPTIONS, ShareConsumerConfig
from pykafka2.text import counted
from tests.docs.definitions import (
    check_entries,
    definition,
    either,
    linked,
    overview,
    section,
    table,
    values,
)
from tests.docs.error_page import error_page
from tests.docs.fault_rule_page import fault_rule_page
from tests.docs.metric_pages import metrics_page
from tests.docs.option_subjects import (
    ADMIN,
    CONSUMER,
    OURS,
    PRODUCER,
    SHARE_CONSUMER,
    Advice,
    Subject,
    in_order,
)
from tests.docs.spark_option_page import spark_page

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

HEAD = """\
# Options of the {title}

Keyword arguments of `{client}`, or a mapping as its first argument. Dots and underscores mean the same
(`{dotted}`, `{name}`). Names and defaults are those of Apache Kafka 4.4.0's {title}, except that the
kernel sizes socket buffers. Numbers can be text (`"5"`), as in property files.

The constructor raises [`ConfigurationError`](errors.md#configurationerror) for an invalid value, and
[`UnknownOption`](errors.md#unknownoption) for an unknown name, with the nearest known one. `None` leaves the
default. Within a subject, options of high importance come first.
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

MEMBERS_ONLY = """\
## Only with a group

Without a `group_id` these options raise `ConfigurationError`, unless their value has no effect:
{groups_only}.

With `group_protocol="consumer"` the brokers decide instead of these options, which raise
`ConfigurationError`: {classic_only}.
"""

ASYNCIO = "The clients of [pykafka2.aio](../guides/asyncio.md) have the same options with the same defaults."

REFUSED_HEAD = """\
## Not supported

These options of Kafka or kafka-python raise `ConfigurationError`, except for values without an effect.
"""

IGNORED_HEAD = """\
## Ignored

Accepted with one warning, so that programs written for other clients run.
"""

UNITS_OF_TIME = ((3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))
UNITS_OF_SIZE = ((1 << 20, "MiB"), (1 << 10, "KiB"))
OF_BYTES = ("_bytes", "_memory", "batch_size", "request_size")
"""How names of options with a number of bytes end."""
SAID_BY_THE_TYPE = ("a string", "a callable", "True or False", "a list of strings", "a list of objects")
"""Valid values that the type on the page says already."""


def page(
    head: str, options: OptionTable[Any], config: Any, subjects: Mapping[str, Subject], tail: str
) -> str:
    """Return the whole page, with a definition of each option of the table; `tail` follows them.

    Raises SystemExit for options without an entry in `subjects`, and for entries without an option.
    """
    by_name = {option.name: option for option in options.options.values()}
    check_entries("option_subjects.py", by_name, [name for subject in subjects.values() for name in subject])
    types = types_of(config)
    parts = [head, overview({title: in_order(subject) for title, subject in subjects.items()}) + "\n"]
    for title, subject in subjects.items():
        found = (
            _definition(by_name[name], types[name], subject[name], by_name) for name in in_order(subject)
        )
        parts.append(section(title, *found))
    parts += [
        tail,
        REFUSED_HEAD,
        table(("Option", "Why"), _refused(options.refused, by_name)),
        IGNORED_HEAD,
        table(
            ("Option", "Why"),
            [(f"`{name}`", _reason(why, by_name)) for name, why in sorted(options.ignored.items())],
        ),
    ]
    return "\n".join(part for part in parts if part)


def _definition(option: Option, kind: str, advice: Advice, known: Mapping[str, Option]) -> str:
    aliases = [f"`{alias}`" for alias in option.aliases if alias.replace("_", ".") != advice.java]
    facts = (
        ("Type", kind),
        ("Default", default_of(option)),
        ("Valid", "" if option.legal in SAID_BY_THE_TYPE else values(range_of(option))),
        ("Importance", advice.importance),
        ("Kafka", name_in_kafka(option, advice)),
        ("Also", ", ".join(aliases)),
    )
    text = " ".join(f"{option.doc} {advice.text}".split())
    return definition(option.name, facts, linked(text, known, option.name))


def name_in_kafka(option: Option, advice: Advice) -> str:
    """Return the name in Java's clients if it differs, or the origin of an option that they do not have."""
    if advice.origin:
        return "not there; only in pykafka2" if advice.origin == OURS else f"not there; from {advice.origin}"
    dotted = advice.java or option.dotted
    return f"`{dotted}`" if dotted != option.name else ""


def range_of(option: Option) -> str:
    """Return the valid values without the type."""
    return option.legal.removeprefix("a number of milliseconds, ").removeprefix("an integer ")


def default_of(option: Option) -> str:
    """Return the default with a readable unit: `120000` (2 minutes), `16384` (16 KiB)."""
    shown, number = f"`{option.default!r}`", option.default
    if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
        return shown
    if option.name.endswith("_ms"):
        for size, unit in UNITS_OF_TIME:
            if number >= size and number % size == 0:
                return f"{shown} ({counted(number // size, unit)})"
    elif option.name.endswith(OF_BYTES):
        for size, unit in UNITS_OF_SIZE:
            if number >= size and number % size == 0:
                return f"{shown} ({number // size} {unit})"
    return shown


def types_of(config: Any) -> dict[str, str]:
    """Return the type of each keyword in words, from the annotations that type checkers read."""
    names = {"Assignor": Assignor, "Partitioner": Partitioner}
    names["GivenAssignor"] = str | Assignor | type[Assignor]  # type: ignore[assignment]
    hints = typing.get_type_hints(config, localns=names)
    return {
        name: "milliseconds" if name.endswith("_ms") else either(_words(hint)) for name, hint in hints.items()
    }


WORDS: dict[Any, str] = {
    bool: "boolean",
    int: "integer",
    float: "integer",
    str: "string",
    object: "object",
    Any: "object",
    type: "class",
    Callable: "callable",
    Mapping: "mapping",
    Sequence: "list",
}
"""Types of values in words; numbers that are no integers are milliseconds or infinite."""


def _words(hint: Any) -> Iterator[str]:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        yield from (WORDS[type(value)] for value in parts)
    elif getattr(origin or hint, "_is_protocol", False):
        yield "object"
    elif origin in WORDS or hint in WORDS:
        yield WORDS[hint if origin is None else origin]
    elif parts:  # a union
        for part in parts:
            yield from _words(part)
    elif hint is not type(None):
        yield hint.__name__


def members_only() -> str:
    """The part of the consumer's page on options of groups, from the lists that the consumer checks by."""
    return MEMBERS_ONLY.format(groups_only=_named(GROUPS_ONLY), classic_only=_named(OF_CLASSIC_GROUPS))


def _named(fields: Iterable[str]) -> str:
    names = sorted(CONSUMER_OPTIONS.options[field].name for field in fields)
    return ", ".join(f"[`{name}`](#{name})" for name in names)


def asyncio_options(known: OptionTable[Any]) -> str:
    """The part of a page on the options that the asyncio clients have besides."""
    renamed = [
        f"aiokafka's `{old}` sets `{new}`."
        for old, new in aiokafka_options.RENAMED.items()
        if new in known.fields
    ]
    ignored = [
        f"`{name}` is ignored with a warning: {why}." for name, why in aiokafka_options.IGNORED.items()
    ]
    return section("With asyncio", " ".join([ASYNCIO, *renamed, *ignored]))


def _refused(refused: dict[str, Refused], known: Iterable[str]) -> list[tuple[str, ...]]:
    """One row for all that are refused for the same reason."""
    by_reason: dict[str, list[str]] = {}
    for name, why in refused.items():
        by_reason.setdefault(why.reason, []).append(name)
    return [
        (", ".join(f"`{name}`" for name in sorted(names)), _reason(reason, known))
        for reason, names in by_reason.items()
    ]


def _reason(text: str, known: Iterable[str]) -> str:
    return linked(f"{text[0].upper()}{text[1:]}.", known)


def producer_page() -> str:
    head = HEAD.format(title="producer", client="KafkaProducer", dotted="linger.ms", name="linger_ms")
    tail = PARTITIONERS + "\n" + asyncio_options(PRODUCER_OPTIONS)
    return page(head, PRODUCER_OPTIONS, ProducerConfig, PRODUCER, tail)


def consumer_page() -> str:
    head = HEAD.format(
        title="consumer", client="KafkaConsumer", dotted="fetch.min.bytes", name="fetch_min_bytes"
    )
    tail = members_only() + "\n" + asyncio_options(CONSUMER_OPTIONS)
    return page(head, CONSUMER_OPTIONS, ConsumerConfig, CONSUMER, tail)


def admin_page() -> str:
    head = HEAD.format(title="admin client", client="KafkaAdminClient", dotted="client.id", name="client_id")
    return page(head, ADMIN_OPTIONS, AdminConfig, ADMIN, "")


def share_consumer_page() -> str:
    head = HEAD.format(
        title="share consumer", client="KafkaShareConsumer", dotted="group.id", name="group_id"
    )
    return page(head, SHARE_CONSUMER_OPTIONS, ShareConsumerConfig, SHARE_CONSUMER, "")


PAGES: dict[str, Callable[[], str]] = {
    "producer-options.md": producer_page,
    "consumer-options.md": consumer_page,
    "share-consumer-options.md": share_consumer_page,
    "admin-options.md": admin_page,
    "spark-options.md": spark_page,
    "metrics.md": metrics_page,
    "errors.md": error_page,
    "fault-rules.md": fault_rule_page,
}

if __name__ == "__main__":
    for name, made in PAGES.items():
        (REFERENCE / name).write_text(made(), encoding="utf-8")
