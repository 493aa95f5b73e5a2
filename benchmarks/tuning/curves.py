"""The curves: an option, its values, and the workload that shows its effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import attrs

Workload = Literal["produce", "consume", "replicate"]

KIB: Final = 1024
PARTITIONS: Final = 6
RECORD_BYTES: Final = 100
PACED_RATE: Final = 2_000
"""Records a second while latency is measured."""


@attrs.frozen
class Curve:
    """One option and its values. `is_broker` options are the broker's; the others the client's."""

    option: str
    workload: Workload
    values: tuple[Any, ...]
    default: Any
    """Marked in the image."""
    unit: str = ""
    is_broker: bool = False
    fixed: tuple[tuple[str, Any], ...] = ()
    """The client's other options."""
    fixed_of_broker: tuple[tuple[str, Any], ...] = ()

    @property
    def file_name(self) -> str:
        return self.option.replace(".", "-").replace("_", "-")

    def client_options(self, value: Any) -> dict[str, Any]:
        chosen = dict(self.fixed)
        if not self.is_broker:
            chosen[self.option] = None if value == "none" else value
        return chosen

    def broker_config(self, value: Any) -> dict[str, Any]:
        chosen = dict(self.fixed_of_broker)
        if self.is_broker:
            chosen[self.option] = value
        return chosen


def _powers(first: int, last: int, factor: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= factor


CURVES: Final = (
    Curve(
        "batch_size",
        "produce",
        tuple(_powers(KIB, 1024 * KIB, 4)),
        default=16 * KIB,
        unit="bytes; 1K = 1,024",
        fixed=(("linger_ms", 5),),
    ),
    Curve("linger_ms", "produce", (0, 1, 5, 20, 100), default=5, unit="ms"),
    Curve(
        "compression_type",
        "produce",
        ("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        fixed=(("linger_ms", 5), ("batch_size", 64 * KIB)),
    ),
    Curve(
        "fetch_min_bytes",
        "consume",
        (1, *_powers(4 * KIB, 1024 * KIB, 4)),
        default=1,
        unit="bytes; 1K = 1,024",
    ),
    Curve(
        "max_partition_fetch_bytes",
        "consume",
        tuple(_powers(16 * KIB, 16 * 1024 * KIB, 8)),
        default=1024 * KIB,
        unit="bytes; 1K = 1,024",
    ),
    Curve(
        "threads",
        "produce",
        ("shared", "separate"),
        default="shared",
        is_broker=True,
        fixed=(("linger_ms", 5),),
    ),
    Curve(
        "num.network.threads",
        "produce",
        (1, 2, 3, 4, 8),
        default=1,
        is_broker=True,
        fixed=(("linger_ms", 5),),
        fixed_of_broker=(("threads", "separate"),),
    ),
    Curve(
        "num.io.threads",
        "produce",
        (1, 2, 4, 8),
        default=1,
        is_broker=True,
        fixed=(("linger_ms", 5),),
        fixed_of_broker=(("threads", "separate"),),
    ),
    Curve(
        "num.replica.fetchers", "replicate", (1, 2, 4), default=1, is_broker=True, fixed=(("linger_ms", 5),)
    ),
)
