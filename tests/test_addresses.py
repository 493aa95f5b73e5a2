"""Bootstrap addresses: what is accepted, and how the rest is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.addresses import BadAddress, parse_addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", (("localhost", 9092),)),
        ("a:1,b:2", (("a", 1), ("b", 2))),
        (" a:1 , b:2 ,", (("a", 1), ("b", 2))),
        (["a:1", "b:2"], (("a", 1), ("b", 2))),
        (["a:1,b:2", "c:3"], (("a", 1), ("b", 2), ("c", 3))),
        ("kafka", (("kafka", 9092),)),
        ("[::1]:9093", (("::1", 9093),)),
        ("[fe80::1%eth0]", (("fe80::1%eth0", 9092),)),
        ("a:1,b:2,a:1", (("a", 1), ("b", 2))),
        (["a:1", "a:1"], (("a", 1),)),
        ([("a", 1)], (("a", 1),)),
        ((("::1", 1), "b"), (("::1", 1), ("b", 9092))),
        ("[::1]:99,[fe80::1]", (("::1", 99), ("fe80::1", 9092))),
        ("PLAINTEXT://a:1", (("a", 1),)),
    ],
)
def test_addresses_are_read_in_every_usual_form(text: object, expected: tuple[tuple[str, int], ...]) -> None:
    assert parse_addresses(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ([], "it is empty"),
        (" , ", "it is empty"),
        ("host:", "'host:' has no port between 1 and 65535"),
        ("host:http", "has no port"),
        ("host:0", "has no port"),
        ("host:65536", "has no port"),
        ("host:-1", "has no port"),
        ("host:٣", "has no port"),
        ("a:1,:9092", "':9092' has no legal host"),
        ("ho st:9092", "has no legal host"),
        ("user@host:9092", "has a user"),
        ("host/path:9092", "has no legal host"),
        ("host]:9092", "has no legal host"),
        ("::1:9092", r"in brackets, like \[::1\]:9092"),
        ("::1", r"in brackets"),
        ("[::1:9092", r"like \[::1\]:9092"),
        ("[::1]9092", r"like \[::1\]:9092"),
        ("[host]:9092", "only for IPv6 addresses"),
        ("http://host:9092", "is a URL; write host:port"),
        ([9092], "9092 is not an address"),
        ([("a", "1")], "is not an address"),
        ([("a", True)], "is not an address"),
        (9092, "neither a str nor a list"),
    ],
)
def test_bad_addresses_are_refused_by_name(text: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_addresses(text)


@pytest.mark.gate
@given(
    st.lists(
        st.tuples(
            st.one_of(st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True), st.just("::1")),
            st.integers(1, 65535),
        ),
        min_size=1,
        max_size=5,
        unique=True,
    )
)
def test_formatted_addresses_parse_to_the_same_addresses(addresses: list[tuple[str, int]]) -> None:
    text = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)
    assert parse_addresses(text) == parse_addresses(addresses) == tuple(addresses)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        addresses = parse_addresses(text)
    except BadAddress:
        return
    assert addresses
    assert all(host and 0 < port < 65536 for host, port in addresses)
