"""The APIs of a broker, as a processor sees them."""

from __future__ import annotations

from typing import Protocol


class ApiTable(Protocol):
    """The APIs and versions that clients can request."""

    def is_served(self, api_key: int, version: int) -> bool:
        """Return whether clients can send this request."""
        ...

    def why_not_served(self, api_key: int, version: int) -> str:
        """Return the reason for the log if a request is not served."""
        ...
