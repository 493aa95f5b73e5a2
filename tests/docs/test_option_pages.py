"""The reference pages equal the tables of the code, and each name on them is a definition with an anchor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

from pykafka2.aio import aiokafka_options
from pykafka2.broker.faults.rule import Action
from pykafka2.consumer.options import CONSUMER_OPTIONS, GROUPS_ONLY, OF_CLASSIC_GROUPS
from pykafka2.errors import NotLeaderOrFollower
from pykafka2.option_fields import Option, integer
from pykafka2.options import OptionTable
from pykafka2.producer.options import PRODUCER_OPTIONS, ProducerConfig
from pykafka2.producer.partitioning.key_hashes import crc32, fnv1a, positive_murmur2
from pykafka2.producer.partitioning.partitioners import STRATEGIES
from pykafka2.testing import KafkaCluster
from pykafka2.text import counted
from tests.docs.definitions import NO_BREAK, anchor, linked, table, values
from tests.docs.option_pages import PAGES, REFERENCE, default_of, page
from tests.docs.option_subjects import ADMIN, CONSUMER, HIGH, IMPORTANCE, LOW, PRODUCER, Advice, with_declared

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


@cache
def anchors_of(name: str) -> list[str]:
    return [anchor(heading) for _, heading in HEADING.findall(without_code(made(name)))]


@pytest.mark.parametrize("name", PAGES)
def test_anchors_of_a_page_are_unique(name: str) -> None:
    anchors = anchors_of(name)
    assert sorted(anchors) == sorted({*anchors})


@pytest.mark.parametrize("name", PAGES)
def test_links_between_reference_pages_lead_to_anchors(name: str) -> None:
    for target, wanted in LINK.findall(made(name)):
        if not target or target in PAGES:
            assert wanted in anchors_of(target or name), (target, wanted)


@pytest.mark.parametrize("name", [name for name in PAGES if name != "metrics.md"])
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


def test_partitioners_hash_keys_as_documented() -> None:
    hashes = {"CRC32": crc32, "FNV-1a": fnv1a, "murmur2": positive_murmur2}
    of_key, checked = "", 0
    rows = re.findall(r"^\| (not set|`\w+`) \| ([^|]+) \|", made("producer-options.md"), re.MULTILINE)
    for name, keyed in rows:
        of_key = of_key if keyed == "the same" else keyed.split(" of the key")[0]
        if name != "not set" and of_key in hashes:
            found = STRATEGIES[name.strip("`")](Random(0)).hashes
            assert found[b"customer-7"] == hashes[of_key](b"customer-7"), name
            checked += 1
    assert checked == 7


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


def test_page_shows_kinds_sizes_and_other_names_of_options() -> None:
    of_producer = dict(definitions("producer-options.md"))
    assert "`33554432` (32 MiB)" in of_producer["`buffer_memory`"]
    assert "**Type:** boolean" in of_producer["`enable_idempotence`"]
    assert "**Also:** `ssl_ca_location`" in of_producer["`ssl_cafile`"]
    assert "**Kafka:**" not in of_producer["`acks`"]


@pytest.mark.parametrize(
    ("name", "table"), [("producer-options.md", PRODUCER_OPTIONS), ("consumer-options.md", CONSUMER_OPTIONS)]
)
def test_page_has_each_option_that_is_refused_or_ignored(name: str, table: OptionTable[object]) -> None:
    unsupported, _, ignored = made(name).partition("## Not supported")[2].partition("## Ignored")
    assert [one for one in table.refused if f"`{one}`" not in unsupported] == []
    assert [one for one in table.ignored if f"| `{one}` |" not in ignored] == []


def test_page_lists_options_of_groups_and_of_asyncio() -> None:
    groups, _, rest = (
        made("consumer-options.md").partition("## Only with a group")[2].partition("With `group_")
    )
    classic, _, asyncio = rest.partition("## With asyncio")
    for shown, fields in ((groups, GROUPS_ONLY), (classic, OF_CLASSIC_GROUPS)):
        wanted = {CONSUMER_OPTIONS.options[field].name for field in fields}
        assert set(re.findall(r"\[`(\w+)`\]", shown)) == wanted
    assert [
        one for one in aiokafka_options.IGNORED if f"`{one}` is ignored with a warning" not in asyncio
    ] == []
    of_producer = made("producer-options.md")
    for old, new in aiokafka_options.RENAMED.items():
        assert (f"aiokafka's `{old}` sets `{new}`." in of_producer) is (new in PRODUCER_OPTIONS.fields)


@pytest.mark.gate
def test_errors_show_code_retries_bases_and_messages() -> None:
    found = dict(definitions("errors.md"))
    assert (
        found["`ProducerFenced`"]
        .strip()
        .startswith("**Code:** 90 · **Kafka:** `PRODUCER_FENCED` · **Fatal:** yes")
    )
    timeout = found["`DeliveryTimeout`"]
    assert "**Retried:**" not in timeout
    assert "`TimeoutError`, `OSError`" in timeout
    assert "(../guides/faq.md#it-may-or-may-not-be-in-the-log)" in timeout
    assert "**Retried:** yes" in found["`UnknownTopicOrPartition`"]
    for name in ("ClientClosed", "KafkaTimeoutError"):
        assert "**Code:**" not in found[f"`{name}`"]


def test_options_of_spark_show_whether_batches_or_streams_have_them() -> None:
    found = dict(definitions("spark-options.md"))
    assert "**For:** batches only" in found["`endingOffsets`"]
    assert "**For:** streams only" in found["`maxOffsetsPerTrigger`"]
    assert "**For:**" not in found["`startingOffsetsByTimestamp`"]
    refused = made("spark-options.md")
    assert "| `kafka.key.serializer` (sink) |" in refused
    assert "| `kafka.key.deserializer` (source) |" in refused


def test_overview_links_to_every_definition_of_the_page() -> None:
    for name in ("producer-options.md", "consumer-options.md", "spark-options.md", "fault-rules.md"):
        overview = made(name).partition("\n## ")[0]
        missing = [one for one, _ in definitions(name) if f"[{one}](#" not in overview]
        assert missing == [], name


def test_bars_in_cells_are_escaped() -> None:
    assert table(("a", "b"), [("x|y", "z")]).splitlines()[2] == "| x\\|y | z |"


@pytest.mark.parametrize("number", [3_600_000, 7_200_000])
def test_default_of_hours(number: int) -> None:
    hours = counted(number // 3_600_000, "hour")
    assert default_of(Option("reauthenticate_ms", str, "", "", number)) == f"`{number}` ({hours})"


def test_fault_rules_show_whether_the_request_is_processed() -> None:
    found = dict(definitions("fault-rules.md"))
    for action, processed in {
        Action.ERROR: "no",
        Action.SWALLOW: "no",
        Action.LOSE_REPLY: "yes",
        Action.HALF_FRAME: "yes",
        Action.CLOSE_BEFORE: "no",
        Action.CLOSE_AFTER: "yes",
        Action.REPLACE_REPLY: "yes",
    }.items():
        assert f"**Processed:** {processed}" in found[f"`{action.value}`"], action


def test_shortcuts_of_fault_rules_match_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)\(.*\)` \| (.+) \|$", made("fault-rules.md"), re.MULTILINE)
    arguments = {"fail_next": (NotLeaderOrFollower,), "delay": (1.0,)}
    assert len(rows) == 5
    with KafkaCluster(brokers=1) as cluster:
        for call, same in rows:
            rule = getattr(cluster.controls, call)("Produce", *arguments.get(call, ()))
            action = re.findall(r'`then="(\w+)', same)
            assert [rule.then.partition(":")[0]] == action, call
            assert ("`reset=True`" in same) is (call == "disconnect_next")
            assert ("`times=1`" in same) is (rule.times == 1), call
        assert cluster.controls.rule(api="Produce", nth=2, then="hold").times == 1
        assert (
            "**Default:** 1 with `nth`, otherwise no limit" in dict(definitions("fault-rules.md"))["`times`"]
        )


class Declared:
    size: int = integer("size", 1, "The size.")
    """Batches, low, from librdkafka: Raise it for more."""


class DeclaredInAnotherForm:
    size: int = integer("size", 1, "The size.")
    """Raise it for more."""


def test_advice_below_a_field_belongs_to_its_subject() -> None:
    assert with_declared({"Batches": {}}, Declared) == {
        "Batches": {"size": Advice(LOW, "Raise it for more.", "librdkafka")}
    }
    with pytest.raises(SystemExit, match="below size as 'SUBJECT, IMPORTANCE: when to change it'"):
        with_declared({"Batches": {}}, DeclaredInAnotherForm)
    with pytest.raises(SystemExit, match="a subject is one of Group"):
        with_declared({"Group": {}}, Declared)
