"""Declares options as attrs fields: name, default, valid values, and the conversion of a value.

Durations are milliseconds in the API and seconds inside. Numbers can be passed as text, because property
files contain only text. Pure data; used by options.py and by the options of each client.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import attrs

from pykafka2 import lifecycle
from pykafka2.slotted import slotted

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
LONGEST_SENT_BYTES = 32767
"""Longest string in a request, whose length is a signed 16-bit number."""
OPTION = "option"
"""The metadata key of an attrs field's `Option`."""


class Because(ValueError):
    """Raised by a conversion to add a reason to the error message.

    With `hides_value` the message does not show the value, which can be a secret in the wrong place.
    """

    def __init__(self, reason: str, *, hides_value: bool = False) -> None:
        super().__init__(reason)
        self.hides_value = hides_value


_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_async(function: object) -> bool:
    """Return True if a call only creates a coroutine, which pykafka2 would never await."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    return callable(function) and inspect.iscoroutinefunction(type(function).__call__)


NOT_AWAITED = "it is async, and this client does not await it; pass a plain function"
"""The reason why an async function is rejected."""
AWAITED_BY_AIO = f"{NOT_AWAITED}, or use the consumer of pykafka2.aio, which awaits it"
"""The same for callables that the asyncio consumer accepts."""


def hidden(value: object) -> str:
    """Return the text that the `repr` of an attrs class shows for a secret."""
    return "None" if value is None else "'[hidden]'"


@attrs.define(frozen=True)
class Imported:
    """An object that an option names by its import path, `module:name`; equal if the paths are."""

    path: str
    target: Any = attrs.field(eq=False, repr=False)


def target_of(value: Any) -> Any:
    """Return the object behind an option, whether it was passed or named."""
    return value.target if isinstance(value, Imported) else value


def _imported(path: str) -> Any:
    """Import `module:name`; raise Because."""
    if not _IMPORT_PATH.fullmatch(path):  # perhaps a token, and not the name of its provider
        raise Because("write an import path as module:function", hides_value=True)
    module, _, name = path.partition(":")
    try:
        with lifecycle.loading:
            found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:  # the module is a user's
        raise Because(f"the import of {path!r} failed: {type(error).__name__}: {error}") from error
    if isinstance(found, str):  # which would be an import path again
        raise Because(f"{path!r} is a str")
    return found


@slotted(frozen=True)
class Option:
    """One public option. `read` converts a user's value into the internal one, or raises ValueError."""

    name: str
    read: Callable[[Any], object]
    legal: str
    doc: str
    default: object
    """The value as a user writes it (milliseconds, for a duration)."""
    aliases: tuple[str, ...] = ()
    nullable: bool = False
    secret: bool = False

    @property
    def dotted(self) -> str:
        """The name as in Kafka's documentation."""
        return self.name.replace("_", ".")

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)


# ---------------------------------------------------------------------------------------------------
# Declaring fields
# ---------------------------------------------------------------------------------------------------


def custom(
    name: str,
    default: object,
    read: Callable[[Any], object],
    legal: str,
    doc: str,
    *,
    aliases: tuple[str, ...] = (),
    secret: bool = False,
) -> Any:
    """Declare a field whose values `read` converts; `default` is written as a user writes it."""
    option = Option(name, read, legal, doc, default, aliases, nullable=default is None, secret=secret)
    shown = hidden if secret else True
    inside = None if default is None else read(default)
    return attrs.field(default=inside, repr=shown, metadata={OPTION: option})


