"""Parses regular expressions in the syntax of RE2/J, which Apache Kafka uses for clients' patterns.

The result is a tree without captures and without greediness: neither changes whether a whole text matches.
Rejected as in RE2/J: back references, lookahead and lookbehind, possessive and atomic groups.  Pure.
"""

from __future__ import annotations

import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from enum import Enum, auto
from itertools import chain
from typing import Final, TypeAlias

import attrs

MAX_REPEAT: Final = 1000
"""RE2's limit for the numbers in braces."""

MAX_DEPTH: Final = 100
"""Maximum depth of nested groups, because the parser calls itself for each."""


class Assertion(Enum):
    """A condition on the characters before and after a position."""

    BEGIN_TEXT = auto()
    END_TEXT = auto()
    BEGIN_LINE = auto()
    END_LINE = auto()
    WORD_BOUNDARY = auto()
    NO_WORD_BOUNDARY = auto()


@attrs.define(frozen=True)
class Characters:
    """A set of characters, by code points and by Unicode's general categories."""

    bounds: tuple[int, ...] = ()
    """Starts and ends of ranges, in turn and in ascending order."""
    categories: frozenset[str] = frozenset()
    is_negated: bool = False
    ignores_case: bool = False

    def has(self, char: str) -> bool:
        is_member = self._lists(char) or (
            self.ignores_case and (self._lists(char.lower()) or self._lists(char.upper()))
        )
        return is_member != self.is_negated

    def _lists(self, char: str) -> bool:
        if len(char) != 1:  # another case can have several characters
            return False
        if bisect_right(self.bounds, ord(char)) & 1:
            return True
        return bool(self.categories) and unicodedata.category(char) in self.categories


@attrs.define(frozen=True)
class Sequence:
    """Parts one after the other; without parts it matches the empty text."""

    parts: tuple[Part, ...]


@attrs.define(frozen=True)
class Choice:
    """One of several parts."""

    parts: tuple[Part, ...]


@attrs.define(frozen=True)
class Repeat:
    """A part that is repeated `low` to `high` times; None is without limit."""

    part: Part
    low: int
    high: int | None


Part: TypeAlias = Characters | Assertion | Sequence | Choice | Repeat


class SyntaxProblem(ValueError):
    """The pattern is invalid in RE2, or uses what only other engines have."""


def parse(text: str) -> Part:
    """Return the tree of a pattern. Raise `SyntaxProblem`."""
    return _Parser(text).parse()


def is_word(char: str) -> bool:
    """Return whether RE2's \\w matches a character: ASCII letters, digits and the underscore."""
    return char.isascii() and (char.isalnum() or char == "_")


_Ranges: TypeAlias = list[tuple[int, int]]


def _ranges(pairs: str) -> _Ranges:
    """Return the ranges between the first and the second character, the third and the fourth ..."""
    return [(ord(low), ord(high)) for low, high in zip(pairs[::2], pairs[1::2], strict=True)]


