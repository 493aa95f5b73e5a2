"""The key of a partition inside a broker."""

Key = tuple[str, int]
"""Topic and partition."""
