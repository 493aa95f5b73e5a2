"""The page of the site that lists the options of Spark's source and sink, made from their tables."""

from __future__ import annotations

from typing import Any

from spark_connector.options.kafka_options import NOT_FOR_SINKS, NOT_FOR_SOURCES, OF_GROUPS
from spark_connector.options.reading import table_of
from spark_connector.options.sink_options import SinkOptions
from spark_connector.options.source_options import SourceOptions

HEAD = """\
# Options of Spark's source and sink

For `.option(...)` with `.format("pykafka2")`; upper and lower case mean the same. [Kafka in
PySpark](../guides/spark.md) explains. A value that is not legal raises `ConfigurationError` before any task
starts, an unknown name `UnknownOption` with the nearest known one. `kafka.bootstrap.servers` is always
needed.
"""

KAFKA = """\
## Options of the clients

`kafka.` and the name of an option of pykafka2's [consumer](consumer-options.md) or
[producer](producer-options.md), or of one of these of Java's clients:

| Java | Here |
| --- | --- |
| `kafka.ssl.truststore.location` with `kafka.ssl.truststore.type=PEM` | `kafka.ssl.cafile` |
| `kafka.ssl.keystore.location` with `kafka.ssl.keystore.type=PEM` | `kafka.ssl.certfile`, `.keyfile` |
| `kafka.ssl.endpoint.identification.algorithm` (empty or `https`) | `kafka.ssl.check.hostname` |
"""


def spark_page() -> str:
    parts = [
        HEAD,
        "## The source\n",
        *_table(("Option", "Default", "Legal", "For", "What it does"), _rows(SourceOptions)),
        "One of `subscribe`, `subscribePattern` and `assign` selects the partitions to read.\n",
        "## The sink\n",
        *_table(("Option", "Default", "Legal", "For", "What it does"), _rows(SinkOptions)),
        KAFKA,
        "Refused:\n",
        *_table(
            ("Option", "Why"),
            [
                *((f"`kafka.{name}` (source)", why) for name, why in sorted(NOT_FOR_SOURCES.items())),
                *((f"`kafka.{name}` (sink)", why) for name, why in sorted(NOT_FOR_SINKS.items())),
            ],
        ),
        "Accepted by the source and without meaning, since it joins no group: "
        + ", ".join(f"`kafka.{name}`" for name in OF_GROUPS)
        + ".\n",
        "Source and sink ignore options that only the client of the other one has, with a DEBUG line, "
        "so both can share their options. The sink accepts `kafka.enable.idempotence` only as `true`.",
    ]
    return "\n".join(parts).rstrip() + "\n"


def _rows(options_class: type[Any]) -> list[tuple[str, ...]]:
    found = []
    for _, one in table_of(options_class).values():
        kinds = "both" if one.batch and one.stream else "batch" if one.batch else "stream"
        found.append((f"`{one.name}`", one.default, one.legal, kinds, one.doc))
    return sorted(found, key=lambda row: row[0].lower())


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines] + [""]
