"""What a cluster shows a test: partitions, logs, groups, transactions, metrics, the timeline."""
