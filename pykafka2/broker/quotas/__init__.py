"""Client quotas: entities and their values, measured rates, and throttle times (KIP-13, KIP-546)."""
