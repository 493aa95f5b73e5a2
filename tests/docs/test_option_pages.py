"""The site lists the options that there are, with their defaults, and those that are refused."""

from __future__ import annotations

import pytest

from pykafka2.producer.options import PRODUCER_OPTIONS
from pykafka2.producer.partitioning.partitioners import STRATEGIES
from tests.docs.option_pages import PAGES, REFERENCE, page


@pytest.mark.parametrize("name", PAGES)
def test_option_page_equals_the_option_table(name: str) -> None:
    on_disk = (REFERENCE / name).read_text(encoding="utf-8")
    assert on_disk == PAGES[name](), "write it anew: python -m tests.docs.option_pages"


def test_every_partitioner_is_listed() -> None:
    text = PAGES["producer-options.md"]()
    assert [name for name in STRATEGIES if f"| `{name}` |" not in text] == []


def test_options_without_a_test_are_named() -> None:
    shown_by = {option.name: ("file", "test") for option in PRODUCER_OPTIONS.options.values()}
    del shown_by["acks"], shown_by["linger_ms"]
    with pytest.raises(SystemExit, match="no row for acks, linger_ms; add the test"):
        page("", PRODUCER_OPTIONS, shown_by, "")
