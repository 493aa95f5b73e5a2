"""Replicas: leaders, followers that fetch, in-sync sets, high watermarks, the links between brokers."""
