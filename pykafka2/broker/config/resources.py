"""Checks of the configuration of groups and client metrics subscriptions.

The rules and messages are those of Kafka's GroupConfig and ClientMetricsConfigs.

Pure functions: they take a map of strings and raise a `BrokerError` if it is invalid.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.config.keys import BROKER_KEYS, GROUP_KEYS, METRICS_KEYS, Key
from pykafka2.errors import InvalidConfig, InvalidRequest

SHORTEST_PUSH_MS: Final = 100
LONGEST_PUSH_MS: Final = 3_600_000

MATCHERS: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""Client attributes that the match expression of a client metrics subscription can use."""


def check_group(configs: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raise `InvalidConfig` unless these are valid options of a group."""
    for name, text in configs.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise InvalidConfig(f"Unknown group config name: {name}")
        value = _parsed(key, text)
        low, high = _bound(key, "min"), _bound(key, "max")
        if low is not None and value < broker.int(low):
            raise InvalidConfig(f"{name} must be greater than or equal to {low}")
        if high is not None and value > broker.int(high):
            raise InvalidConfig(f"{name} must be less than or equal to {high}")


def _bound(key: Key, which: str) -> str | None:
    """Return the broker option that bounds a group option, or None.

    For example group.consumer.min.session.timeout.ms.
    """
    kind, _, rest = key.name.partition(".")
    name = f"group.{kind}.{which}.{rest.removeprefix('num.')}"
    return name if name in BROKER_KEYS else None


def check_metrics(configs: Mapping[str, str]) -> None:
    """Raise unless a client metrics subscription can have these options."""
    for name, text in configs.items():
        key = METRICS_KEYS.get(name)
        if key is None:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
        value = _parsed(key, text)
        if name == "interval.ms" and not SHORTEST_PUSH_MS <= value <= LONGEST_PUSH_MS:
            raise InvalidRequest(
                f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
            )
        if name == "match":
            for pattern in value:
                _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    name, equals, expression = pattern.partition("=")
    try:
        if not equals or name.strip() not in MATCHERS:
            raise ValueError
        # Nothing matches the expression, so it is only parsed: compiling can loop over all of Unicode.
        # The parser is not public, but there is no other way.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the client's pattern can be suspicious to Python
            import_module("re._parser").parse(expression.strip())
    except (ValueError, OverflowError, RecursionError, re.error):
        raise InvalidConfig(f"Illegal client matching pattern: {pattern}") from None


def _parsed(key: Key, text: str) -> Any:
    try:
        return key.parse(text)
    except ValueError as error:
        raise InvalidConfig(key.invalid(text, error)) from None
