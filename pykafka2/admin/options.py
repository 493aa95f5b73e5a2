"""The options of `KafkaAdminClient`: the common ones and the timeout of calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from pykafka2.hooks import CLIENT_HOOKS
from pykafka2.option_fields import duration, flag, interceptor_list
from pykafka2.options import ClientConfig, ClientOptions, OptionTable, Refused


@attrs.define(kw_only=True)
class AdminOptions(ClientOptions):
    """The options as parsed; durations are seconds, as in `ClientOptions`."""

    connections_max_idle: float = duration(
        "connections_max_idle_ms", 300_000, "Idle connections are closed after this time.", minimum_ms=1
    )
    default_api_timeout: float = duration(
        "default_api_timeout_ms", 60_000, "The timeout of calls that are made without one."
    )
    # As in Java: waiting for a misspelt topic must not create it.
    allow_auto_create_topics: bool = flag(
        "allow_auto_create_topics", False, "Whether waiting for an unknown topic can create it on the broker."
    )
    enable_metrics_push: bool = flag(
        "enable_metrics_push",
        False,
        "Whether to push the client's metrics to brokers that ask for them (KIP-714).",
    )
    interceptors: tuple[Any, ...] = interceptor_list(
        "Objects with hooks, such as on_request and on_response: see `ClientInterceptor`.", *CLIENT_HOOKS
    )


ADMIN_OPTIONS = OptionTable(
    AdminOptions,
    refused={
        "bootstrap_controllers": Refused("brokers forward what belongs to the controller; name brokers"),
        "retries": Refused("calls are repeated until default_api_timeout_ms", harmless=(2147483647,)),
    },
)


class AdminConfig(ClientConfig, total=False):
    """The keyword options of `KafkaAdminClient`, for type checkers; a test compares it with the table."""

    default_api_timeout_ms: float
    interceptors: Sequence[Any]
    interceptor_classes: Sequence[Any]
