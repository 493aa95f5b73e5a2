"""Interceptors: user code around every record, for example for tracing.

`on_send` runs on the caller's thread in the order of the option, before serializers; `on_acknowledgement` on
the IO thread, before the record's own callback. Exceptions of an interceptor are logged and never break the
send.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable
from typing import Any, Final

import attrs

from pykafka2 import lifecycle
from pykafka2.errors import KafkaError
from pykafka2.producer.delivery.delivery import OnDelivery
from pykafka2.text import brief, type_of
from pykafka2.types import GivenHeaders, Headers, RecordMetadata

logger = logging.getLogger(__name__)

Encoded = bytes
"""Headers as a record has them."""

POSITIONAL: Final = ""
"""Stands for a parameter that callers cannot name."""


@attrs.define
class ProducerRecord:
    """The arguments of a `send`.  An interceptor can change them or return another record."""

    topic: str
    value: Any = None
    key: Any = None
    headers: GivenHeaders | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor:
    """Base class for producer interceptors; deriving from it is optional."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """Called before a record is serialized, on the thread that sends it.

        Return the record to send: this one, changed or not, or another; None means this one.
        """
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """Called when a record was written or has failed; one of the arguments is None.

        It runs on the IO thread and must not block.  For a record that `send` or `send_many` did not append,
        it runs on the thread that sent it.

        A method with one more parameter, `headers`, also gets the record's headers, as in Java (KIP-512): a
        list of pairs, with those that interceptors and serializers have added.
        """

    def close(self) -> None:
        """Called when the producer is closed."""


class Interceptors:
    """A chain of the user's objects; each may have `on_send`, `on_acknowledgement` and `close`."""

    def __init__(self, chain: tuple[Any, ...]) -> None:
        self._chain = chain
        self._header_arguments = [_header_argument(one) for one in chain]
        if any(self._header_arguments):
            with lifecycle.loading:  # not on the IO thread
                from pykafka2.records.decoder import read_headers
            self._read_headers = read_headers

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for interceptor in self._chain:
            if hasattr(interceptor, "on_send"):
                try:
                    returned = interceptor.on_send(record)
                except Exception:
                    logger.exception("on_send of %r failed; the record is sent unchanged", interceptor)
                    continue
                if isinstance(returned, ProducerRecord):
                    record = returned
                elif returned is not None:  # None is allowed after a change in place
                    logger.error(
                        "on_send of %r returned %s instead of a ProducerRecord; the record is sent unchanged",
                        interceptor,
                        type_of(returned),
                    )
        return record

    def on_refused(self, error: Exception, headers: Iterable[Encoded | GivenHeaders | None]) -> None:
        """Call `on_acknowledgement` with the error of records that were not appended, by their headers."""
        reason = error
        if not isinstance(reason, KafkaError):
            reason = KafkaError(f"the record was not appended, because of {brief(error)}")
            reason.__cause__ = error
        for of_record in headers:
            self.on_acknowledgement(None, reason, of_record)

    def on_acknowledgement(
        self,
        metadata: RecordMetadata | None,
        error: KafkaError | None,
        headers: Encoded | GivenHeaders | None,
    ) -> None:
        """Call all interceptors. The first BaseException (such as SystemExit) is raised at the end."""
        exit_request: BaseException | None = None
        for interceptor, argument in zip(self._chain, self._header_arguments, strict=True):
            if hasattr(interceptor, "on_acknowledgement"):
                try:
                    if argument is None:
                        interceptor.on_acknowledgement(metadata, error)
                    elif argument == POSITIONAL:
                        interceptor.on_acknowledgement(metadata, error, self._pairs_of(headers))
                    else:
                        interceptor.on_acknowledgement(metadata, error, **{argument: self._pairs_of(headers)})
                except BaseException as raised:
                    logger.exception("on_acknowledgement of %r failed", interceptor)
                    if not isinstance(raised, Exception):
                        exit_request = exit_request or raised
        if exit_request is not None:
            raise exit_request

    def _pairs_of(self, headers: Encoded | GivenHeaders | None) -> Headers:
        """Return headers as a list of its own; those of a refused record can be invalid."""
        pairs: Headers = []
        if isinstance(headers, bytes):
            self._read_headers(headers, 0, pairs)
        elif isinstance(headers, list | tuple):
            pairs.extend(headers)
        return pairs

    def around(self, on_delivery: OnDelivery | None, headers: Encoded) -> OnDelivery | None:
        """Return a callback that calls the interceptors, then on_delivery; None without on_delivery."""
        if on_delivery is None:
            return None

        def call_both(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            try:
                self.on_acknowledgement(metadata, error, headers)
            finally:
                on_delivery(metadata, error)

        return call_both

    def close(self) -> None:
        for interceptor in self._chain:
            if hasattr(interceptor, "close"):
                try:
                    interceptor.close()
                except Exception:
                    logger.exception("close of %r failed", interceptor)


def _header_argument(interceptor: Any) -> str | None:
    """Return the name of the parameter of `on_acknowledgement` for headers; None if it has none.

    `POSITIONAL` if it has no name for callers.
    """
    try:
        parameters = [*inspect.signature(interceptor.on_acknowledgement).parameters.values()]
    except (AttributeError, TypeError, ValueError):  # no method, or one without a signature
        return None
    named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    if any(one.name == "headers" for one in named):
        return "headers"
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [one for one in parameters if one.default is one.empty and one.kind not in variadic]
    if len(required) != 3:
        return None
    return POSITIONAL if required[2].kind is inspect.Parameter.POSITIONAL_ONLY else required[2].name


def fields_of(record: ProducerRecord) -> tuple[str, Any, Any, GivenHeaders | None, int | None, int | None]:
    """Return the fields of a record for `send`."""
    return record.topic, record.value, record.key, record.headers, record.partition, record.timestamp_ms
