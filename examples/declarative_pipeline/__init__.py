"""A Spark Declarative Pipeline from topic to topic, exactly once even if a micro-batch is replayed.

Run it with `python -m examples.declarative_pipeline` (needs `pip install '.[spark-local]'`,
`pip install 'pyspark[pipelines]>=4.2'`, and Java 17 or newer).
"""
