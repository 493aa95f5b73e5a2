"""How a partition is named inside a broker."""

Key = tuple[str, int]
"""Topic and partition."""
