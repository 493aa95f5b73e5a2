"""The admin client: topics, configurations, groups, access rules, users, quotas, transactions."""
