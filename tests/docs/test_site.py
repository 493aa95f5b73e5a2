"""The site builds without a warning, its links lead somewhere, and no page is cut on a laptop or a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.site_checks import broken_links, browser, build, layout_problems

LINE = "x" * 76
PAGE = (
    "<!doctype html><style>code{display:block;overflow:%s}main{width:%s;margin:auto}</style><main>%s</main>"
)


def written(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.longest
def test_site_builds_and_its_pages_fit_laptop_and_phone(tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert build(site) == ""
    problems = broken_links(site)
    chromium = browser()
    if chromium is not None:
        problems += layout_problems(site, chromium, tmp_path / "profile")
    assert not problems, "\n".join(problems)
    if chromium is None:
        pytest.skip("Chromium is not installed, so the layout was not measured")


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.skipif(browser() is None, reason="Chromium is not installed")
def test_cut_code_and_wide_pages_are_found(tmp_path: Path) -> None:
    block = f"<pre><code>{LINE}</code></pre>"
    site = tmp_path / "site"
    site.mkdir()
    written(
        site,
        fits=PAGE % ("auto", "100%", block),
        cut=PAGE % ("hidden", "300px", block),
        wide=PAGE % ("auto", "100%", '<p style="width: 500px">text</p>'),
    )
    found = layout_problems(site, browser() or "", tmp_path / "profile")
    assert [one.partition(" (")[0] for one in found] == [
        "/cut.html at 1400 px: code is cut",
        f"/cut.html at 400 px: code is cut without a scroll bar: {LINE}",
        "/wide.html at 400 px: the page is cut",
    ]


def test_broken_links_are_found(tmp_path: Path) -> None:
    written(
        tmp_path,
        index='<h1 id="top">a</h1><a href="other.html#here"></a><a href="#top"></a><a href="https://example.org"></a>',
        other='<p id="here"></p><a href="index.html#gone"></a><a href="./missing/"></a><img src="no.svg">'
        '<script src="https://cdn.example.org/x.js"></script>',
    )
    assert broken_links(tmp_path) == [
        "other.html loads https://cdn.example.org/x.js",
        "other.html: no anchor index.html#gone",
        "other.html: no page ./missing/",
        "other.html: no page no.svg",
    ]
