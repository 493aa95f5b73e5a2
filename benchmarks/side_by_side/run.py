"""The settings of a run: plain data, as JSON between a benchmark and the processes that it runs."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

Cell = TypeVar("Cell")


@attrs.frozen
class Run(Generic[Cell]):
    """One client in one cell, once.

    records: how many, or rows; of a client that repeats one thing, how often.  options: how to
    connect besides the addresses, as pykafka2's clients take it.
    """

    client: str
    cell: Cell
    records: int
    bootstrap_servers: str = ""
    topic: str = ""
    options: dict[str, Any] = attrs.Factory(dict)

    def for_pykafka2(self) -> dict[str, Any]:
        """Address and connection options of pykafka2's clients."""
        return {"bootstrap_servers": self.bootstrap_servers, **self.options}

    def for_confluent(self) -> dict[str, Any]:
        """Address and connection options of confluent-kafka's clients."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            **{_CONFLUENT[name]: value for name, value in self.options.items()},
        }


AnyRun = Run[Any]

_CONFLUENT = {
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "sasl_mechanism": "sasl.mechanisms",
    "sasl_username": "sasl.username",
    "sasl_password": "sasl.password",
}
"""librdkafka's names of pykafka2's options."""
