"""Hooks of MkDocs: pages that stand in the repository's root, and links that leave the site.

README, CHANGELOG, CONTRIBUTING and SECURITY are written once, for the repository, and shown here as pages.
Links are turned to where the page is on the site; a link to a file that is not part of the site (tests,
the licence) leads to the repository, or becomes the file's path if the repository's address is unknown.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""Files of the repository's root, and the pages of the site that show them."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ADDRESSES: dict[str, str] = {
    name: address.rstrip("/") for name, address in PROJECT["tool"]["pykafka2"].items()
}
"""The addresses of the repository and the site; empty while unknown."""
NEXT_STEPS = """
[Five-minute tutorial](guides/start.md){ .md-button .md-button--primary }
[Test your code](guides/testing.md){ .md-button }
[Why pykafka2](guides/why.md){ .md-button }
"""
"""What the start page of the site shows below its first paragraph."""
INLINE_CODE = re.compile(r"<code>[^<]*</code>")
HYPHENATED = re.compile(r"(?<![^\s>])(?=[^\s<>]{2,30}(?:[\s<]))[^\s<>]*-[^\s<>]*")
"""Words with a hyphen that fit on a line of a phone."""
TEXT = re.compile(r"(?<=>)[^<>]+(?=<)")
NAMES = re.compile(r"\b(\d{4}-\d\d-\d\d|confluent-kafka|kafka-python|KIP-\d+)\b")
"""Dates and names that stay on one line also in text: the columns of tables are narrow."""
WORD = r'<span class="word">\g<0></span>'
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Set the addresses of the site and the repository."""
    if ADDRESSES["site"]:
        config.site_url = f"{ADDRESSES['site']}/"
    if ADDRESSES["repository"]:
        config.repo_url = ADDRESSES["repository"]
        config.repo_name = "/".join(ADDRESSES["repository"].split("/")[-2:])
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the repository's root."""
    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links between files of the repository, images included, into links between pages."""
    place = PurePosixPath(page.file.src_uri)
    in_repository = {shown: source for source, shown in ROOT_PAGES.items()}.get(str(place), f"docs/{place}")

    def turned(link: re.Match[str]) -> str:
        target, anchor = link["target"], link["anchor"] or ""
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        wanted = normpath(str(PurePosixPath(in_repository).parent / target))
        shown = ROOT_PAGES.get(wanted, wanted.removeprefix("docs/"))
        if _is_shown(files, normpath(str(place.parent / target))):
            return link[0]  # pages know each other by their place on the site already
        if _is_shown(files, shown):
            return f"{link['image']}[{link['text']}]({relpath(shown, str(place.parent))}{anchor})"
        if not (ROOT / wanted).exists():
            return link[0]  # MkDocs will say that it leads nowhere
        if ADDRESSES["repository"]:
            return f"[{link['text']}]({ADDRESSES['repository']}/blob/HEAD/{wanted}{anchor})"
        return f"{link['text']} (`{wanted}`)" if link["text"] != wanted else f"`{wanted}`"

    turned_links = LINK.sub(turned, markdown)
    return _start_page(turned_links) if place.name == "index.md" else turned_links


def on_page_content(html: str, **_: Any) -> str:
    """Keep words such as `--key-separator` and dates on one line; browsers break them at hyphens.

    The name of a test can go to the line after its file.
    """
    code = INLINE_CODE.sub(lambda one: HYPHENATED.sub(WORD, one[0]).replace(".py::", ".py::<wbr>"), html)
    return TEXT.sub(lambda text: NAMES.sub(WORD, text[0]), code)


def _start_page(readme: str) -> str:
    """Add the next steps, and leave out the list of pages: the site has tabs for it."""
    title, claim, rest = readme.split("\n\n", 2)
    rest = rest.partition("\n## Documentation\n")[0]
    return f"{title}\n\n{claim}\n{NEXT_STEPS}\n{rest}"


def _is_shown(files: Files, page: str) -> bool:
    found = files.get_file_from_path(page)
    return found is not None and found.inclusion is not InclusionLevel.EXCLUDED
