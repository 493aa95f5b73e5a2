"""The clients on the event loop.  For now their signatures; the facade fills them in later.

They are protocols, so that applications can already be typed against them.
"""

from pykafka2.aio.admin import KafkaAdminClient
from pykafka2.aio.consumer import KafkaConsumer
from pykafka2.aio.producer import KafkaProducer

__all__ = ["KafkaAdminClient", "KafkaConsumer", "KafkaProducer"]
