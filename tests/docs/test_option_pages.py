"""The site lists the options that there are, with their defaults, and those that are refused."""

from __future__ import annotations

import pytest

from pykafka2.producer.partitioning.partitioners import STRATEGIES
from tests.docs.option_pages import PAGES, REFERENCE


@pytest.mark.parametrize("name", PAGES)
def test_option_page_equals_the_option_table(name: str) -> None:
    on_disk = (REFERENCE / name).read_text(encoding="utf-8")
    assert on_disk == PAGES[name](), "write it anew: python -m tests.docs.option_pages"


def test_every_partitioner_is_listed() -> None:
    text = PAGES["producer-options.md"]()
    assert [name for name in STRATEGIES if f"| `{name}` |" not in text] == []
