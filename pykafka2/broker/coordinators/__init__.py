"""Group and transaction coordinators: shards replayed from the logs of the internal topics."""
