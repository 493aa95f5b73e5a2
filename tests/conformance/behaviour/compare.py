"""Two transcripts side by side: where they differ, and which differences are meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from .known import KNOWN, Known
from .plain import WORDED

ABSENT = "(absent)"


@attrs.frozen
class Difference:
    """One field of one answer: what Apache Kafka says, what ours says."""

    scenario: str
    step: str
    path: str
    apache: Any
    ours: Any

    def __str__(self) -> str:
        return (
            f"{self.scenario} / {self.step}\n    {self.path or 'the answer'}:\n"
            f"      Apache Kafka  {self.apache!r}\n      ours          {self.ours!r}"
        )

    def known(self) -> Known | None:
        """The entry of KNOWN that says this difference is meant."""
        return self.among(KNOWN)

    def among(self, known: Iterable[Known]) -> Known | None:
        """The first of these entries that matches."""
        for one in known:
            if (
                re.fullmatch(one.scenario, self.scenario)
                and re.search(one.step, self.step)
                and re.search(one.path, self.path)
            ):
                return one
        return None


def differences(scenario: str, apache: Mapping[str, Any], ours: Mapping[str, Any]) -> list[Difference]:
    """Every differing field, in order; words for people are taken as equal if both or neither are there."""
    found = []
    for step in dict.fromkeys([*apache, *ours]):
        one, other = apache.get(step, ABSENT), ours.get(step, ABSENT)
        found += [Difference(scenario, step, *rest) for rest in _fields("", one, other, worded=False)]
    return found


def wordings(scenario: str, apache: Mapping[str, Any], ours: Mapping[str, Any]) -> list[Difference]:
    """Every message for people that is worded differently."""
    found = []
    for step in apache.keys() & ours.keys():
        for path, one, other in _fields("", apache[step], ours[step], worded=True):
            if path.rpartition(".")[2] in WORDED and isinstance(one, str) and isinstance(other, str):
                found.append(Difference(scenario, step, path, one, other))
    return found


def _fields(path: str, one: Any, other: Any, worded: bool) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from _fields(
                f"{path}.{key}".lstrip("."), one.get(key, ABSENT), other.get(key, ABSENT), worded
            )
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _fields(f"{path}[{number}]", left, right, worded)
    elif one != other:
        words = path.rpartition(".")[2] in WORDED
        if worded or not (
            words and isinstance(one, str) and isinstance(other, str) and ABSENT not in (one, other)
        ):
            yield path, one, other
