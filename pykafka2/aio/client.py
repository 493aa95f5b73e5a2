"""The methods that the three asyncio clients share."""

from __future__ import annotations

from typing import Any, NoReturn

from pykafka2 import lifecycle
from pykafka2.aio.bridge import Bridge
from pykafka2.errors import IllegalState


class AsyncClient:
    """A client that runs a sync client, `_sync`, on an event loop."""

    _bridge: Bridge
    _sync: Any

    def __enter__(self) -> NoReturn:
        raise IllegalState(f"write `async with`; this is the {type(self).__name__} of pykafka2.aio")

    def __exit__(self, *args: object) -> None: ...

    def __reduce__(self) -> NoReturn:
        lifecycle.refuse_pickling(self)

    def __repr__(self) -> str:
        sync = self.__dict__.get("_sync")
        if sync is None:
            return lifecycle.repr_of(f"aio.{type(self).__name__}", None)
        return repr(sync).replace("<", "<aio.", 1)
