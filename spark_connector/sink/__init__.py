"""The sink: rows of batches and micro-batches into topics."""
