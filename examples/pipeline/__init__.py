"""Shows: a data pipeline on Spark without a jar, from topic to topic, and that its result is right.

Run it with `python -m examples.pipeline` (needs `pip install '.[spark-local]'` and Java 17 or newer).

Orders in a topic, as JSON, are joined with a table of products and added up by category and minute; the
totals go to another topic, exactly once.  In the end they are read back and compared with plain Python's
over the same orders.
"""
