"""Interceptors of producers: user code around every record, for example for tracing.

`on_send` runs on the caller's thread in the order of the option, before serializers; `on_acknowledgement` on
the IO thread, before the record's own callback. Interceptors with a hook for `send_many` get one call for all
its records. Exceptions of an interceptor are logged and never break the send (pykafka2/hooks.py).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import attrs

from pykafka2 import lifecycle
from pykafka2.errors import KafkaError
from pykafka2.hooks import ClientInterceptor, Hooks
from pykafka2.producer.arguments import encoded_headers
from pykafka2.producer.delivery.delivery import Delivery, OnDelivery
from pykafka2.slotted import slotted
from pykafka2.text import brief, named, type_of
from pykafka2.types import BatchMetadata, GivenHeaders, Headers, RecordMetadata

logger = logging.getLogger(__name__)

Encoded = bytes
"""Headers as a record has them."""

POSITIONAL: Final = ""
"""Stands for a parameter that callers cannot name."""


@attrs.define(getstate_setstate=False)
class ProducerRecord:
    """The arguments of a `send`.  An interceptor can change them or return another record.

    `context` is for the interceptor's own use: what `on_send` sets is there again in `on_acknowledgement`.
    Each interceptor has its own. It is not compared, and not pickled or copied.
    """

    topic: str
    value: Any = None
    key: Any = None
    headers: GivenHeaders | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    context: Any = attrs.field(default=None, init=False, eq=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), fields_of(self)


class BulkRecords:
    """The records of one `send_many`, for the interceptors' `on_send_many`. Each interceptor has its own.

    Attributes:
        topic: the topic.
        count: the number of records.
        shared_headers: the argument `headers` of the call if it is one list for all records, otherwise empty.
        headers: headers to add to each of the records, empty at first: append (name, bytes or None).
        context: for the interceptor's own use, such as a span or a time; None at first.
    """

    __slots__ = ("context", "count", "headers", "shared_headers", "topic")

    def __init__(self, topic: str, count: int, shared_headers: GivenHeaders = ()) -> None:
        self.topic = topic
        self.count = count
        self.shared_headers = shared_headers
        self.headers: Headers = []
        self.context: Any = None


class ProducerInterceptor(ClientInterceptor):
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

        A method with a parameter `record` also gets the `ProducerRecord` that was sent, with the `context`
        that this interceptor's `on_send` has set, and with its partition, if one was chosen.

        A method with a parameter `headers`, or with one more parameter of any other name, also gets the
        record's headers, as in Java (KIP-512): a list of pairs, with those that interceptors and serializers
        have added.
        """

    def on_send_many(self, records: BulkRecords) -> None:
        """Called once for each `send_many`, before its records are read, on the thread that sends them.

        An interceptor with this method or `on_acknowledgement_many` gets no calls for single records of a
        `send_many`. For others, `send_many` creates a `ProducerRecord` for each record, also of Arrow data,
        and calls `on_send` and `on_acknowledgement`; that takes many times longer.
        """

    def on_acknowledgement_many(
        self,
        metadata: BatchMetadata | None,
        error: KafkaError | None,
        records: BulkRecords,
        rows: Sequence[int],
    ) -> None:
        """Called when some records of a `send_many` were written or have failed, once for each batch.

        It runs on the IO thread and must not block; for records that were not appended, on the thread that
        sent them. Records with errors of their own (KIP-467) have a call for each run of them.

        Args:
            metadata: partition, first and last offset of the records; None if they failed.
            error: the error; None if they were written.
            records: the object that `on_send_many` got.
            rows: the numbers of the records in the call. All calls together have each number once.
        """


Reported = tuple[Encoded | GivenHeaders | None, ProducerRecord | None]
"""The headers of a record, and the record if an interceptor wants it."""


@slotted(eq=False)
class _Link:
    """An interceptor that is called for each record: its methods, and the parameters of the second one."""

    interceptor: Any
    on_send: Callable[..., Any] | None
    on_acknowledgement: Callable[..., Any] | None
    headers_argument: str | None
    takes_record: bool


