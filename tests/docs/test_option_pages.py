"""The reference pages equal the tables of the code, and each name on them is a definition with an anchor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from pykafka2.option_fields import Option
from pykafka2.producer.options import PRODUCER_OPTIONS, ProducerConfig
from pykafka2.producer.partitioning.partitioners import STRATEGIES
from tests.docs.definitions import NO_BREAK, anchor, linked, values
from tests.docs.option_pages import PAGES, REFERENCE, default_of, page
from tests.docs.option_subjects import ADMIN, CONSUMER, HIGH, IMPORTANCE, LOW, PRODUCER, Advice

HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([\w-]+\.md)?#([^)]+)\)")


@cache
def made(name: str) -> str:
    return PAGES[name]()


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def definitions(name: str) -> Iterator[tuple[str, str]]:
    """The headings of a page's definitions, each with the text below."""
    _, *parts = re.split(r"^### ", without_code(made(name)), flags=re.MULTILINE)
    for part in parts:
        heading, _, text = part.partition("\n")
        yield heading, re.split(r"^## ", text, flags=re.MULTILINE)[0].replace(NO_BREAK, " ")


@pytest.mark.parametrize("name", PAGES)
def test_reference_page_equals_the_tables(name: str) -> None:
    on_disk = (REFERENCE / name).read_text(encoding="utf-8")
    assert on_disk == made(name), "write it again: python -m tests.docs.option_pages"


@pytest.mark.parametrize("name", PAGES)
def test_anchors_of_a_page_are_unique(name: str) -> None:
    anchors = [anchor(heading) for _, heading in HEADING.findall(without_code(made(name)))]
    assert sorted(anchors) == sorted({*anchors})


@pytest.mark.parametrize("name", PAGES)
def test_links_between_reference_pages_lead_to_anchors(name: str) -> None:
    for target, wanted in LINK.findall(made(name)):
        if not target or target in PAGES:
            headings = HEADING.findall(without_code(made(target or name)))
            assert wanted in {anchor(heading) for _, heading in headings}, (target, wanted)


@pytest.mark.parametrize("name", PAGES)
def test_definition_has_a_name_facts_and_sentences(name: str) -> None:
    found = list(definitions(name))
    assert len(found) > 5
    for heading, text in found:
        assert re.fullmatch(r"`[\w.-]+`", heading)
        assert re.search(r"[\w)`']\.$", text.strip()), heading
        assert "**" in text, heading


@pytest.mark.parametrize("name", PAGES)
def test_page_names_no_test(name: str) -> None:
    assert "tests/" not in made(name)


@pytest.mark.parametrize("name", ["producer-options.md", "consumer-options.md", "admin-options.md"])
def test_options_of_a_subject_are_in_the_order_of_importance(name: str) -> None:
    for section in re.split(r"^## ", made(name), flags=re.MULTILINE):
        found = [IMPORTANCE.index(word) for word in re.findall(r"\*\*Importance:\*\*\s(\w+)", section)]
        assert found == sorted(found)


def test_option_shows_type_default_range_importance_and_kafkas_name() -> None:
    of_producer, of_consumer = (
        dict(definitions("producer-options.md")),
        dict(definitions("consumer-options.md")),
    )
    assert (
        of_producer["`linger_ms`"]
        .strip()
        .startswith(
            "**Type:** milliseconds · **Default:** `5` · **Valid:** at least 0 · **Importance:** medium · "
            "**Kafka:** `linger.ms`\n\nHow long a batch waits"
        )
    )
    assert (
        of_consumer["`isolation_level`"]
        .strip()
        .startswith(
            "**Type:** string or IsolationLevel · **Default:** `'read_uncommitted'` · **Valid:** one of "
        )
    )
    assert "**Kafka:** `ssl.key.password`" in of_producer["`ssl_password`"]
    assert "**Kafka:** not there; from librdkafka" in of_consumer["`enable_auto_offset_store`"]


def test_every_partitioner_is_listed() -> None:
    assert [name for name in STRATEGIES if f"| `{name}` |" not in made("producer-options.md")] == []


def test_options_without_an_entry_are_named() -> None:
    fewer = {
        title: {name: one for name, one in subject.items() if name not in ("acks", "linger_ms")}
        for title, subject in PRODUCER.items()
    }
    with pytest.raises(SystemExit, match=r"option_subjects\.py has no entry for acks, linger_ms"):
        page("", PRODUCER_OPTIONS, ProducerConfig, fewer, "")


def test_entries_without_an_option_and_second_entries_are_named() -> None:
    more = {**PRODUCER, "More": {"linger": Advice(LOW, ""), "acks": Advice(HIGH, "")}}
    wanted = "has entries for unknown linger; .* has two entries for acks"
    with pytest.raises(SystemExit, match=wanted):
        page("", PRODUCER_OPTIONS, ProducerConfig, more, "")


@pytest.mark.parametrize("subjects", [PRODUCER, CONSUMER, ADMIN])
def test_advice_ends_with_a_full_stop(subjects: dict[str, dict[str, Advice]]) -> None:
    assert [n for subject in subjects.values() for n, one in subject.items() if one.text[-1] != "."] == []


@pytest.mark.parametrize(
    ("name", "default", "shown"),
    [
        ("delivery_timeout_ms", 120_000, "`120000` (2 minutes)"),
        ("session_timeout_ms", 45_000, "`45000` (45 seconds)"),
        ("linger_ms", 5, "`5`"),
        ("batch_size", 16_384, "`16384` (16 KiB)"),
        ("fetch_min_bytes", 1, "`1`"),
        ("client_rack", "", "`''`"),
    ],
)
def test_default_has_a_readable_unit(name: str, default: object, shown: str) -> None:
    assert default_of(Option(name, str, "", "", default)) == shown


def test_names_and_calls_become_code_and_known_names_links() -> None:
    text = (
        "send() waits for max_block_ms, `max_block_ms` and [`max_block_ms`](x); retries and linger_ms stay."
    )
    assert linked(text, ["max_block_ms", "linger_ms", "retries"], "linger_ms") == (
        "`send()` waits for [`max_block_ms`](#max_block_ms), [`max_block_ms`](#max_block_ms) and "
        "[`max_block_ms`](x); retries and `linger_ms` stay."
    )


def test_names_of_another_page_become_links_to_it() -> None:
    text = "raise linger_ms or `acks`"
    assert (
        linked(text, (), "", {"linger_ms": "a.md", "acks": "a.md"})
        == "raise [`linger_ms`](a.md#linger_ms) or `acks`"
    )


def test_valid_values_become_code() -> None:
    assert values("'host:port', or a list of them") == "`host:port`, or a list of them"
    assert values('JSON such as {"a": {"0": 1}}, or True') == 'JSON such as `{"a": {"0": 1}}`, or `True`'
