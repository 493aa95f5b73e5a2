"""The verbs produce and consume, and the formats of their records."""
