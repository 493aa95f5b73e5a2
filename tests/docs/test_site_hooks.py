"""The hooks of the site: its start page, and names that stay on one line."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
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


SHOWN = {"index.md", "security.md", "guides/a.md", "guides/b.md", "images/c.svg"}
EXCLUDED = {"guides/draft.md"}


def turned(hooks: dict[str, Any], page: str, link: str) -> str:
    """Return a link of a page as the hook writes it; the address of the repository is unknown."""
    levels = {True: hooks["InclusionLevel"].INCLUDED, False: hooks["InclusionLevel"].EXCLUDED}

    def found(path: str) -> object:
        return SimpleNamespace(inclusion=levels[path in SHOWN]) if path in SHOWN | EXCLUDED else None

    hooks["ADDRESSES"].update(repository="", site="")
    files = SimpleNamespace(get_file_from_path=found)
    shown: str = hooks["on_page_markdown"](
        link, SimpleNamespace(file=SimpleNamespace(src_uri=page)), None, files
    )
    return shown


@pytest.mark.gate
@pytest.mark.parametrize(
    ("page", "link", "shown"),
    [
        ("guides/a.md", "[b](b.md#part)", "[b](b.md#part)"),
        ("guides/a.md", "[s](../../SECURITY.md#scope)", "[s](../security.md#scope)"),
        ("guides/a.md", "[home](../../README.md)", "[home](../index.md)"),
        ("security.md", "[b](docs/guides/b.md#part)", "[b](guides/b.md#part)"),
        ("security.md", "![c](docs/images/c.svg)", "![c](images/c.svg)"),
        ("guides/a.md", "[draft](draft.md)", "[draft](draft.md)"),
        ("guides/a.md", "[no page](gone.md)", "[no page](gone.md)"),
        ("guides/a.md", "[x](https://example.org/a.md)", "[x](https://example.org/a.md)"),
        ("guides/a.md", "[LICENSE](../../LICENSE)", "`LICENSE`"),
        ("guides/a.md", "[the project](../../pyproject.toml)", "the project (`pyproject.toml`)"),
    ],
)
def test_links_lead_to_pages_of_the_site_or_become_paths(
    hooks: dict[str, Any], page: str, link: str, shown: str
) -> None:
    assert turned(hooks, page, link) == shown


def test_excluded_page_is_no_target_of_links(hooks: dict[str, Any]) -> None:
    assert turned(hooks, "security.md", "[draft](docs/guides/draft.md)") == "[draft](docs/guides/draft.md)"


def test_pages_of_the_root_are_all_its_markdown_files(hooks: dict[str, Any]) -> None:
    assert set(hooks["ROOT_PAGES"]) == {path.name for path in ROOT.glob("*.md")}