def duration(
    name: str,
    default_ms: float | None,
    doc: str,
    *,
    minimum_ms: float = 0,
    is_sent: bool = False,
    allow_infinite: bool = False,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare a duration: milliseconds in the API, seconds inside; with `is_sent` it must fit 32 bits."""
    maximum_ms = INT32_MAX if is_sent else float("inf")

    def read(value: Any) -> float:
        number = float(_number(value))
        if not minimum_ms <= number <= maximum_ms or (number == float("inf") and not allow_infinite):
            raise ValueError
        return number / 1000

    legal = f"a number of milliseconds, at least {minimum_ms:g}" + (" (or inf)" if allow_infinite else "")
    legal += f" and at most {INT32_MAX}" if is_sent else ""
    return custom(name, default_ms, read, legal, doc, aliases=aliases)


def integer(
    name: str,
    default: int | None,
    doc: str,
    *,
    minimum: int = 0,
    maximum: int = INT32_MAX,
    infinity_is_maximum: bool = False,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare an integer."""

    def read(value: Any) -> int:
        number = _number(value)
        if infinity_is_maximum and number == float("inf"):
            return maximum
        if number != number or abs(number) == float("inf") or number != int(number):
            raise ValueError
        if not minimum <= number <= maximum:
            raise ValueError
        return int(number)

    return custom(name, default, read, f"an integer from {minimum} to {maximum}", doc, aliases=aliases)


def flag(name: str, default: bool, doc: str, *, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a boolean."""

    def read(value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        raise ValueError

    return custom(name, default, read, "True or False", doc, aliases=aliases)


def sendable_text(value: str) -> str:
    """Return the value if a request can carry it. Raise Because."""
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        raise Because("it is not valid Unicode text, so no request can carry it") from None
    if size_bytes > LONGEST_SENT_BYTES:
        raise Because(f"it has {size_bytes} bytes; a request can carry at most {LONGEST_SENT_BYTES}")
    return value


def text(
    name: str,
    default: str | None,
    doc: str,
    *,
    is_sent: bool = False,
    secret: bool = False,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare a string; with `is_sent` a request must be able to carry it."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError
        return sendable_text(value) if is_sent else value

    return custom(name, default, read, "a string", doc, aliases=aliases, secret=secret)


def choice(
    name: str,
    default: str | None,
    values: Sequence[str],
    doc: str,
    *,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare one of `values`, matched without case."""
    by_lower = {value.lower(): value for value in values}

    def read(value: Any) -> str:
        if not isinstance(value, str) or value.lower() not in by_lower:
            raise ValueError
        return by_lower[value.lower()]

    return custom(name, default, read, "one of " + ", ".join(map(repr, values)), doc, aliases=aliases)


def callback(
    name: str,
    doc: str,
    *,
    legal: str = "a callable",
    is_function: bool = False,
    is_importable: bool = False,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare a user's object. Unless it `is_function`, its caller checks its interface.

    With `is_importable` the value can also be text, `module:name`; it is an `Imported` then.
    """

    def read(value: Any) -> object:
        if is_importable and isinstance(value, str):
            imported = Imported(value, _imported(value))
            read(imported.target)
            return imported
        if is_function and not callable(value):
            raise ValueError
        if is_async(value) or is_async(getattr(value, "token", None)):  # of a token provider
            raise Because(NOT_AWAITED)
        return value

    return custom(name, None, read, legal, doc, aliases=aliases)


def interceptor_list(doc: str, *methods: str) -> Any:
    """Declare a list of interceptors: objects that have at least one of the methods."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError
        for interceptor in value:
            if isinstance(interceptor, str | type):
                raise Because(f"{interceptor!r} is not an interceptor; pass an object")
            found = [method for method in methods if hasattr(interceptor, method)]
            if not found:
                raise Because(f"{interceptor!r} has none of the methods {', '.join(methods)}")
            for method in found:
                if is_async(getattr(interceptor, method)):
                    raise Because(f"{method} of {interceptor!r}: {NOT_AWAITED}")
        return tuple(value)

    return custom("interceptors", (), read, "a list of objects", doc, aliases=("interceptor_classes",))


def names(name: str, default: Sequence[str], doc: str, *, aliases: tuple[str, ...] = ()) -> Any:
    """Declare a list of strings, or one string with commas; a tuple inside."""

    def read(value: Any) -> tuple[str, ...]:
        parts = _split(value)
        if not all(isinstance(part, str) for part in parts):
            raise ValueError
        return tuple(parts)

    return custom(name, default, read, "a list of strings", doc, aliases=aliases)


def _number(value: Any) -> int | float:
    if isinstance(value, bool):
        raise ValueError
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):  # property files contain only text
        return float(value) if "." in value or "inf" in value.lower() else int(value)
    raise ValueError


def _split(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    raise ValueError
