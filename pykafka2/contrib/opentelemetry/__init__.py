"""Traces and metrics for OpenTelemetry, by the messaging conventions 1.44.

`PyKafka2Instrumentor().instrument()` traces every client that is created afterwards, as does the command
`opentelemetry-instrument`. For single clients, give a `ProducerTracing` or `ConsumerTracing` to the option
`interceptors`. All of it runs in the clients' public hooks, so other clients run no code of this package.
"""

from __future__ import annotations

from pykafka2.contrib.opentelemetry.consumer import ConsumerTracing
from pykafka2.contrib.opentelemetry.instrumentor import PyKafka2Instrumentor
from pykafka2.contrib.opentelemetry.producer import ProducerTracing
from pykafka2.contrib.opentelemetry.telemetry import Telemetry

__all__ = ["ConsumerTracing", "ProducerTracing", "PyKafka2Instrumentor", "Telemetry"]
