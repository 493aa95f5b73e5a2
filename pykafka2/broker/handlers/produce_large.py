"""The part of Produce that only large and compressed batches need: their records are checked in slices.

A batch of a million records takes a second to check, and all requests of a broker share one thread, so the
request is queued again after each slice: a step of decompression, or some records. Its connection's next
request waits, and nothing is appended before every batch of the request is checked. Loaded with the first
such batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka2.broker.log.record_validation import RecordWalk
from pykafka2.protocol.messages.produce import ProduceResponse
from pykafka2.records.batch import Buffer

if TYPE_CHECKING:
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

Walks = dict["Key", RecordWalk]


def check_in_slices(
    services: Services,
    context: RequestContext,
    batches: list[tuple[Key, Buffer]],
    append: Callable[[Walks, float], ProduceResponse | None],
    now: float,
) -> ProduceResponse | None:
    """Call `append` with the walks over these batches' records once all are over.

    Return what `append` returns, or None if it is called later.
    """
    now_ms = services.clock.wall_ms()
    walks: Walks = {}
    for key, records in batches:
        walk = services.replicas.start_walk(key, records, context.version, now_ms)
        if walk is not None:
            walks[key] = walk
    unfinished = list(walks.values())

    def advance(at: float) -> ProduceResponse | None:
        if unfinished and services.open_walks.advance(unfinished[-1]):
            unfinished.pop()
        if not unfinished:
            return append(walks, at)
        services.resume_later(context, advance)
        return None

    return advance(now)
