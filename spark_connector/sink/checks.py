"""What is looked at on the driver before any task starts: schema, options, and whether the topic is there.

Spark makes a writer for each micro-batch, so what was found good is not asked again in the same process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2 import KafkaAdminClient
from pykafka2.errors import ConfigurationError, UnknownOption, UnknownTopicOrPartition
from spark_connector.sink.clients import new_producer, shared_options
from spark_connector.sink.schema import check_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_connector.options.sink_options import SinkOptions

PATIENCE = 10.0
"""Seconds for a topic to be found, or to be made where the brokers make topics by themselves.  A shorter
kafka.default.api.timeout.ms wins."""

_found_good: set[tuple[object, ...]] = set()
"""Options of clients and topics, of this process."""


def check_before_tasks(options: SinkOptions, schema: StructType) -> None:
    """See that rows of this schema can be written.

    Raises:
        WrongSchema: the sink cannot write such rows.
        UnknownOption, ConfigurationError: the clients do not know or refuse an option.
        UnknownTopicOrPartition: the topic that `topic` names does not exist.
        NoBrokersAvailable, KafkaError: nobody was reached, or they refuse.
    """
    check_schema(schema, options.topic)
    known = (options.topic, tuple(sorted(options.kafka.items())))
    if known in _found_good:
        return
    new_producer(options.kafka, "checked" if options.is_transactional else None).close()
    if options.topic is not None:
        _check_topic(options, options.topic)
    _found_good.add(known)


def _check_topic(options: SinkOptions, topic: str) -> None:
    shared = shared_options(options.kafka)
    try:
        admin = KafkaAdminClient({"allow.auto.create.topics": "true", **shared})
    except UnknownOption as error:
        raise UnknownOption(f"among the options kafka.*: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"among the options kafka.*: {error}") from None
    given_ms = shared.get("default.api.timeout.ms")
    timeout = PATIENCE if given_ms is None else min(PATIENCE, float(given_ms) / 1000)
    with admin:
        try:
            admin.wait_for_topics([topic], timeout=timeout)
        except UnknownTopicOrPartition as error:
            raise UnknownTopicOrPartition(f"topic={topic}: there is no such topic ({error})") from None
