"""The Spark job, as it would run on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery

from examples.pipeline.orders import PRODUCTS

ORDER = "id long, customer string, product string, cents long, at_ms long"


def start(
    spark: SparkSession, servers: str, checkpoint: str, *, per_batch: int, sink: Mapping[str, str]
) -> StreamingQuery:
    """Start a query from topic orders to topic totals, which ends when it has read all current orders."""
    products = spark.createDataFrame(list(PRODUCTS.items()), "product string, category string")
    orders = (
        spark.readStream.format("pykafka2")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("columns", "value")
        .option("maxOffsetsPerTrigger", per_batch)
        .load()
        .select(f.from_json(f.col("value").cast("string"), ORDER).alias("order"))
        .select("order.*")
        .withColumn("at", f.timestamp_millis("at_ms"))
    )
    totals = (
        orders.withWatermark("at", "2 minutes")
        .join(f.broadcast(products), "product", "left")
        .groupBy(f.window("at", "1 minute").alias("window"), "category")
        .agg(f.count("*").alias("orders"), f.sum("cents").alias("cents"))
        .where("category is not null")
        .select(
            f.col("category").alias("key"),
            f.to_json(
                f.struct(f.unix_millis("window.start").alias("start_ms"), "category", "orders", "cents")
            ).alias("value"),
        )
    )
    return (
        totals.writeStream.format("pykafka2")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "totals")
        .option("checkpointLocation", checkpoint)
        .options(**sink)
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )


def watch(query: StreamingQuery, say: Callable[[str], None]) -> None:
    """Report each micro-batch until the query ends; raise the query's error."""
    said = -1
    over = False
    while not over:
        over = query.awaitTermination(1)
        for progress in query.recentProgress:
            if progress.batchId > said:
                said = progress.batchId
                say(_line(progress))


def _line(progress: Any) -> str:
    seconds = progress.batchDuration / 1000
    watermark = dict(progress.eventTime or {}).get("watermark", "-")
    rows = progress.numInputRows
    return f"batch {progress.batchId}: {rows:>6} orders in {seconds:.1f} s, watermark {watermark}"
