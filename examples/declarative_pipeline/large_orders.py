"""The definitions that `spark-pipelines run` imports: a flow of large orders into a sink."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
servers = spark.conf.get("spark.orders.kafka.servers")
kafka = {"kafka.bootstrap.servers": servers}

dp.create_sink(
    name="large_orders",
    format="pykafka2",
    options={**kafka, "topic": "large-orders", "delivery": "exactly_once"},
)


@dp.append_flow(target="large_orders")
def orders_of_500_and_more() -> DataFrame:
    orders = (
        spark.readStream.format("pykafka2")
        .options(**kafka, subscribe="orders", columns="value")
        .option("startingOffsets", "earliest")
        .load()
    )
    text = f.col("value").cast("string")
    order = f.from_json(text, "id long, cents long").alias("order")
    large = orders.select(order).where("order.cents >= 50000")
    return large.select(f.to_json("order").alias("value"))
