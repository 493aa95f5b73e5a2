"""The source: batch and micro-batch reading of topics, in Arrow's columns."""
