"""The page of the site that lists the options of Spark's source and sink, made from their tables.

`python -m tests.docs.option_pages` writes it; test_option_pages.py compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connector.options.fields import SparkOption
from spark_connector.options.kafka_options import NOT_FOR_SINKS, NOT_FOR_SOURCES, OF_GROUPS
from spark_connector.options.reading import table_of
from spark_connector.options.sink_options import SinkOptions
from spark_connector.options.source_options import SourceOptions
from tests.docs.definitions import check_entries, definition, linked, overview, section, table, values
from tests.docs.option_subjects import HIGH, LOW, MEDIUM, Advice, Subject, in_order

HEAD = """\
# Options of Spark's source and sink

For `.option(...)` with `.format("pykafka2")`; upper and lower case mean the same. [Kafka in
PySpark](../guides/spark.md) explains. `kafka.bootstrap.servers` is always needed, and one of
[`subscribe`](#subscribe), [`subscribePattern`](#subscribepattern) and [`assign`](#assign) for the source.

An invalid value raises [`ConfigurationError`](errors.md#configurationerror) before any task starts, an
unknown name [`UnknownOption`](errors.md#unknownoption), with the nearest known one. Within a subject,
options of high importance come first.
"""

KAFKA = """\
`kafka.` and the name of an option of pykafka2's [consumer](consumer-options.md) or
[producer](producer-options.md); dots and underscores mean the same, so `sasl_oauth_token_provider` is
`kafka.sasl.oauth.token.provider`. Or one of these of Java's clients:

| Java | Here |
| --- | --- |
| `kafka.ssl.truststore.location` with `kafka.ssl.truststore.type=PEM` | `kafka.ssl.cafile` |
| `kafka.ssl.keystore.location` with `kafka.ssl.keystore.type=PEM` | `kafka.ssl.certfile`, `.keyfile` |
| `kafka.ssl.endpoint.identification.algorithm` (empty or `https`) | `kafka.ssl.check.hostname` |

Refused:
"""

SHARED = """
Source and sink ignore options that only the client of the other one has, with a DEBUG line, so both can
share their options. The sink accepts `kafka.enable.idempotence` only as `true`.
"""

SOURCE: Mapping[str, Subject] = {
    "The source: topics": {
        "subscribe": Advice(HIGH, "The usual choice."),
        "subscribePattern": Advice(HIGH, "Use it if topics are created while a query runs."),
        "assign": Advice(MEDIUM, "Use it to read some partitions only."),
    },
    "The source: where a query begins and ends": {
        "startingOffsets": Advice(HIGH, "Set `earliest` for a stream that must not miss records."),
        "endingOffsets": Advice(MEDIUM, ""),
        "startingTimestamp": Advice(MEDIUM, "Use it to read the records of a day again."),
        "endingTimestamp": Advice(MEDIUM, ""),
        "failOnDataLoss": Advice(
            HIGH,
            "Set `false` if missing records are acceptable. [Losses](../guides/spark.md#losses) explains.",
        ),
        "isolation": Advice(MEDIUM, "Set `read_committed` for topics that are written in transactions."),
        "startingOffsetsByTimestamp": Advice(LOW, ""),
        "endingOffsetsByTimestamp": Advice(LOW, ""),
        "startingOffsetsByTimestampStrategy": Advice(
            LOW, "Set `latest` if a quiet partition must not fail the query."
        ),
    },
    "The source: rows": {
        "columns": Advice(MEDIUM, "The fewer columns, the faster."),
        "includeHeaders": Advice(MEDIUM, "Set `true` if the query uses headers."),
        "pushDownFilters": Advice(MEDIUM, "Set `true` for batches that filter by time or partition."),
    },
    "The source: tasks and micro-batches": {
        "maxOffsetsPerTrigger": Advice(
            HIGH, "Set it so that the first micro-batch does not read the whole topic."
        ),
        "minPartitions": Advice(MEDIUM, "Set it to the number of cores if the topic has fewer partitions."),
        "maxBytesPerTrigger": Advice(
            MEDIUM, "Use it instead of a number of offsets if records differ in size."
        ),
        "maxRecordsPerPartition": Advice(MEDIUM, "Set it if one partition has far more records than others."),
        "minOffsetsPerTrigger": Advice(LOW, "Set it to avoid many small micro-batches."),
        "maxTriggerDelay": Advice(LOW, "Lower it to the delay that is acceptable."),
        "commitToGroup": Advice(
            MEDIUM,
            "Set it to see the lag of the query in the usual tools. "
            "[Spark](../guides/spark.md#how-far-a-query-is-behind) explains.",
        ),
    },
    "The source: timeouts": {
        "kafkaConsumer.pollTimeoutMs": Advice(
            LOW, "Lower it to fail sooner while brokers cannot be reached."
        ),
        "fetchOffset.numRetries": Advice(LOW, "Raise it to survive longer outages on the driver."),
        "fetchOffset.retryIntervalMs": Advice(LOW, "Raise it to survive longer outages on the driver."),
        "groupIdPrefix": Advice(LOW, "No need to set it."),
    },
}

EXACTLY_ONCE = "[Exactly once](../guides/spark-exactly-once.md) explains."

SINK: Mapping[str, Subject] = {
    "The sink: delivery": {
        "topic": Advice(HIGH, "Without it, the rows need a column `topic`."),
        "delivery": Advice(
            HIGH, f"Set `exactly_once` if a replayed batch must not duplicate rows. {EXACTLY_ONCE}"
        ),
        "transactionalIdPrefix": Advice(
            MEDIUM, "Set it to a prefix for which the principal has WRITE access."
        ),
        "replayCheck": Advice(
            MEDIUM, f"Set `counts` for queries that call `rand()` or `uuid()`. {EXACTLY_ONCE}"
        ),
        "transactionalIdPerAttempt": Advice(LOW, "Set `true` with `spark.speculation`."),
    },
    "The sink: ledger of exactly once": {
        "ledgerTopic": Advice(MEDIUM, "Set it if the cluster prescribes names of topics."),
        "failOnLedgerLoss": Advice(MEDIUM, "Set `false` once, to continue after the ledger was deleted."),
        "ledgerReplicationFactor": Advice(
            LOW, "Set it to the replication factor that the cluster prescribes."
        ),
        "ledgerMinInsyncReplicas": Advice(LOW, "Keep it at one less than the replicas."),
        "ledgerSegmentBytes": Advice(LOW, "Lower it to compact the ledger more often."),
        "ledgerSegmentMs": Advice(LOW, "Lower it to compact the ledger more often."),
    },
    "The sink: set by exactly_once_batches": {
        "epoch.sink": Advice(LOW, ""),
        "epoch.batch": Advice(LOW, ""),
        "epoch.run": Advice(LOW, ""),
    },
}


def spark_page() -> str:
    """Return the text of the page. Raises SystemExit for options without an entry."""
    subjects = {**SOURCE, **SINK}
    names = {title: in_order(subject) for title, subject in subjects.items()}
    parts = [HEAD, overview(names) + "\n"]
    for options_class, own in ((SourceOptions, SOURCE), (SinkOptions, SINK)):
        parts += _sections(options_class, own)
    refused = [
        *((f"`kafka.{name}` (source)", why) for name, why in sorted(NOT_FOR_SOURCES.items())),
        *((f"`kafka.{name}` (sink)", why) for name, why in sorted(NOT_FOR_SINKS.items())),
    ]
    no_group = ", ".join(f"`kafka.{name}`" for name in OF_GROUPS)
    without_meaning = f"Accepted by the source and without meaning, since it joins no group: {no_group}."
    tail = (KAFKA, table(("Option", "Why"), refused), without_meaning, SHARED)
    return "\n".join([*parts, section("Options of the clients", *tail)])


def _sections(options_class: type[Any], subjects: Mapping[str, Subject]) -> list[str]:
    options = {option.name: option for _, option in table_of(options_class).values()}
    check_entries(
        "spark_option_page.py", options, [name for subject in subjects.values() for name in subject]
    )
    return [
        section(title, *(_definition(options[name], subject[name], options) for name in in_order(subject)))
        for title, subject in subjects.items()
    ]


def _definition(option: SparkOption, advice: Advice, known: Mapping[str, SparkOption]) -> str:
    kinds = ""
    if not (option.batch and option.stream):
        kinds = "batches only" if option.batch else "streams only"
    default = option.default.removesuffix(".0")
    facts = (
        ("Value", values(option.legal)),
        ("Default", default if " " in default or default in ("none", "all") else f"`{default}`"),
        ("For", kinds),
        ("Importance", advice.importance),
    )
    return definition(option.name, facts, linked(f"{option.doc} {advice.text}".strip(), known, option.name))
