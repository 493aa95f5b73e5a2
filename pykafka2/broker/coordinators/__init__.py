"""Groups, offsets and transactions: shards that are replayed from the internal topics' logs."""
