"""Output of Spark about a query has no secret of its options: repr, plans, errors of reads and writes."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CANARY = "canary-in-the-coal-mine"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
NOWHERE = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "SCRAM-SHA-256",
    "kafka.sasl.jaas.config": f'{MODULE} required username="ann" password="{CANARY}";',
    "kafka.request.timeout.ms": "200",
    "kafka.default.api.timeout.ms": "300",
    "fetchoffset.numretries": "0",
}


def plans_of(frame: DataFrame) -> list[str]:
    execution = frame._jdf.queryExecution()
    analyzed = execution.analyzed()
    return [repr(frame), str(execution.logical()), str(analyzed), analyzed.toJSON(), str(execution)]


def texts_of(action: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (whatever Spark makes of it)
        action()
    return "".join(traceback.format_exception(caught.value))


@pytest.mark.long
def test_a_query_that_fails_shows_no_secret(spark: SparkSession) -> None:
    frame = spark.read.format("pykafka2").options(subscribe="orders", **NOWHERE).load()
    rows = spark.createDataFrame([(bytearray(b"v"),)], "value binary")
    write = rows.write.format("pykafka2").options(topic="orders", **NOWHERE).mode("append")
    shown = [*plans_of(frame), texts_of(frame.collect), texts_of(write.save)]
    assert any("127.0.0.1:1" in text for text in shown)
    assert [text for text in shown if CANARY in text] == []
