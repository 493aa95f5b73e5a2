"""Client-chosen names in logs and timelines: without line ends, terminal commands and 32 KiB of text."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from pykafka2.protocol.messages.group import HeartbeatRequest
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster
from pykafka2.text import MOST_CHARACTERS, shown
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import raw_frame

ODD = {
    "a line end": "a\nbroker 0 stopped",
    "a terminal's commands": "\x1b[2J\x1b]0;owned\x07",
    "NUL": "a\0b",
    "right to left": "a‮txt.exe",
    "a line separator": "a\u2028b",
    "a path": "../../etc/passwd",
    "32,767 characters": "x" * 32_767,
    "10,000 emojis": "\U0001f600" * 8_000,
}


@pytest.mark.parametrize("name", ODD)
def test_shown_name_is_printable_and_short(name: str) -> None:
    text = shown(ODD[name])
    assert text.isprintable()
    assert len(text) <= MOST_CHARACTERS + 30
    assert shown("orders-1") == "orders-1"
    assert shown(r"a\n") == r"a\n"  # printable characters stay


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER}
    with KafkaCluster(1, config=config) as cluster:
        yield cluster


@pytest.mark.parametrize("name", ODD)
def test_timeline_with_odd_client_names_is_printable(
    cluster: KafkaCluster, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """The name is a client id, a topic, a group and a resource with denied access."""
    caplog.set_level(logging.DEBUG)
    cluster.forget()
    odd = ODD[name]
    with RawClient(cluster.bootstrap_servers, odd) as wire:
        wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=odd)]), 12)
        assert wire.call(HeartbeatRequest(group_id=odd, generation_id=1, member_id=odd), 4).error_code
        wire.socket.sendall(raw_frame(b"\x03\xe7\0\0\0\0\0\1\xff\xff"))  # no such API
        assert wire.is_closed_by_broker()
    assert len(cluster.acls.denials()) == 2
    (refused,) = cluster.events.events("refused")
    assert refused.text.isprintable()
    lines = cluster.timeline().text().splitlines()
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) < 4 * MOST_CHARACTERS
    assert all(record.getMessage().isprintable() for record in caplog.records)
    assert all(str(entry).isprintable() for entry in cluster.history)
    cluster.check()
