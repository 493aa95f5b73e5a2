"""The clients for asyncio: producer, consumer, share consumer and admin client, with awaited calls.

Names, options, defaults, results and errors are those of the sync clients, on whose core they run: the IO
thread sends heartbeats, fetches and retries, so these never depend on the event loop. `scan` and `write` are
`pykafka2.scan` and `pykafka2.write`, awaited.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take the name for true

if TYPE_CHECKING:
    from typing import Any

    from pykafka2.aio.admin import KafkaAdminClient
    from pykafka2.aio.consumer import KafkaConsumer
    from pykafka2.aio.producer import KafkaProducer
    from pykafka2.aio.share import KafkaShareConsumer
    from pykafka2.aio.tables import AsyncScan, scan, write

_HOMES = {
    "AsyncScan": "pykafka2.aio.tables",
    "KafkaAdminClient": "pykafka2.aio.admin",
    "KafkaConsumer": "pykafka2.aio.consumer",
    "KafkaProducer": "pykafka2.aio.producer",
    "KafkaShareConsumer": "pykafka2.aio.share",
    "scan": "pykafka2.aio.tables",
    "write": "pykafka2.aio.tables",
}

__all__ = [
    "AsyncScan",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "KafkaShareConsumer",
    "scan",
    "write",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name at its first use (PEP 562)."""
        home = _HOMES.get(name)
        if home is None:
            from pykafka2.other_clients import no_such_name

            raise no_such_name(__name__, name)
        from importlib import import_module

        return getattr(import_module(home), name)
