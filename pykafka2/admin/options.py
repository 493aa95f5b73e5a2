"""The options of `KafkaAdminClient`: the common ones and the timeout of calls."""

from __future__ import annotations

import attrs

from pykafka2.option_fields import duration, flag
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
