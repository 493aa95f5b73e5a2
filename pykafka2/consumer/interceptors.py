"""Interceptors of consumers and share consumers: user code that sees records, commits and rebalances.

Used on the caller's thread: `on_consume` inside `poll` and iteration, after the deserializers; `on_commit`
with the callbacks of commits; `on_record` and `on_record_done` around the processing of a record. An
exception of an interceptor is logged, and the call continues (pykafka2/hooks.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence, Set
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic

from pykafka2.hooks import ClientInterceptor, Hooks
from pykafka2.text import type_of
from pykafka2.types import BadRecord, ConsumerRecord, K, OffsetAndMetadata, TopicPartition, V

if TYPE_CHECKING:
    from pykafka2.records.columns import Columns

Records = dict[TopicPartition, list[ConsumerRecord[Any, Any]]]
"""The records that a call returns, by partition."""


class ConsumerInterceptor(ClientInterceptor):
    """Base class for consumer interceptors; deriving from it is optional.

    The hooks of this class run on the thread, or the event loop, that calls the consumer.
    """

    def on_poll_start(self) -> None:
        """Called when a read starts to look for records: `poll`, `poll_columns`, or a step of an iteration.

        A step that returns a record of an earlier read does not call it.
        """

    def on_consume(self, records: Records) -> Records | None:
        """Called before records are returned; return these, changed or not, or others; None means these.

        Positions move past all of them.  After a Ctrl-C it can be called with the same records again. It is
        not called by `poll_columns` and `read_range`, which create no record objects; see `on_columns`. A
        share consumer rejects the records that it leaves out.
        """
        return records

    def on_columns(self, partition: TopicPartition, columns: Columns) -> None:
        """Called before `poll_columns` or `read_range` returns records of a partition as columns.

        `len(columns)`, `columns.first_offset` and `columns.last_offset` cost nothing; reading another
        attribute creates a list. `read_range` calls it on the thread that reads the pieces.
        """

    def on_record(self, record: ConsumerRecord[Any, Any]) -> Any:
        """Called before an iteration returns a record, and at the start of `process_span(record)`.

        A share consumer calls it at the start of a `with record:` block, and not in iterations. What it
        returns is passed to `on_record_done` as `context`.
        """

    def on_record_done(
        self, record: ConsumerRecord[Any, Any], error: BaseException | None, context: Any
    ) -> None:
        """Called when the record was processed.

        With `process_span` this is at the end of the block, and `error` is the exception that ended it. So it
        is with `with record:` of a share consumer, which has sent the acknowledgement before. An iteration
        cannot see what its loop does with a record: it calls this at its next step, when the loop
        ends or is left, or when the consumer is closed, always with None as `error`.
        """

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called after these offsets were committed.

        A method with one more parameter, `error`, is also called after a commit has failed; otherwise `error`
        is None. A parameter `seconds` gets the time from the start of the commit to its response.
        """

    def on_acknowledgement_commit(
        self, offsets: Mapping[TopicPartition, Set[int]], error: BaseException | None, seconds: float
    ) -> None:
        """Called by a share consumer with offsets whose acknowledgements have a result.

        It is called inside `poll`, `commit` and `close`, as the callback of
        `set_acknowledgement_commit_callback`. After an error the brokers deliver the records again. `seconds`
        is the time from the request to its response, 0 without a request.
        """

    def on_bad_record(self, record: BadRecord, is_skipped: bool) -> None:
        """Called when a record could not be read, after the option on_bad_record has decided.

        If the record is not skipped, each later read that meets it again calls this again.
        """

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Called after a rebalance with the added partitions, possibly none, after the listener."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when these partitions were revoked, after the listener."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when these partitions were lost, because the group has removed this member."""


class Interceptors(Hooks):
    """The interceptors of one consumer.

    Attributes:
        consumes: whether one has `on_consume`.
        sees_columns: whether one has `on_columns`.
        sees_records: whether one has `on_record` or `on_record_done`.
        times_commits: whether one has an `on_commit` that gets the duration.
    """

    def __init__(self, chain: tuple[Any, ...]) -> None:
        super().__init__(chain, ConsumerInterceptor)
        self.consumes = self.has("on_consume")
        self.sees_columns = self.has("on_columns")
        self.sees_records = self.has("on_record") or self.has("on_record_done")
        self._of_records = [
            (one, self.method(one, "on_record"), self.method(one, "on_record_done")) for one in chain
        ]
        self._on_commit = [
            (one, method, _error_argument(method), _has_parameter(method, "seconds"))
            for one, method in self.having("on_commit")
        ]
        self.times_commits = any(takes_seconds for *_, takes_seconds in self._on_commit)

    def on_consume(self, records: Records) -> Records:
        for interceptor, method in self.having("on_consume"):
            try:
                returned = method(records)
            except Exception as error:
                self.failed(interceptor, "on_consume", error, "; the records stay unchanged")
                continue
            if isinstance(returned, dict):
                records = {partition: kept for partition, kept in returned.items() if kept}
            elif returned is not None:
                self.report(
                    interceptor,
                    f"on_consume of %r returned {type_of(returned)} instead of a dict; the records stay "
                    "unchanged",
                )
        return records

    def on_columns(self, found: Mapping[TopicPartition, Columns]) -> None:
        for partition, columns in found.items():
            self.call("on_columns", partition, columns)

    def on_commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        error: BaseException | None,
        seconds: float,
    ) -> None:
        """Report a commit that was written, or its error, to interceptors that have a parameter for it."""
        for interceptor, method, argument, takes_seconds in self._on_commit:
            if argument is None and error is not None:
                continue
            arguments = (offsets, error) if argument == POSITIONAL else (offsets,)
            by_name: dict[str, Any] = {argument: error} if argument not in (None, POSITIONAL) else {}
            if takes_seconds:
                by_name["seconds"] = seconds
            try:
                method(*arguments, **by_name)
            except Exception as raised:
                self.failed(interceptor, "on_commit", raised)

    def on_record(self, record: ConsumerRecord[Any, Any]) -> list[Any]:
        """Call `on_record`; return what `on_record_done` needs. If an interrupt ends it, that is called."""
        contexts: list[Any] = []
        try:
            for interceptor, method, _ in self._of_records:
                contexts.append(None)
                if method is not None:
                    try:
                        contexts[-1] = method(record)
                    except Exception as error:
                        self.failed(interceptor, "on_record", error)
        except BaseException as interrupt:
            self.on_record_done(record, interrupt, contexts)
            raise
        return contexts

    def on_record_done(
        self, record: ConsumerRecord[Any, Any], error: BaseException | None, contexts: list[Any]
    ) -> None:
        """Call `on_record_done`, in the reverse order."""
        interrupt: BaseException | None = None
        for (interceptor, _, method), context in zip(
            reversed(self._of_records[: len(contexts)]), reversed(contexts), strict=True
        ):
            if method is not None:
                try:
                    method(record, error, context)
                except BaseException as raised:
                    interrupt = self.logged(interceptor, "on_record_done", raised) or interrupt
        if interrupt is not None:
            self._interrupt(interrupt)


POSITIONAL = ""
"""Stands for a parameter that callers cannot name."""


def _parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that can be passed singly."""
    try:
        parameters = [*inspect.signature(method).parameters.values()]
    except (TypeError, ValueError):  # a method without a signature
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one for one in parameters if one.kind not in variadic]


def _has_parameter(method: Callable[..., Any], name: str) -> bool:
    return any(one.name == name and one.kind is not one.POSITIONAL_ONLY for one in _parameters(method))


def _error_argument(on_commit: Callable[..., Any]) -> str | None:
    """Return the name of the parameter of `on_commit` for the error; None if it has none."""
    if _has_parameter(on_commit, "error"):
        return "error"
    required = [one for one in _parameters(on_commit) if one.default is one.empty and one.name != "seconds"]
    return POSITIONAL if len(required) == 2 else None


class ProcessSpan(Generic[K, V]):
    """A `with` block in which a record is processed; see `KafkaConsumer.process_span`."""

    __slots__ = ("_contexts", "_interceptors", "_record")

    def __init__(self, interceptors: Interceptors, record: ConsumerRecord[K, V]) -> None:
        self._interceptors = interceptors
        self._record = record
        self._contexts: list[Any] = []

    def __enter__(self) -> ConsumerRecord[K, V]:
        self._contexts = self._interceptors.on_record(self._record)
        return self._record

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        contexts, self._contexts = self._contexts, []
        self._interceptors.on_record_done(self._record, error, contexts)
