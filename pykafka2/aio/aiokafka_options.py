"""Options that aiokafka's clients have and the sync clients do not: renamed or ignored."""

from __future__ import annotations

from typing import Any

from pykafka2.errors import ConfigurationError
from pykafka2.options import IgnoredOption, warn_caller

RENAMED = {"max_batch_size": "batch_size"}

IGNORED = {
    "loop": "the client belongs to the event loop of its first awaited call",
    "rebalance_timeout_ms": "max_poll_interval_ms is the rebalance timeout",
}


def rename_options(options: dict[str, Any]) -> None:
    """Replace aiokafka's options; one that has no effect here warns, unless it is None.

    Raises:
        ConfigurationError: an option is given under both names.
    """
    for name, ours in RENAMED.items():
        if name in options:
            if ours in options:
                raise ConfigurationError(f"{name} and {ours} are the same option; set one of them")
            options[ours] = options.pop(name)
    for name, reason in IGNORED.items():
        if options.pop(name, None) is not None:
            warn_caller(f"{name} has no effect: {reason}", IgnoredOption)
