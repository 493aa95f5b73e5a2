"""Responses to requests, including errors.

A failure affects only its request: it gets an error response, or its connection closes if no response is
possible. A bug is also recorded in the cluster's problems. Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, Final, Protocol, TypeVar, cast

import attrs

from pykafka2.broker.base.problems import Problems
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.errors import BrokerError, IllegalState, KafkaError, error_of
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.fields import Field
from pykafka2.protocol.registry import request_class
from pykafka2.protocol.struct import Request, Response, Struct
from pykafka2.text import printable

logger = logging.getLogger(__name__)


class Refusing(Protocol):
    """An API that can build error responses."""

    @property
    def name(self) -> str: ...

    @property
    def refusal(self) -> Callable[[Any, int, int], Response]:
        """Callback: (request, version, error code) -> the error response."""
        ...


class Responses:
    """Responses and error responses of one broker."""

    def __init__(self, broker_id: int, apis: Mapping[int, Refusing], problems: Problems) -> None:
        self._broker_id = broker_id
        self._apis = apis
        self._problems = problems

    def respond_with(self, context: RequestContext, work: Callable[[], Response | None]) -> None:
        """Send the response that `work` returns; None if it is sent later.

        Also used after a wait for another broker or for replicas. An exception affects only this request or
        its connection.
        """
        response: Response | None
        try:
            response = work()
        except Exception as error:
            response = self._failed(context, error)
        if response is None or context.is_complete:
            return
        try:
            context.respond(response)
        except Exception as error:
            self._problems.note(f"broker {self._broker_id} responding to {context.request!r}", error)
            context.close()

    def _failed(self, context: RequestContext, error: Exception) -> Response | None:
        """Return the response after an exception; everything but broker errors is a bug."""
        code = -1  # UNKNOWN_SERVER_ERROR
        if isinstance(error, BrokerError):
            code = error.code or code
        elif isinstance(error, KafkaError) and not isinstance(error, IllegalState):
            name = self._apis[context.api_key].name
            logger.warning("broker %d refused %s: %s", self._broker_id, name, printable(str(error)))
        else:
            self._problems.note(f"broker {self._broker_id} handling {context.request!r}", error)
        if context.is_complete:
            return None  # its connection is closed
        return self.refused(context, code)

    def refused(self, context: RequestContext, code: int) -> Response | None:
        """Return the error response, or close the connection: a Produce with acks=0 gets no response."""
        api = self._apis[context.api_key]
        if context.is_complete or getattr(context.request, "acks", None) == 0:
            context.close()
            return None
        return api.refusal(context.request, context.version, code)

    def refusal_of(self, context: RequestContext, request: Request[Any], code: int) -> Response:
        """Return the error response to a part of a request."""
        return self._apis[context.api_key].refusal(request, context.version, code)

    def refuse(self, context: RequestContext, code: int) -> None:
        """Send the error response, unless a response was sent."""
        if not context.is_complete:
            response = self.refused(context, code)
            if response is not None:
                context.respond(response)


# ---------------------------------------------------------------------- refusals


TOPIC_NAMES: Final = ("name", "topic", "topic_name")
PARTITION_NUMBERS: Final = ("partition_index", "partition", "index")
_OTHERS: Final = (
    "topic_id",
    "group_id",
    "transactional_id",
    "producer_id",
    "log_dir",
    "resource_type",
    "resource_name",
)
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(TOPIC_NAMES, TOPIC_NAMES),
    **dict.fromkeys(PARTITION_NUMBERS, PARTITION_NUMBERS),
    **{name: (name,) for name in _OTHERS},
}
"""The fields that identify an entry, each with its names in a request. Errors repeat no other fields."""

_ERROR_CODES: Final = ("error_code", "partition_error_code")
_ERROR_MESSAGE: Final = "error_message"

StructT = TypeVar("StructT", bound=Struct)
ResponseT = TypeVar("ResponseT", bound=Response)

Part = Callable[[Any, int, "str | None"], Any]
"""Callback: (request or its entry, error code, error message) -> the response, its entry or field."""


@attrs.define(frozen=True)
class Refusal:
    """The error responses of an API, derived from the declarations of its messages.

    The outermost structs that can hold an error have it: the response itself if its version has an error
    code there, otherwise one entry for each entry of the request. Lists below them are empty. The options are
    for what Kafka does differently. Derived once for each version, with its first error.
    """

    top: bool = True
    """Whether the response itself has the error if it can; otherwise the entries have it."""
    entries: bool = False
    """Whether the entries have the error even if the response itself has it."""
    silent: type[BrokerError] | tuple[type[BrokerError], ...] = ()
    """Errors without a message."""
    repeats: tuple[str, ...] = ()
    """Fields of the request that the response itself repeats."""
    blank: Mapping[str, Any] = attrs.field(factory=dict)
    """Values of fields beside an error that are not null, 0 or empty."""
    _derived: dict[tuple[type, type, int], Part] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    def __call__(self, request: Request[ResponseT], version: int, error: int | BrokerError) -> ResponseT:
        """Return the response to a request with an error or its code; 0 is no error."""
        return self.entry(cast("type[ResponseT]", request.RESPONSE), request, version, error)

    def entry(self, cls: type[StructT], requested: object, version: int, error: int | BrokerError) -> StructT:
        """Return an entry of a response with an error.

        `requested` is the entry of the request: a struct, a name or a number.
        """
        key = (cls, type(requested), version)
        part = self._derived.get(key)
        if part is None:
            part = self._derived[key] = self._struct(*key, has_error=False)
        code = error if isinstance(error, int) else error.code or 0
        failure = error_of(code) if isinstance(error, int) and code else error
        is_silent = isinstance(failure, (int, self.silent))
        filled: StructT = part(requested, code, None if is_silent else str(failure))
        return filled

    def _struct(self, cls: type[Struct], source: type, version: int, *, has_error: bool) -> Part:
        """Derive a struct from an entry of the class `source`.

        With `has_error` a struct around it has the error.
        """
        fields = {field.name: field for field in resolved_fields(cls)}
        parts = {
            name: self._blank(field, version)
            for name, field in fields.items()
            if field.required or name in self.blank
        }
        present = [field for field in fields.values() if version in field.versions]
        is_top = issubclass(cls, Response)
        keys = {name: attrgetter(name) for name in self.repeats} if is_top else _keys(present, source)
        parts |= {name: _repeated(key, self._blank(fields[name], version)) for name, key in keys.items()}
        for field in present:
            if field.name in _ERROR_CODES and (self.top or not is_top):
                parts[field.name] = lambda requested, code, text: code
                has_error = True
            elif field.name == _ERROR_MESSAGE:
                parts[field.name] = lambda requested, code, text: text
        for field in present if self.entries or not has_error else ():
            requested = _list_for(field, source, version)
            if requested is not None:
                parts[field.name] = self._list(field, requested, version, has_error=has_error)
        return lambda requested, code, text: cls(
            **{name: part(requested, code, text) for name, part in parts.items()}
        )

    def _blank(self, field: Field, version: int) -> Part:
        """Derive a field beside an error."""
        if version in field.versions and field.name in self.blank:
            value = self.blank[field.name]
            return lambda requested, code, text: value
        if field.required and version in field.nullable:
            return lambda requested, code, text: None
        return lambda requested, code, text: field.absent_value()

    def _list(self, field: Field, requested: Field, version: int, *, has_error: bool) -> Part:
        """Derive a list with an entry for each one in a list of the request."""
        made = cast("type[Struct]", field.struct)
        entry = self._struct(made, requested.struct or object, version, has_error=has_error)
        listed = attrgetter(requested.name)
        return lambda request, code, text: [entry(one, code, text) for one in listed(request) or ()]


REFUSAL: Final = Refusal()
"""The refusal of an API that does nothing differently."""


@cache
def lists_of_entries(api_key: int, version: int) -> tuple[str, str]:
    """Return the lists of a request and its response whose entries are about the same things."""
    request = request_class(api_key)
    for field in resolved_fields(request.RESPONSE):
        requested = _list_for(field, request, version) if version in field.versions else None
        if requested is not None:
            return requested.name, field.name
    raise IllegalState(f"version {version} of {request.NAME} has no errors of single entries")


def _repeated(key: Callable[[Any], Any], blank: Part) -> Part:
    """Derive a field that repeats one of the request unless that is null."""

    def part(requested: Any, code: int, text: str | None) -> Any:
        value = key(requested)
        return blank(requested, code, text) if value is None else value

    return part


def _keys(fields: list[Field], source: type) -> dict[str, Callable[[Any], Any]]:
    """Return, for each field that identifies an entry, how to get it from an entry of the request."""
    if not issubclass(source, Struct):  # only a name or number
        first = next(field.name for field in fields if field.name not in (*_ERROR_CODES, _ERROR_MESSAGE))
        return {first: lambda requested: requested}
    return {
        field.name: attrgetter(name)
        for field in fields
        for name in _KEYS.get(field.name, ())
        if name in source.__slots__
    }


def _list_for(field: Field, source: type, version: int) -> Field | None:
    """Return the list of a request that a list of errors has an entry for each of; None for other lists.

    Both have a key in common, or one of them has no keys.
    """
    if field.struct is None or not field.array or not _can_fail(field.struct, version):
        return None
    keys = {name for part in resolved_fields(field.struct) for name in _KEYS.get(part.name, ())}
    for requested in resolved_fields(source):
        if not requested.array or version not in requested.versions:
            continue
        if not keys or requested.struct is None or keys.intersection(requested.struct.__slots__):
            return requested
    return None


def _can_fail(cls: type[Struct], version: int) -> bool:
    """Return whether a struct or an entry of its lists has an error code."""
    return any(
        field.name in _ERROR_CODES
        or (field.array and field.struct is not None and _can_fail(field.struct, version))
        for field in resolved_fields(cls)
        if version in field.versions
    )
