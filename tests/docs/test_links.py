"""Links to other sites are well formed; the test marked `long` requests each of them.

`test_site.py` follows the links and anchors within the site.
"""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((\w+:[^)]*)\)|<(\w+://[^>]*)>|(?<![\w(<\"'])(https?://[^\s)>\]]+)")


def external_links(text: str) -> set[str]:
    """Return the addresses that a page links to or shows as text, outside code."""
    found = LINK.findall(CODE.sub("", text))
    return {one for groups in found for one in groups if one and not one.startswith("mailto:")}


def malformed(links: Iterable[str]) -> list[str]:
    """Return the links that are not https, lack a full host name, contain a space or end in punctuation."""
    return [
        link
        for link in links
        if not re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(/\S*)?", link) or link.endswith((".", ",", ";"))
    ]


def failing(links: Iterable[str], timeout: float = 30.0) -> list[str]:
    """Request each link; return those that fail, with the reason."""
    problems = []
    for link in links:
        request = urllib.request.Request(link, headers={"User-Agent": "pykafka2-docs"})
        try:
            with urllib.request.urlopen(request, timeout=timeout):
                pass
        except urllib.error.URLError as error:
            problems.append(f"{link}: {error}")
    return problems


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_external_links_are_well_formed(document: Path) -> None:
    assert malformed(sorted(external_links(document.read_text(encoding="utf-8")))) == []


@pytest.mark.gate
@pytest.mark.long
def test_external_links_respond() -> None:
    links = {link for document in DOCUMENTS for link in external_links(document.read_text(encoding="utf-8"))}
    assert failing(sorted(links)) == []


def test_links_in_code_are_no_links() -> None:
    text = (
        "[a](https://a.org/x) <https://b.org> `https://c` see https://d.org/y\n```\nhttps://e\n```\n[f](g.md)"
    )
    assert external_links(text) == {"https://a.org/x", "https://b.org", "https://d.org/y"}


def test_malformed_links_are_found() -> None:
    good = ["https://kafka.apache.org/documentation/#design", "https://docs.astral.sh"]
    bad = ["http://kafka.apache.org", "https://localhost/x", "https://a.org/b c", "https://a.org/b."]
    assert malformed([*good, *bad]) == bad


def test_links_that_fail_are_found() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/good" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        found = failing([f"{address}/good", f"{address}/gone"])
        server.shutdown()
        thread.join()
    assert found == [f"{address}/gone: HTTP Error 404: Not Found"]
