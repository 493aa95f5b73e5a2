"""The layout of tables for people. No name is ever broken or shortened.

A table that is too wide for the terminal gets narrower in steps: columns with one text in all rows go above
it, a first column that repeats becomes headings, and columns of long texts that are no names are shortened.
A first column of different names becomes headings only if the table then fits. If it is still too wide, its
lines go beyond the edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

GAP = "  "
CUT = "..."
LEAST_WIDTH = 12
"""Columns are not shortened below this width."""
Paint = Callable[[str, str], str]
"""Returns a text with the escape sequences of a style: "head", "good", "warning" or "bad"."""


def columns_of(text: str) -> int:
    """Return the number of columns of a terminal that a text fills: two for 語 or 🚀, none for an accent."""
    if text.isascii():
        return len(text)
    import unicodedata

    marks = sum(unicodedata.category(letter) in ("Mn", "Me", "Cf") for letter in text)
    return len(text) - marks + sum(unicodedata.east_asian_width(letter) in "FW" for letter in text)


def cut(text: str, width: int) -> str:
    """Return a text that fills at most so many columns, with an ellipsis if it was longer."""
    if columns_of(text) <= width:
        return text
    kept = text[: width - len(CUT)]
    while columns_of(kept) > width - len(CUT):
        kept = kept[:-1]
    return kept + CUT


@attrs.define
class Column:
    """A column of a table: its head, and the text and the style ("" for none) of each row."""

    head: str
    cells: list[str]
    styles: list[str]
    is_number: bool = False
    can_be_cut: bool = False

    @property
    def width(self) -> int:
        return max(map(columns_of, [self.head, *self.cells]))

    @property
    def is_constant(self) -> bool:
        """Whether it has one text in all rows. Numbers are data, even if all are equal."""
        return len(set(self.cells)) == 1 and (len(self.cells) == 1 or not self.is_number)

    def lines(self, paint: Paint) -> list[str]:
        """Return the head and the cells, padded to the width of the column."""
        width = self.width
        texts = zip([self.head, *self.cells], ["head", *self.styles], strict=True)
        return [self._padded(paint(text, style), width - columns_of(text)) for text, style in texts]

    def _padded(self, painted: str, padding: int) -> str:
        return " " * padding + painted if self.is_number else painted + " " * padding

    def cut(self, width: int) -> None:
        """Shorten the cells to a width."""
        self.cells = [cut(text, width) for text in self.cells]


def layout(columns: Sequence[Column], width: int | None, paint: Paint) -> list[str]:
    """Return the lines of a table; `width` is that of the terminal, None if there is none."""
    if width is None or _width(columns) <= width:
        return _rows(columns, paint)
    if not columns[0].cells:
        return []
    above = [one for one in columns if one.is_constant]
    lines = fields([(one.head.lower(), one.cells[0], one.styles[0]) for one in above], paint)
    rest = [one for one in columns if not one.is_constant]
    first = rest[0] if rest else None
    if first is None:
        return lines
    repeats = len(rest) > 1 and len(set(first.cells)) < len(first.cells)
    if not repeats:
        _cut(rest, width)
    fits_below = len(rest) > 2 and max(first.width, len(GAP) + _width(rest[1:])) <= width
    if first.is_number or _width(rest) <= width or not (repeats or fits_below):
        _cut(rest, width)
        return lines + _rows(rest, paint)
    _cut(rest[1:], width - len(GAP))
    head, *rows = _rows(rest[1:], paint)
    lines.append(GAP + head)
    for at, (heading, row) in enumerate(zip(first.cells, rows, strict=True)):
        if not at or heading != first.cells[at - 1]:
            lines.append(paint(heading, "head"))
        lines.append(GAP + row)
    return lines


def fields(items: Sequence[tuple[str, str, str]], paint: Paint) -> list[str]:
    """Return one line for each name, text and style."""
    width = max((len(name) for name, _, _ in items), default=0)
    return [f"{name:<{width}}{GAP}{paint(text, style)}" for name, text, style in items]


def _rows(columns: Sequence[Column], paint: Paint) -> list[str]:
    return [GAP.join(row).rstrip() for row in zip(*(one.lines(paint) for one in columns), strict=True)]


def _cut(columns: Sequence[Column], width: int) -> None:
    """Shorten the columns that can be cut, the widest first, until the table fits."""
    for column in sorted(columns, key=lambda one: one.width, reverse=True):
        excess = _width(columns) - width
        if column.can_be_cut and excess > 0:
            column.cut(max(column.width - excess, len(column.head), LEAST_WIDTH))


def _width(columns: Sequence[Column]) -> int:
    return sum(one.width for one in columns) + len(GAP) * (len(columns) - 1)
