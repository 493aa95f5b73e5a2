"""The sink: writes the rows of batches and micro-batches to topics."""
