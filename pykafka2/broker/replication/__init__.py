"""Replication: leaders, followers that fetch, ISRs, high watermarks, and the purgatory."""
