"""A kombu transport on share groups (KIP-932): Celery runs on Kafka with one acknowledgement per task.

    import pykafka2.contrib.kombu
    app = Celery(broker="pykafka2://localhost:9092//")

Importing this package registers the scheme `pykafka2`. Without the import, set Celery's `broker_transport`,
or the argument `transport` of `kombu.Connection`, to "pykafka2.contrib.kombu:Transport".
"""

from __future__ import annotations

import kombu.transport

from pykafka2.contrib.kombu.channel import Channel, Transport
from pykafka2.contrib.kombu.cluster import queue_name

__all__ = ["Channel", "Transport", "queue_name"]

kombu.transport.TRANSPORT_ALIASES.setdefault("pykafka2", "pykafka2.contrib.kombu:Transport")
