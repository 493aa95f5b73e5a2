"""The kombu transport without a cluster: URLs, options, and the names of topics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("kombu")

import kombu

import pykafka2.contrib.kombu
from pykafka2.contrib.kombu import Transport, channel, transients
from pykafka2.contrib.kombu.cluster import Settings, acquire, queue_name, release, topic_name
from pykafka2.contrib.kombu.readers import Broadcast, Inbox
from pykafka2.errors import ConfigurationError


@pytest.mark.parametrize("transport", [None, "pykafka2.contrib.kombu:Transport"])
def test_url_names_the_transport(transport: str | None) -> None:
    connection = kombu.Connection("pykafka2://localhost:9093//", transport=transport)
    assert connection.get_transport_cls() is Transport
    assert Settings.of(connection).servers == ("localhost:9093",)


def test_servers_are_those_of_all_urls() -> None:
    connection = kombu.Connection("pykafka2://one;pykafka2://two:9094/staging")
    settings = Settings.of(connection)
    assert settings.servers == ("one:9092", "two:9094")
    assert settings.queue_topic("celery") == "kombu.queue.celery"


def test_virtual_host_is_part_of_the_names() -> None:
    settings = Settings.of(kombu.Connection("pykafka2://one/staging"))
    assert settings.queue_topic("celery") == "kombu.staging.queue.celery"
    assert settings.exchange_topic("") == "kombu.staging.exchange"


def test_user_and_ssl_become_security_options() -> None:
    ssl = {"ca_certs": "/ca.pem"}
    settings = Settings.of(kombu.Connection("pykafka2://user:secret@one//", ssl=ssl))
    assert settings.client_options == {
        "ssl_cafile": "/ca.pem",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "user",
        "sasl_password": "secret",
        "security_protocol": "SASL_SSL",
    }
    assert Settings.of(kombu.Connection("pykafka2://one//", ssl=True)).client_options == {
        "security_protocol": "SSL"
    }
    scram = Settings.of(kombu.Connection("pykafka2://user:secret@one//", login_method="SCRAM-SHA-512"))
    assert scram.client_options["sasl_mechanism"] == "SCRAM-SHA-512"
    with pytest.raises(ConfigurationError, match="cert_reqs"):
        Settings.of(kombu.Connection("pykafka2://one//", ssl={"cert_reqs": 2}))


@given(st.text(st.one_of(st.sampled_from("_x40af@é."), st.characters(exclude_categories=["Cs"]))))
def test_names_of_topics_are_legal_and_reversible(name: str) -> None:
    topic = topic_name(f"kombu.queue.{name}")
    assert set(topic) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert queue_name(topic) == name


def test_ordinary_names_stay() -> None:
    assert topic_name("my_queue-1.high") == "my_queue-1.high"
    assert topic_name("celery@host") == "celery_x40_host"
    assert pykafka2.contrib.kombu.queue_name("kombu.queue.celery_x40_host") == "celery@host"


def test_closed_inbox_ignores_news() -> None:
    inbox = Inbox()
    inbox.close()
    inbox.notify()
    inbox.put(Broadcast("topic", 0, b""))


def test_secrets_are_in_no_representation() -> None:
    options = {
        "producer_options": {"sasl_password": "secret"},
        "consumer_options": {"ssl_password": "secret"},
    }
    connection = kombu.Connection("pykafka2://user:secret@one//", transport_options=options)
    settings = Settings.of(connection)
    cluster = acquire(settings)
    assert "secret" not in f"{settings!r} {cluster!r} {connection!r} {connection.transport!r}"
    same, other = acquire(Settings.of(connection)), acquire(attrs.evolve(settings, client_options={}))
    assert same is cluster is not other
    for used in (cluster, same, other):
        release(used)
    assert acquire(settings) is not cluster


@pytest.mark.parametrize("host", ["queue", "a.queue.b", "exchange"])
def test_virtual_host_has_no_topics_of_another_one(host: str) -> None:
    with pytest.raises(ConfigurationError, match="virtual host"):
        Settings.of(kombu.Connection(f"pykafka2://one/{host}"))


def test_topics_of_other_programs_keep_their_names() -> None:
    for topic in ("orders", "my_xff_topic", "a_xff__xfe_"):
        assert queue_name(topic) == topic


def forked(transport: Transport, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a transport find itself in the child of a fork."""
    monkeypatch.setattr(transport, "_pid", 0)
    if transport._cluster is not None:
        monkeypatch.setattr(transport._cluster, "pid", 0)


def test_child_of_a_fork_reads_exchanges_with_a_reader_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[Any] = []

    class Reader:
        def __init__(self, cluster: object, inbox: object) -> None:
            self.read_topics: list[Mapping[str, int]] = []
            readers.append(self)

        def read(self, wanted: Mapping[str, int]) -> None:
            self.read_topics.append(wanted)

    monkeypatch.setattr(transients, "ExchangeReader", Reader)
    monkeypatch.setattr(channel, "acquire", lambda settings: SimpleNamespace(pid=os.getpid()))
    transport = kombu.Connection("pykafka2://one//").transport
    transport.transients.by_name["q"] = transients.TransientQueue("q", auto_delete=False, starts={"t": 3})
    transport.transients.read()
    forked(transport, monkeypatch)
    transport.transients.read()
    assert [reader.read_topics for reader in readers] == [[{"t": 3}], [{"t": 3}]]


def test_child_of_a_fork_leaves_its_parent_again_after_a_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    transport = kombu.Connection("pykafka2://one//").transport
    inbox, transport.transients._reader = transport.inbox, object()
    forked(transport, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(transport.transients, "leave_parent", interrupted)
        with pytest.raises(KeyboardInterrupt):
            transport.inbox.close()
    assert transport.inbox is not inbox
    assert transport.transients._reader is None
    inbox.close()
    transport.inbox.close()