def _bounds(ranges: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    merged: list[list[int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high + 1)
        else:
            merged.append([low, high + 1])
    return tuple(chain.from_iterable(merged))


def _all_but(ranges: _Ranges) -> _Ranges:
    inner = (0, *_bounds(ranges), sys.maxunicode + 1)
    return [(low, high - 1) for low, high in zip(inner[::2], inner[1::2], strict=True) if low < high]


_PERL: Final = {"d": _ranges("09"), "s": _ranges("\t\n\f\r  "), "w": _ranges("09AZ__az")}
_PERL.update({name.upper(): _all_but(ranges) for name, ranges in list(_PERL.items())})

_POSIX: Final = {
    "alnum": _ranges("09AZaz"),
    "alpha": _ranges("AZaz"),
    "ascii": _ranges("\0\x7f"),
    "blank": _ranges("\t\t  "),
    "cntrl": _ranges("\0\x1f\x7f\x7f"),
    "digit": _ranges("09"),
    "graph": _ranges("!~"),
    "lower": _ranges("az"),
    "print": _ranges(" ~"),
    "punct": _ranges("!/:@[`{~"),
    "space": _ranges("\t\r  "),
    "upper": _ranges("AZ"),
    "word": _ranges("09AZ__az"),
    "xdigit": _ranges("09AFaf"),
}
_POSIX.update({f"^{name}": _all_but(ranges) for name, ranges in list(_POSIX.items())})

_CATEGORIES: Final = frozenset(
    a + b
    for a, minor in {
        "C": "cfnos",
        "L": "lmotu",
        "M": "cen",
        "N": "dlo",
        "P": "cdefios",
        "S": "ckmo",
        "Z": "lps",
    }.items()
    for b in minor
)
_ANY: Final = Characters((0, sys.maxunicode + 1))
_ANY_BUT_LINE_END: Final = Characters(_bounds(_all_but(_ranges("\n\n"))))
_ASSERTIONS: Final = {
    "A": Assertion.BEGIN_TEXT,
    "b": Assertion.WORD_BOUNDARY,
    "B": Assertion.NO_WORD_BOUNDARY,
    "z": Assertion.END_TEXT,
}
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = "01234567"
_HEX: Final = frozenset("0123456789abcdefABCDEF")


@attrs.define
class _Parser:
    """Parses by recursive descent, from `at` on."""

    text: str
    at: int = 0
    depth: int = 0
    flags: frozenset[str] = frozenset()
    names: set[str] = attrs.Factory(set)

    def parse(self) -> Part:
        tree = self._choice()
        if self.at < len(self.text):
            raise SyntaxProblem("a closing parenthesis without an opening one")
        return tree

    def _take(self, expected: str) -> bool:
        """Advance beyond an expected text. Return whether it was there."""
        if not self.text.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def _next(self, problem: str) -> str:
        """Return the next character and advance. Raise with `problem` at the end of the pattern."""
        if self.at == len(self.text):
            raise SyntaxProblem(problem)
        self.at += 1
        return self.text[self.at - 1]

    # -- from the choice down to one character ---------------------------------------------------------

    def _choice(self) -> Part:
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self) -> Part:
        parts: list[Part] = []
        can_repeat = False  # a** and a++ are errors in RE2, not repeats of a repeat
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            bounds = self._repetition()
            if bounds is None:
                is_brace = self.text[self.at] == "{"
                parts.extend(self._atoms())
                can_repeat = bool(parts) and not is_brace  # RE2/J never repeats a literal brace
            elif not can_repeat:
                raise SyntaxProblem("a repetition without anything that it can repeat")
            else:
                self._take("?")  # not greedy
                parts[-1] = Repeat(parts[-1], *bounds)
                can_repeat = False
        return Sequence(tuple(parts))

    def _repetition(self) -> tuple[int, int | None] | None:
        """Return the limits of a repetition, or None if there is none."""
        for sign, low, high in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._take(sign):
                return low, high
        return self._counted() if self.text[self.at] == "{" else None

    def _counted(self) -> tuple[int, int | None] | None:
        end = self.text.find("}", self.at)
        first, comma, second = self.text[self.at + 1 : max(end, self.at)].partition(",")
        if not _is_number(first) or (second and not _is_number(second)):
            return None  # as in RE2, the brace is then a character
        self.at = end + 1
        if len(first) > 9 or len(second) > 9:
            raise SyntaxProblem(f"a repetition of more than {MAX_REPEAT}")
        low = int(first)
        high = int(second) if second else None if comma else low
        if max(low, high or 0) > MAX_REPEAT or (high is not None and high < low):
            raise SyntaxProblem(f"a repetition of more than {MAX_REPEAT}, or with its limits swapped")
        return low, high

    def _atoms(self) -> list[Part]:
        """Return the next part: none for flags like (?i), several for a text in \\Q and \\E."""
        char = self._next("")
        if char == "(":
            return self._group()
        if char == "[":
            return [self._class()]
        if char == "\\":
            return self._escaped()
        if char == ".":
            return [_ANY if "s" in self.flags else _ANY_BUT_LINE_END]
        if char == "^":
            return [Assertion.BEGIN_LINE if "m" in self.flags else Assertion.BEGIN_TEXT]
        if char == "$":
            return [Assertion.END_LINE if "m" in self.flags else Assertion.END_TEXT]
        return [self._literal(char)]

    def _literal(self, char: str) -> Part:
        return self._characters([(ord(char), ord(char))])

    def _characters(
        self, ranges: _Ranges, categories: Iterable[str] = (), is_negated: bool = False
    ) -> Characters:
        return Characters(_bounds(ranges), frozenset(categories), is_negated, "i" in self.flags)

    # -- groups and flags ------------------------------------------------------------------------------

    def _group(self) -> list[Part]:
        flags = self.flags
        if self._take("?P<") or (self.text[self.at : self.at + 2] == "?<" and self._take("?<")):
            self._name()
        elif self._take("?"):
            inner, is_group = self._flags()
            if not is_group:
                self.flags = inner
                return []
            self.flags = inner
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise SyntaxProblem(f"more than {MAX_DEPTH} nested groups")
        part = self._choice()
        if not self._take(")"):
            raise SyntaxProblem("a missing closing parenthesis")
        self.depth -= 1
        self.flags = flags
        return [part]

    def _name(self) -> None:
        end = self.text.find(">", self.at)
        name = self.text[self.at : max(end, self.at)]
        if not name or not all(is_word(char) for char in name):
            raise SyntaxProblem("a group with an invalid name, or lookbehind, which RE2 does not have")
        if name in self.names:
            raise SyntaxProblem(f"two groups named {name}")
        self.names.add(name)
        self.at = end + 1

    def _flags(self) -> tuple[frozenset[str], bool]:
        """Read flags after (?. Return them, and whether a group follows."""
        flags, is_negative, saw_flag = set(self.flags), False, False
        while True:
            char = self._next("a missing closing parenthesis")
            if char in "imsU":
                (flags.discard if is_negative else flags.add)(char)
                saw_flag = True
            elif char == "-" and not is_negative:
                is_negative, saw_flag = True, False
            elif char in ":)" and (saw_flag or not is_negative):
                return frozenset(flags), char == ":"
            else:
                raise SyntaxProblem(f"the group (?{char}, which RE2 does not have")

    # -- escapes and classes ---------------------------------------------------------------------------

    def _escaped(self) -> list[Part]:
        char = self.text[self.at : self.at + 1]
        if char in _ASSERTIONS and char:
            self.at += 1
            return [_ASSERTIONS[char]]
        if self._take("Q"):
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at :] if end < 0 else self.text[self.at : end]
            self.at = len(self.text) if end < 0 else end + 2
            return [self._literal(one) for one in quoted]
        ranges: _Ranges = []
        categories: set[str] = set()
        if self._class_escape(ranges, categories):
            return [self._characters(ranges, categories)]
        return [self._literal(self._escape())]

    def _class_escape(self, ranges: _Ranges, categories: set[str]) -> bool:
        """Add what an escape such as \\d or \\pL stands for. Return False for those of one character."""
        char = self.text[self.at : self.at + 1]
        if char in _PERL:
            self.at += 1
            ranges.extend(_PERL[char])
            return True
        if char not in ("p", "P"):
            return False
        self.at += 1
        name = self._next("a Unicode class without a name")
        if name == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                raise SyntaxProblem("a Unicode class without a closing brace")
            name = self.text[self.at : end]
            self.at = end + 1
        is_negative = (char == "P") != name.startswith("^")
        name = name.removeprefix("^")
        named = {one for one in _CATEGORIES if name == "Any" or (name and one.startswith(name))}
        if not named:
            raise SyntaxProblem(f"the Unicode class {name!r}, which is not a general category")
        categories.update(_CATEGORIES - named if is_negative else named)
        return True

    def _escape(self) -> str:
        """Return the character that an escape stands for."""
        char = self._next("a backslash at the end")
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            return self._hexadecimal()
        following = self.text[self.at : self.at + 1]
        if char == "0" or (char in _OCTAL and following and following in _OCTAL):
            digits = char
            while len(digits) < 3 and self.text[self.at : self.at + 1] in set(_OCTAL):
                digits += self._next("")
            return chr(int(digits, 8))
        if char.isascii() and char.isalnum():
            what = "a back reference" if char.isdigit() else "an escape"
            raise SyntaxProblem(f"{what} (\\{char}), which RE2 does not have")
        return char

    def _hexadecimal(self) -> str:
        if self._take("{"):
            end = self.text.find("}", self.at)
            digits = self.text[self.at : max(end, self.at)]
            self.at = end + 1
        else:
            digits = self.text[self.at : self.at + 2]
            self.at += 2
            digits = digits if len(digits) == 2 else ""
        if not digits or not _HEX.issuperset(digits) or int(digits, 16) > 0x10FFFF:
            raise SyntaxProblem("an invalid hexadecimal escape")
        return chr(int(digits, 16))

    def _class(self) -> Characters:
        """Read a class after its opening bracket."""
        is_negated = self._take("^")
        ranges: _Ranges = []
        categories: set[str] = set()
        self._class_item(ranges, categories)  # a closing bracket can be the first character
        while not self._take("]"):
            self._class_item(ranges, categories)
        return self._characters(ranges, categories, is_negated)

    def _class_item(self, ranges: _Ranges, categories: set[str]) -> None:
        end = self.text.find(":]", self.at)
        if end >= 0 and self._take("[:"):
            name = self.text[self.at : max(end, self.at)]
            self.at = end + 2
            if name not in _POSIX:
                raise SyntaxProblem(f"the unknown class [:{name}:]")
            ranges.extend(_POSIX[name])
            return
        if self._take("\\"):
            if self._class_escape(ranges, categories):
                return
            low = self._escape()
        else:
            low = self._next("a missing closing bracket")
        high = low
        if self.text[self.at : self.at + 1] == "-" and self.text[self.at : self.at + 2] != "-]":
            self.at += 1
            high = self._escape() if self._take("\\") else self._next("a missing closing bracket")
        if high < low:
            raise SyntaxProblem(f"the range {low}-{high}, whose limits are swapped")
        ranges.append((ord(low), ord(high)))


def _is_number(text: str) -> bool:
    # RE2 takes no leading zeros.
    return text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0")
