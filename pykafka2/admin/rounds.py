"""Sends the parts of an admin call to several brokers, and repeats the parts that failed.

A call about several items goes out in rounds. In each round the items that have no outcome yet are divided
among brokers, one request for each broker, all at the same time. Items with a retriable error are tried again
after a back-off, until the timeout; every item ends with a value or an error of its own.

A call that does not wait (`waits=False`) returns what is available now: a partition without a leader, and an
item whose broker cannot be reached, has this error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from pykafka2.admin.outcomes import Outcomes
from pykafka2.backoff import Backoff
from pykafka2.driver.pollable import Destination
from pykafka2.errors import (
    BrokerError,
    ClientClosed,
    ClientFailed,
    CorruptResponse,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailable,
    NoBrokersAvailable,
    NotController,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.struct import Request, Response

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.driver.completion import Completion

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", bound=Response)

GRACE = 1.0
"""Seconds beyond the timeout: requests time out by themselves, with a better message."""
PATIENCE = 2.0
"""Seconds for which a missing topic or partition is looked up again: it can have been created just now.

A call that does not wait retries brokers' other errors for this time: a leader or coordinator can move."""
UNRESPONSIVE_AFTER = 10.0
"""Seconds after which a call that does not wait gives up a broker that does not respond."""

Results = tuple[dict[K, V], dict[K, KafkaError]]
"""Values and errors by item."""


@attrs.define(frozen=True)
class Part(Generic[K, V]):
    """One request of a round, for some of the items.

    `read` returns the values and errors of its items from the response; if it raises a KafkaError, all of
    them have it.
    """

    items: list[K]
    request: Request[Response]
    to: Destination
    read: Callable[[Response], Results[K, V]]
    min_version: int | None = None
    max_version: int | None = None


Divide = Callable[[list[K], float], tuple[list["Part[K, V]"], dict[K, KafkaError]]]
"""Divides items into parts; takes the seconds left, returns parts and the errors of items without a place."""


def is_retriable(error: KafkaError) -> bool:
    return error.retriable


def was_refused(error: KafkaError) -> bool:
    """Return True for a retriable error by which the controller refused a request, and for a lost response.

    After another error the change can have been made, and the repetition would fail. `RequestTimedOut` counts
    as a lost response: the limits of broker and client are equal, so either can be first.
    """
    if isinstance(error, BrokerError):
        return isinstance(error, NotController | RequestTimedOut | ThrottlingQuotaExceeded)
    return error.retriable


class Rounds:
    """The rounds of one call. Blocks the caller's thread; other threads can make calls meanwhile."""

    def __init__(
        self,
        cluster: ClusterClient,
        operation: str,
        timeout: float | None,
        retries: Callable[[KafkaError], bool] = is_retriable,
        waits: bool = True,
    ) -> None:
        options = cluster.options
        self._cluster = cluster
        self._operation = operation
        self._clock = cluster.driver.clock
        self._timeout = cluster.seconds_of(timeout)
        self._began = self._clock.monotonic()
        self._backoff = Backoff(
            options.retry_backoff, options.retry_backoff_max, cluster.driver.entropy.random
        )
        self._retries = retries
        self._waits = waits

    @property
    def left(self) -> float:
        """Seconds until the call times out."""
        return max(0.0, self._began + self._timeout - self._clock.monotonic())

    def run(self, items: Iterable[K], divide: Divide[K, V]) -> Outcomes[K, V]:
        """Return the outcome of each item, in the order of the items."""
        order = list(dict.fromkeys(items))
        values: dict[K, V] = {}
        errors: dict[K, KafkaError] = {}
        pending = order
        while pending:
            try:
                parts, errors_of_round = divide(pending, self.left)
            except (KafkaTimeoutError, NoBrokersAvailable):
                if not errors:
                    raise
                # The timeout has ended a look-up of a later round; the outcomes of the earlier ones count.
                errors.update({item: self._timed_out(errors[item]) for item in pending})
                break
            for item in pending:
                errors.pop(item, None)
            found, failed = self._exchange(parts)
            failed.update(errors_of_round)
            values.update(found)
            missing = [item for item in pending if item not in found and item not in failed]
            errors.update(failed)
            errors.update(
                {item: CorruptResponse(f"the response has no result for {item}") for item in missing}
            )
            pending = [item for item in pending if item in failed and self._is_worth(failed[item])]
            pause = self._backoff.next()
            if pending and pause >= self.left:
                errors.update({item: self._timed_out(errors[item]) for item in pending})
                break
            if pending:
                self._refresh(errors[item] for item in pending)
                self._cluster.pause(pause)
        return Outcomes(
            {item: values[item] for item in order if item not in errors},
            {item: errors[item] for item in order if item in errors},
        )

    def _exchange(self, parts: list[Part[K, V]]) -> Results[K, V]:
        """Send all parts, then wait for the responses."""
        left = self.left if self._waits else min(self.left, UNRESPONSIVE_AFTER)
        started = {
            number: self._cluster.start_once(
                part.request, part.to, left, min_version=part.min_version, max_version=part.max_version
            )
            for number, part in enumerate(parts)
        }
        responses, failures = gathered(started, left)
        values: dict[K, V] = {}
        errors: dict[K, KafkaError] = {}
        for number, part in enumerate(parts):
            if number in failures:
                errors.update({item: failures[number].anew() for item in part.items})
                continue
            try:
                found, failed = part.read(responses[number])
            except KafkaError as error:
                found, failed = {}, {item: error.anew() for item in part.items}
            values.update({item: found[item] for item in part.items if item in found})
            errors.update({item: failed[item] for item in part.items if item in failed})
        return values, errors

    def _is_worth(self, error: KafkaError) -> bool:
        if not self._retries(error):
            return False
        if not self._waits and (isinstance(error, LeaderNotAvailable) or not isinstance(error, BrokerError)):
            return False
        if not self._waits or isinstance(error, UnknownTopicOrPartition | UnknownTopicId):
            return self._clock.monotonic() - self._began < min(PATIENCE, self._timeout / 2)
        return True

    def _refresh(self, errors: Iterable[KafkaError]) -> None:
        for error in errors:
            if error.refresh_metadata:
                self._cluster.metadata.request_update(error)
                return

    def _timed_out(self, last_error: KafkaError) -> KafkaError:
        if isinstance(last_error, UnknownTopicOrPartition | UnknownTopicId):
            return last_error
        error = KafkaTimeoutError(
            f"{self._operation} did not succeed within {self._timeout:g} s; the last attempt failed: "
            f"{last_error}"
        )
        error.__cause__ = last_error
        return error


def gathered(started: Mapping[K, Completion[R]], timeout: float) -> tuple[dict[K, R], dict[K, KafkaError]]:
    """Wait for all requests; return responses and errors by item. Cancel the rest if interrupted."""
    found: dict[K, R] = {}
    errors: dict[K, KafkaError] = {}
    try:
        for name, completion in started.items():
            try:
                found[name] = completion.result(timeout + GRACE)
            except (ClientClosed, ClientFailed):
                raise  # no item can succeed any more
            except KafkaError as error:
                errors[name] = error
    except BaseException:
        for completion in started.values():
            completion.cancel()
        raise
    return found, errors
