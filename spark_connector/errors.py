"""Errors that only the connector raises.  Wrong options are `pykafka2.errors.ConfigurationError`."""

from __future__ import annotations

from pykafka2.errors import KafkaError


class SparkConnectorError(KafkaError):
    """The root of what only the connector raises."""


class DataLoss(SparkConnectorError):
    """Records that a query was to read are gone: aged out, or their topic was deleted or made anew.

    `failOnDataLoss=false` makes a warning of it.
    """


class WrongSchema(SparkConnectorError, ValueError):
    """A schema that the source cannot give or the sink cannot write."""


class WrongOffsets(SparkConnectorError, ValueError):
    """Offsets of a checkpoint that are not in the shape {"topic": {"partition": offset}}."""
