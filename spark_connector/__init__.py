"""A PySpark data source for Kafka, without a jar: `spark.read.format("pykafka2")` and its three relatives.

Importing this package needs neither pyspark nor pyarrow; names are loaded on first use.  If the package is
installed, Spark registers the source itself (through pyspark_pykafka2.py).  Call `register(spark)` if it is
only on the path of the driver.  The connector uses only public names of pykafka2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_connector.data_source import KafkaDataSource, register
    from spark_connector.errors import (
        CheckpointBehind,
        DataLoss,
        ExactlyOnceError,
        LedgerBehind,
        NotCommitted,
        PartlyCommitted,
        SparkConnectorError,
        SupersededRun,
        WrongRow,
        WrongSchema,
    )
    from spark_connector.progress import (
        OffsetsBehindLatest,
        OffsetsBehindLatestListener,
        QueryLag,
        query_lag,
    )
    from spark_connector.sink.foreach_batch import exactly_once_batches

__all__ = [
    "CheckpointBehind",
    "DataLoss",
    "ExactlyOnceError",
    "KafkaDataSource",
    "LedgerBehind",
    "NotCommitted",
    "OffsetsBehindLatest",
    "OffsetsBehindLatestListener",
    "PartlyCommitted",
    "QueryLag",
    "SparkConnectorError",
    "SupersededRun",
    "WrongRow",
    "WrongSchema",
    "exactly_once_batches",
    "query_lag",
    "register",
]

_HOMES = {
    "CheckpointBehind": "spark_connector.errors",
    "DataLoss": "spark_connector.errors",
    "ExactlyOnceError": "spark_connector.errors",
    "KafkaDataSource": "spark_connector.data_source",
    "LedgerBehind": "spark_connector.errors",
    "NotCommitted": "spark_connector.errors",
    "OffsetsBehindLatest": "spark_connector.progress",
    "OffsetsBehindLatestListener": "spark_connector.progress",
    "PartlyCommitted": "spark_connector.errors",
    "QueryLag": "spark_connector.progress",
    "SparkConnectorError": "spark_connector.errors",
    "SupersededRun": "spark_connector.errors",
    "WrongRow": "spark_connector.errors",
    "WrongSchema": "spark_connector.errors",
    "exactly_once_batches": "spark_connector.sink.foreach_batch",
    "query_lag": "spark_connector.progress",
    "register": "spark_connector.data_source",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'spark_connector' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
