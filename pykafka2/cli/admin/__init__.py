"""The verbs about a cluster: topics, groups, configs, acls, users, transactions, cluster, check."""
