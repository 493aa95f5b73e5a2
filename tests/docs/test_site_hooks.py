"""The hooks of the site: its start page, and names that stay on one line."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hooks() -> dict[str, Any]:
    pytest.importorskip("mkdocs")
    return runpy.run_path(str(ROOT / "docs" / "site_hooks.py"))


def test_start_page_has_title_claim_and_next_steps_and_no_list_of_pages(hooks: dict[str, Any]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\n## Documentation\n" in readme
    page = hooks["_start_page"](readme)
    title, claim, steps = page.split("\n\n")[:3]
    assert title == "# pykafka2"
    assert claim == readme.split("\n\n")[1]
    assert steps.count(".md-button") == 4
    assert "## Documentation" not in page
    assert "## Install" in page


def test_hyphenated_words_of_inline_code_stay_on_one_line(hooks: dict[str, Any]) -> None:
    shown = hooks["on_page_content"](
        "a-b <code>acks --key-separator x</code><code>" + "long-" * 7 + "</code>"
    )
    assert shown == (
        'a-b <code>acks <span class="word">--key-separator</span> x</code><code>' + "long-" * 7 + "</code>"
    )


def test_dates_and_names_in_tables_stay_on_one_line(hooks: dict[str, Any]) -> None:
    shown = hooks["on_page_content"]('<td>2026-11-23, KIP-848</td><a href="#2026-11-23">pre-KIP-8482x</a>')
    word = '<span class="word">%s</span>'
    assert shown == (
        f"<td>{word % '2026-11-23'}, {word % 'KIP-848'}</td>" + '<a href="#2026-11-23">pre-KIP-8482x</a>'
    )


def test_name_of_a_test_can_go_to_the_line_after_its_file(hooks: dict[str, Any]) -> None:
    assert hooks["on_page_content"]("<code>test_a.py::test_b</code>") == "<code>test_a.py::<wbr>test_b</code>"
