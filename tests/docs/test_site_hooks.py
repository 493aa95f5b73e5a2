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
