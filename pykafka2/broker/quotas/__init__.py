"""Client quotas: entities and values, and the throttle times that follow from them (KIP-13, KIP-546)."""
