"""`pykafka2 broker` with several listeners, users and addresses that clients are told."""

from __future__ import annotations

import pytest

from pykafka2.cli.broker.listeners import parsed_listeners, parsed_users
from pykafka2.cli.main import main
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import Listener
from tests.broker.security.wires import log_in
from tests.cli.test_broker_command import broker
from tests.testing.wire import Wire


@pytest.mark.gate
@pytest.mark.slow
def test_the_command_has_several_listeners() -> None:
    options = (
        "--brokers=1",
        "--listener=PLAINTEXT://:0",
        "--listener=EXTERNAL=SASL_PLAINTEXT://127.0.0.1:0",
        "--listener=SASL_SSL://:0",
        "--advertised-listener=EXTERNAL://kafka.test:19092",
        "--user=ann:ann:secret",
    )
    with broker(*options) as (process, addresses):
        assert process.stdout is not None
        lines = dict(process.stdout.readline().strip().split("=", 1) for _ in range(4))
        assert lines["listener.PLAINTEXT"] == addresses[0]
        with open(lines["ssl.ca"], encoding="utf-8") as file:
            assert "BEGIN CERTIFICATE" in file.read()
        with Wire(lines["listener.EXTERNAL"]) as wire:
            assert log_in(wire, "ann", password="ann:secret").error_code == 0
            (told,) = wire.call(MetadataRequest(topics=[]), 12).brokers
            assert (told.host, told.port) == ("kafka.test", 19092)


def test_each_broker_takes_the_next_port() -> None:
    found = parsed_listeners(["A=SSL://[::1]:9092", "PLAINTEXT://:0"], ["A://a.test:1"], 2)
    assert found == {
        "A": Listener("SSL", "::1", [9092, 9093], "a.test", [1, 2]),
        "PLAINTEXT": Listener(None, None, [0, 0]),
    }
    assert parsed_listeners([], [], 2) is None


@pytest.mark.parametrize(
    "text",
    [
        "PLAINTEXT",
        "PLAINTEXT:9092",
        "://:9092",
        "A=://:1",
        "A://host",
        "A://h:x",
        "A://:65535",
        "a b://h:1:2",
    ],
)
def test_a_listener_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--listener"):
        parsed_listeners([text], [], 2)


def test_contradictory_listeners_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError, match="A was named before"):
        parsed_listeners(["A=SSL://:1", "A=SSL://:2"], [], 1)
    with pytest.raises(ConfigurationError, match="use the name of a listener: A"):
        parsed_listeners(["A=SSL://:1"], ["B://h:1"], 1)
    assert main(["broker", "--listener", "PLAINTEXT://:0", "--port", "9092"]) != 0
    assert "--port cannot be combined with --listener" in capsys.readouterr().err


def test_a_password_is_in_no_error() -> None:
    assert parsed_users(["ann:a:b"]) == {"ann": "a:b"}
    with pytest.raises(ConfigurationError) as refused:
        parsed_users([":canary"])
    assert "canary" not in str(refused.value)


def test_listeners_with_overlapping_ports_are_rejected_by_name() -> None:
    """Each broker takes the next port, so that those of two listeners may meet."""
    texts = ["PLAINTEXT://:9092", "SASL_PLAINTEXT://:9093"]
    with pytest.raises(
        ConfigurationError,
        match=r"SASL_PLAINTEXT://:9093: .*9093 to 9095.* PLAINTEXT, 9092 to 9094.*--bro",
    ):
        parsed_listeners(texts, [], 3)
    assert list(parsed_listeners(texts, [], 1) or ()) == ["PLAINTEXT", "SASL_PLAINTEXT"]
    assert len(parsed_listeners(["A=SSL://:0", "B=SSL://:0"], [], 3) or ()) == 2
