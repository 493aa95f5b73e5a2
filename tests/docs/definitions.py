"""The form of the reference pages: a heading with an anchor per name, a line of facts, and sentences.

A heading needs no extension of Markdown, gives an anchor on the site and on a host of repositories, and is a
result of the site's search. option_pages.py and the other generators of pages share this form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

CODE_OR_LINK = re.compile(r"(`[^`]*`|\[[^\]]*\]\([^)]*\))")
IDENTIFIER = re.compile(
    r"(?<![\w.`-])(?:"
    r"[\w.]+\([\w, ]*\)"  # a call, such as send()
    r"|[a-zA-Z]+(?:_[a-zA-Z0-9]+)+"  # a name with an underscore
    r"|[a-z]\w*(?:\.[a-zA-Z]\w*)+(?:=\w+)?"  # a dotted name, also with a value
    r"|None|True|False"
    r")(?![\w`-])"
)
NOT_A_WORD = re.compile(r"_|[a-z][A-Z]")
QUOTED = re.compile(r"(?<!\w)'([^']*)'(?!\w)")
JSON = re.compile(r"\{.*\}")

NO_BREAK = "\u00a0"
"""Keeps a label on the line of a short text, and a separator behind its fact."""
SHORT = 30
"""Characters of a text that fits beside its label on a phone, where a longer one would be split."""

Facts = Iterable[tuple[str, str]]
"""Label and text; a fact without a text is left out."""


def definition(name: str, facts: Facts, *paragraphs: str) -> str:
    """Return the heading, which is the anchor, the line of facts, and the paragraphs that are not empty."""
    line = f"{NO_BREAK}· ".join(f"**{label}:**{_space_before(text)}{text}" for label, text in facts if text)
    return "\n\n".join(part for part in (f"### `{name}`", line, *paragraphs) if part) + "\n"


def _space_before(text: str) -> str:
    return NO_BREAK if len(text) <= SHORT else " "


def section(title: str, *parts: str) -> str:
    """Return a subject of the page."""
    return "\n".join([f"## {title}\n", *(part if part.endswith("\n") else f"{part}\n" for part in parts)])


def overview(subjects: Mapping[str, Iterable[str]]) -> str:
    """Return a list of links to all definitions by subject, for readers without the site's sidebar."""
    return "\n".join(
        f"- [{title}](#{anchor(title)}): " + " ".join(f"[`{name}`](#{anchor(name)})" for name in names)
        for title, names in subjects.items()
    )


def anchor(heading: str) -> str:
    """Return the anchor that Markdown's table of contents gives a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def linked(
    text: str, known: Iterable[str], own: str = "", elsewhere: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return the text with calls and names as code, and known names except `own` as links to their anchors.

    `elsewhere` has the page of names that another one defines. Links and other code in the text stay as
    they are, and so do known names that are ordinary words.
    """
    pages = {name: page for name, page in elsewhere.items() if NOT_A_WORD.search(name)}
    pages |= {name: "" for name in known if NOT_A_WORD.search(name)}
    longest_first = "|".join(map(re.escape, sorted(pages, key=len, reverse=True)))
    names = rf"\b(?:{longest_first})\b" if pages else r"(?!)"

    def marked(found: re.Match[str]) -> str:
        word = found[0].strip("`")
        is_link = word in pages and word != own
        return f"[`{word}`]({pages[word]}#{anchor(word)})" if is_link else f"`{word}`"

    text = re.sub(rf"(?<!\[)`{names}`", marked, text)
    return _outside_code(text, lambda part: re.sub(f"{IDENTIFIER.pattern}|{names}", marked, part))


def values(legal: str) -> str:
    """Return the valid values of an error message in Markdown: values as code."""
    shown = _outside_code(legal, lambda part: JSON.sub(lambda found: f"`{found[0]}`", part))
    return linked(_outside_code(shown, lambda part: QUOTED.sub(r"`\1`", part)), ())


def either(words: Iterable[str]) -> str:
    """Return alternatives in words: "string, object or callable"."""
    *others, last = dict.fromkeys(words)
    return f"{', '.join(others)} or {last}" if others else last


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; its cells can contain bars."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def check_entries(file: str, names: Iterable[str], entries: Iterable[str]) -> None:
    """Raise SystemExit unless each name has exactly one entry; `file` is the one with the entries."""
    wanted, found = sorted(names), sorted(entries)
    if wanted != found:
        faults = {
            "has no entry for": [name for name in wanted if name not in found],
            "has entries for unknown": [name for name in found if name not in wanted],
            "has two entries for": sorted({name for name in found if found.count(name) > 1}),
        }
        raise SystemExit(
            "; ".join(f"tests/docs/{file} {what} {', '.join(of)}" for what, of in faults.items() if of)
        )


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    parts = CODE_OR_LINK.split(text)
    return "".join(part if number % 2 else change(part) for number, part in enumerate(parts))
