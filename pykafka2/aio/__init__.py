"""The asyncio clients come here with a later version: `KafkaProducer`, `KafkaConsumer`, `KafkaAdminClient`.

Until then none of them is there, and importing one says what serves meanwhile.  In a coroutine the blocking
clients do: `await producer.send(...)` waits for the delivery on the loop (the call itself may block for
`max_block_ms` while metadata or memory is missing), and any other call may run in `asyncio.to_thread`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take the name for true, and so refuse the names that are not there

_MEANWHILE = {
    "KafkaProducer": "pykafka2.KafkaProducer, whose deliveries can be awaited: `await producer.send(...)`",
    "KafkaConsumer": "pykafka2.KafkaConsumer: `await asyncio.to_thread(consumer.poll, 1000)`",
    "KafkaAdminClient": "pykafka2.KafkaAdminClient: `await asyncio.to_thread(admin.list_topics)`",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Raise what says that a client is not there yet, and what to use meanwhile."""
        if name in _MEANWHILE:
            raise ImportError(
                f"pykafka2.aio has no {name} yet: the asyncio clients come with a later version; "
                f"until then use {_MEANWHILE[name]}",
                name=__name__,
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
