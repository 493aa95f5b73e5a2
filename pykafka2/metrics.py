"""Counters and gauges under Kafka's metric names, as plain numbers.

Counted per batch and per request, never per record.  A `Metrics` is written by one thread (the client's IO
thread) and read by any; readings are whole but not taken at one instant.
"""

from __future__ import annotations

from collections.abc import Callable


class Metrics:
    """Named numbers of one client."""

    __slots__ = ("_gauges", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[str, float] = {}
        self._gauges: dict[str, Callable[[], float]] = {}

    def add(self, name: str, amount: float = 1) -> None:
        self._numbers[name] = self._numbers.get(name, 0) + amount

    def observe(self, name: str, value: float) -> None:
        """One measurement: keeps `name-count`, `name-total` and `name-max`."""
        numbers = self._numbers
        numbers[f"{name}-count"] = numbers.get(f"{name}-count", 0) + 1
        numbers[f"{name}-total"] = numbers.get(f"{name}-total", 0) + value
        numbers[f"{name}-max"] = max(numbers.get(f"{name}-max", value), value)

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """A number that is looked up when somebody asks; `read` must be cheap and safe from any thread."""
        self._gauges[name] = read

    def snapshot(self) -> dict[str, float]:
        """All numbers by name.  `x-avg` is added for every observed x."""
        numbers = self._numbers.copy()
        for name in [name for name in numbers if name.endswith("-count") and f"{name[:-6]}-total" in numbers]:
            stem = name.removesuffix("-count")
            numbers[f"{stem}-avg"] = numbers[f"{stem}-total"] / numbers[name]
        for name, read in self._gauges.copy().items():
            numbers[name] = read()
        return dict(sorted(numbers.items()))
