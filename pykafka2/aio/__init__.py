"""The place of the asyncio clients, which a later version adds.

Until then the import of one raises an error that names its replacement. The blocking clients work in a
coroutine: `await producer.send(...)` waits for the delivery on the loop (the call itself can block for
`max_block_ms` while metadata or memory is missing), and `asyncio.to_thread` runs any other call.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers assume True, so they reject the missing names

_MEANWHILE = {
    "KafkaProducer": "pykafka2.KafkaProducer, whose deliveries can be awaited: `await producer.send(...)`",
    "KafkaConsumer": "pykafka2.KafkaConsumer: `await asyncio.to_thread(consumer.poll, 1000)`",
    "KafkaAdminClient": "pykafka2.KafkaAdminClient: `await asyncio.to_thread(admin.list_topics)`",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Raise an error that names the client to use until this one exists."""
        if name in _MEANWHILE:
            raise ImportError(
                f"pykafka2.aio has no {name} yet: the asyncio clients come with a later version; "
                f"until then use {_MEANWHILE[name]}",
                name=__name__,
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
