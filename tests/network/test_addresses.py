"""Bootstrap addresses: what is accepted, and how the rest is refused."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.errors import ConfigurationError, NoBrokersAvailable
from pykafka2.network.addresses import format_addresses, parse_addresses, resolve
from pykafka2.network.transport import Endpoint


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
    ],
)
def test_addresses_are_read(text: str | list[str], expected: tuple[tuple[str, int], ...]) -> None:
    assert parse_addresses(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no address"),
        ([], "no address"),
        (" , ", "no address"),
        ("host:", "port must be a number"),
        ("host:http", "port must be a number"),
        ("host:0", "from 1 to 65535"),
        ("host:65536", "from 1 to 65535"),
        ("host:-1", "from 1 to 65535"),
        ("host:٣", "port must be a number"),
        (":9092", "host is missing"),
        ("ho st:9092", "not legal"),
        ("user@host:9092", "not legal"),
        ("host/path:9092", "not legal"),
        ("::1:9092", r"in brackets"),
        ("::1", r"in brackets"),
        ("[::1:9092", r"\[::1\]:9092"),
        ("[::1]9092", r"\[::1\]:9092"),
        ("[host]:9092", "IPv6 addresses only"),
        ("PLAINTEXT://host:9092", "without a scheme"),
        ([9092], "is no address"),
    ],
)
def test_bad_addresses_are_refused_by_name(text: object, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"bootstrap_servers: .*{why}"):
        parse_addresses(text)  # type: ignore[arg-type]


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
def test_what_is_formatted_is_read_back(addresses: list[tuple[str, int]]) -> None:
    assert parse_addresses(format_addresses(addresses)) == tuple(addresses)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        addresses = parse_addresses(text)
    except ConfigurationError:
        return
    assert addresses
    assert all(host and 0 < port < 65536 for host, port in addresses)


def test_an_ip_address_resolves_to_itself() -> None:
    assert resolve("127.0.0.1", 9092) == [Endpoint("127.0.0.1", 9092)]
    assert resolve("::1", 9092) == [Endpoint("::1", 9092, is_ipv6=True)]


def test_a_canonical_name_is_the_one_its_address_is_registered_under() -> None:
    (endpoint,) = resolve("127.0.0.1", 9092, canonical=True)
    assert endpoint == Endpoint("127.0.0.1", 9092, name=socket.getnameinfo(("127.0.0.1", 9092), 0)[0])


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70, "bad..name"])
def test_a_name_that_cannot_be_resolved_is_named(host: str) -> None:
    with pytest.raises(NoBrokersAvailable, match=host):
        resolve(host, 9092)
