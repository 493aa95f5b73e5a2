"""A notation for cases of hostile responses: in plain words, the lie, and its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pykafka2.errors import KafkaError
from tests.hostile_brokers.liar import Answer, Bytes, Question, Tell


@attrs.define(frozen=True)
class Lie:
    """One case.

    While the lie lasts, a call ends in `raises` (an error whose words match `words`), or as if nothing were
    wrong if that is None.  Once the broker is honest again all goes on by itself, unless `for_good` says that
    the client had to give up: then another client goes on.
    """

    name: str
    api: str
    tell: Tell
    raises: type[KafkaError] | tuple[type[KafkaError], ...] | None = None
    words: str = ""
    for_good: bool = False
    denies: int = 0

    def __str__(self) -> str:
        return self.name


def setting(*changes: tuple[str, Any]) -> Tell:
    """The honest answer, but for fields: `("topics.*.partitions.0.leader_id", 99)`."""

    def tell(question: Question, honest: Any) -> Answer:
        for path, value in changes:
            assign(honest, path.split("."), value)
        return honest  # type: ignore[no-any-return]

    return tell


def changing(change: Callable[[Any], object]) -> Tell:
    """The honest answer after `change` of it in place."""

    def tell(question: Question, honest: Any) -> Answer:
        change(honest)
        return honest  # type: ignore[no-any-return]

    return tell


def saying(answer: Callable[[], Answer]) -> Tell:
    """The same lie for every request."""
    return lambda question, honest: answer()


def body(data: bytes) -> Tell:
    """A right header, then this."""
    return lambda question, honest: Bytes(question.frame(data))


def body_of(change: Callable[[bytes], bytes]) -> Tell:
    """The honest answer's body, changed as bytes."""
    return lambda question, honest: Bytes(question.frame(change(honest.encode(question.version))))


def raw(data: bytes, seconds_apart: float = 0.0) -> Tell:
    """These bytes in place of a frame."""
    return lambda question, honest: Bytes(data, seconds_apart)


def assign(value: Any, path: list[str], what: Any) -> None:
    """Set what the path leads to; `*` is every element of a list, a number one of them."""
    step, *rest = path
    if step == "*":
        for one in value:
            assign(one, rest, what)
    elif step.isdigit():
        if rest:
            assign(value[int(step)], rest, what)
        else:
            value[int(step)] = what
    elif rest:
        assign(getattr(value, step), rest, what)
    else:
        setattr(value, step, what)
