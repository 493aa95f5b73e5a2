"""The source: reads topics in batches and micro-batches, as Arrow columns."""
