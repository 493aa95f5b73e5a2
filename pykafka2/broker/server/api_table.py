"""What a processor asks about the APIs of its broker, whoever serves them."""

from __future__ import annotations

from typing import Protocol


class ApiTable(Protocol):
    """The APIs that clients may ask, and at which versions."""

    def is_served(self, api_key: int, version: int) -> bool:
        """Whether clients may ask this."""
        ...

    def why_not_served(self, api_key: int, version: int) -> str:
        """What to tell the people whose client asked it."""
        ...
