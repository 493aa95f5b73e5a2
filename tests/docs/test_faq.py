"""The FAQ quotes messages that the library has, and names error classes that exist."""

from __future__ import annotations

import re
from pathlib import Path

from pykafka2 import errors
from pykafka2.errors import KafkaError

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "guides" / "faq.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^### `(.+)`$", TEXT, re.MULTILINE)
LINKED = set(re.findall(r"\[`(\w+)`\]\(\.\./reference/errors\.md#(\w+)\)", TEXT))
"""The error classes that entries link to, with the anchors."""
BETWEEN_LITERALS = re.compile(r"\"\s*f?\"")


def library() -> str:
    """Return the source of the clients; texts of several literals are joined."""
    paths = [path for path in (ROOT / "pykafka2").rglob("*.py") if "broker" not in path.parts]
    return "\n".join(BETWEEN_LITERALS.sub("", path.read_text(encoding="utf-8")) for path in sorted(paths))


def missing_from(source: str, messages: list[str]) -> list[str]:
    return [message for message in messages if message not in source]


def test_quoted_messages_are_in_the_library() -> None:
    assert len(QUOTED) > 25
    assert missing_from(library(), QUOTED) == []


def test_a_message_that_the_library_lacks_is_found() -> None:
    assert missing_from("a topic", ["topic", "tropic"]) == ["tropic"]


def test_linked_errors_exist() -> None:
    assert len(LINKED) > 25
    for name, anchor in LINKED:
        assert issubclass(getattr(errors, name), KafkaError)
        assert anchor == name.lower()


def test_the_list_of_errors_links_to_the_faq() -> None:
    assert "(../guides/faq.md)" in (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
