"""Views of a cluster: partitions, logs, groups, transactions, metrics, the timeline."""