class Interceptors(Hooks):
    """The interceptors of one producer.

    Attributes:
        wants_record: whether the record must be kept until its acknowledgement.
        sees_records: whether `send` must call interceptors.
    """

    def __init__(self, chain: tuple[Any, ...]) -> None:
        super().__init__(chain, ProducerInterceptor)
        links = [self._link(one) for one in chain]
        self._links = [link for link in links if link.on_send or link.on_acknowledgement]
        self._of_bulk = [one for one in chain if self._is_for_bulk(one)]
        self._links_of_bulk = [
            link for link in self._links if all(link.interceptor is not one for one in self._of_bulk)
        ]
        self._has_warned = False
        self.sees_records = bool(self._links)
        self.wants_record = any(link.takes_record for link in self._links)
        if any(link.headers_argument is not None for link in self._links):
            with lifecycle.loading:  # not on the IO thread
                from pykafka2.records.decoder import read_headers
            self._read_headers = read_headers

    def _link(self, interceptor: Any) -> _Link:
        on_acknowledgement = self.method(interceptor, "on_acknowledgement")
        headers_argument, takes_record = _arguments(on_acknowledgement)
        return _Link(
            interceptor,
            self.method(interceptor, "on_send"),
            on_acknowledgement,
            headers_argument,
            takes_record,
        )

    def _is_for_bulk(self, interceptor: Any) -> bool:
        names = ("on_send_many", "on_acknowledgement_many")
        return any(self.method(interceptor, name) is not None for name in names)

    # ------------------------------------------------------------------ single records

    def on_send(self, record: ProducerRecord, *, of_bulk: bool = False) -> ProducerRecord:
        """Call the interceptors of a record; with `of_bulk` only those without hooks for `send_many`."""
        links = self._links_of_bulk if of_bulk else self._links
        if isinstance(record.headers, list):
            record.headers = [*record.headers]  # interceptors append to it, and the caller keeps its own
        contexts: list[Any] = []
        for link in links:
            record.context = None
            before = record
            if link.on_send is not None:
                record = self._sent(link.interceptor, link.on_send, record)
            contexts.append(before.context if record.context is None else record.context)
        record.context = contexts
        return record

    def _sent(
        self, interceptor: Any, on_send: Callable[[ProducerRecord], object], record: ProducerRecord
    ) -> ProducerRecord:
        """Return what one interceptor makes of a record."""
        try:
            returned = on_send(record)
        except Exception as error:
            self.failed(interceptor, "on_send", error, "; the record is sent unchanged")
            return record
        if isinstance(returned, ProducerRecord):
            return returned
        if returned is not None:  # None is allowed after a change in place
            self.report(
                interceptor,
                f"on_send of %r returned {type_of(returned)} instead of a ProducerRecord; the record is sent "
                "unchanged",
            )
        return record

    def on_refused(self, error: BaseException, refused: Iterable[Reported], *, of_bulk: bool = False) -> None:
        """Call `on_acknowledgement` with the error of records that were not appended."""
        reason = refusal(error)
        for headers, record in refused:
            self.on_acknowledgement(None, reason, headers, record, of_bulk=of_bulk)

    def on_acknowledgement(
        self,
        metadata: RecordMetadata | None,
        error: KafkaError | None,
        headers: Encoded | GivenHeaders | None,
        record: ProducerRecord | None = None,
        *,
        of_bulk: bool = False,
    ) -> None:
        """Call all interceptors. The first BaseException (such as SystemExit) is raised at the end."""
        contexts: list[Any] = []
        if record is not None:
            if isinstance(record.context, list):
                contexts = record.context
            if record.partition is None and metadata is not None:
                record.partition = metadata.partition
        exit_request: BaseException | None = None
        for number, link in enumerate(self._links_of_bulk if of_bulk else self._links):
            if link.on_acknowledgement is None:
                continue
            arguments: list[Any] = [metadata, error]
            by_name: dict[str, Any] = {}
            if link.headers_argument == POSITIONAL:
                arguments.append(self._pairs_of(headers))
            elif link.headers_argument is not None:
                by_name[link.headers_argument] = self._pairs_of(headers)
            if link.takes_record:
                if record is not None:
                    record.context = contexts[number] if number < len(contexts) else None
                by_name["record"] = record
            try:
                link.on_acknowledgement(*arguments, **by_name)
            except BaseException as raised:
                self.report(link.interceptor, "on_acknowledgement of %r failed", raised)
                if not isinstance(raised, Exception):
                    exit_request = exit_request or raised
        if exit_request is not None:
            raise exit_request

    def kept(self, record: ProducerRecord) -> ProducerRecord | None:
        """Return the record if it must be kept until its acknowledgement."""
        return record if self.wants_record else None

    def appended(self, record: ProducerRecord | None, delivery: Delivery) -> None:
        """Set the partition of a kept record."""
        if record is not None and record.partition is None:
            record.partition = delivery.batch_outcome.partition

    def _pairs_of(self, headers: Encoded | GivenHeaders | None) -> Headers:
        """Return headers as a list of its own; those of a refused record can be invalid."""
        pairs: Headers = []
        if isinstance(headers, bytes):
            self._read_headers(headers, 0, pairs)
        elif isinstance(headers, list | tuple):
            pairs.extend(headers)
        return pairs

    def around(
        self, on_delivery: OnDelivery | None, headers: Encoded, record: ProducerRecord | None
    ) -> OnDelivery | None:
        """Return a callback that calls the interceptors, then on_delivery; None without on_delivery."""
        if on_delivery is None:
            return None

        def call_both(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            try:
                self.on_acknowledgement(metadata, error, headers, record)
            finally:
                on_delivery(metadata, error)

        return call_both

    # ------------------------------------------------------------------ the records of a send_many

    @property
    def sees_bulk(self) -> bool:
        """Whether `send_many` must call interceptors."""
        return bool(self._of_bulk or self._links_of_bulk)

    @property
    def sees_records_of_bulk(self) -> bool:
        """Whether `send_many` must call interceptors for each record."""
        return bool(self._links_of_bulk)

    def warn_of_arrow(self) -> None:
        """Log once that Arrow data is converted to objects, and for which interceptors."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "send_many creates an object for each record of Arrow data, because these interceptors have "
                "no on_send_many: %s",
                named(link.interceptor for link in self._links_of_bulk),
            )

    def on_send_many(
        self, topic: str, count: int, shared_headers: GivenHeaders
    ) -> list[tuple[Any, BulkRecords]]:
        """Call `on_send_many`; return the interceptors with a hook for `send_many`, each with its object."""
        calls = [(one, BulkRecords(topic, count, shared_headers)) for one in self._of_bulk]
        for interceptor, records in calls:
            method = self.method(interceptor, "on_send_many")
            if method is not None:
                try:
                    method(records)
                    encoded_headers(topic, records.headers)
                except Exception as error:
                    self.failed(interceptor, "on_send_many", error, "; its headers are left out")
                    records.headers = []
        return calls

    def on_acknowledgement_many(
        self,
        calls: Iterable[tuple[Any, BulkRecords]],
        metadata: BatchMetadata | None,
        error: KafkaError | None,
        rows: Sequence[int],
    ) -> None:
        """Call the hook of records of a `send_many` that were written or have failed."""
        for interceptor, records in calls:
            method = self.method(interceptor, "on_acknowledgement_many")
            if method is not None:
                try:
                    method(metadata, error, records, rows)
                except BaseException as raised:
                    self.failed(interceptor, "on_acknowledgement_many", raised)


def refusal(error: BaseException) -> KafkaError:
    """Return the error of records that were not appended because of another error."""
    if isinstance(error, KafkaError):
        return error
    # A Ctrl-C can come in the moment after the record was appended.
    how = "was not" if isinstance(error, Exception) else "was possibly not"
    reason = KafkaError(f"the record {how} appended, because of {brief(error)}")
    reason.__cause__ = error
    return reason


def _arguments(on_acknowledgement: Callable[..., Any] | None) -> tuple[str | None, bool]:
    """Return the name of the parameter of `on_acknowledgement` for headers, and whether it takes the record.

    The name is None if there is no parameter, and `POSITIONAL` if it has no name for callers.
    """
    if on_acknowledgement is None:
        return None, False
    try:
        parameters = [*inspect.signature(on_acknowledgement).parameters.values()]
    except (TypeError, ValueError):  # a method without a signature
        return None, False
    by_name = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    takes_record = "record" in by_name
    if "headers" in by_name:
        return "headers", takes_record
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [
        one
        for one in parameters
        if one.default is one.empty and one.kind not in variadic and one.name != "record"
    ]
    if len(required) != 3:
        return None, takes_record
    is_positional = required[2].kind is inspect.Parameter.POSITIONAL_ONLY
    return POSITIONAL if is_positional else required[2].name, takes_record


def fields_of(record: ProducerRecord) -> tuple[str, Any, Any, GivenHeaders | None, int | None, int | None]:
    """Return the fields of a record for `send`."""
    return record.topic, record.value, record.key, record.headers, record.partition, record.timestamp_ms
