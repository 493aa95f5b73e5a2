"""Where Spark finds the data source `pykafka2`: it imports every module named `pyspark_*`.

An error here would hide everybody's data sources, so none gets out: where pyspark is too old or incomplete
there is no source, and the reason is logged.
"""

from __future__ import annotations

import logging

try:
    from spark_connector.data_source import KafkaDataSource as DefaultSource
except Exception:
    logging.getLogger(__name__).warning("the data source pykafka2 cannot be used", exc_info=True)

__all__ = ["DefaultSource"]
