"""A data pipeline on Spark without a jar, from topic to topic, with a check of its result.

Run it with `python -m examples.pipeline` (needs `pip install '.[spark-local]'` and Java 17 or newer).

It joins orders (JSON records of a topic) with a table of products, adds them up by category and minute, and
writes the totals to another topic, exactly once. At the end it reads them back and compares them with the
totals that plain Python computes.
"""
