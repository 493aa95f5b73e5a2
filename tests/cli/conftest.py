"""A bundled cluster for the verbs that need one, and topics with records."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, NewTopic
from pykafka2.cli.main import main
from pykafka2.testing import QUICK, STANDARD_AUTHORIZER, KafkaCluster

NUMBERS = count(1)
Record = tuple[bytes | None, bytes | None]
NewTopicOf = Callable[..., str]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The address of one broker, which does not create topics by itself."""
    with KafkaCluster(brokers=1, config={**QUICK, "auto.create.topics.enable": False}) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def new_topic(servers: str) -> NewTopicOf:
    """A function that creates a topic with (key, value) records, round robin; returns its name."""

    def create(records: Sequence[Record] = (), partitions: int = 1) -> str:
        name = f"topic-{next(NUMBERS)}"
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(name, partitions, 1)], wait_for_metadata=True)
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for number, (key, value) in enumerate(records):
                producer.send(name, value, key=key, partition=number % partitions, timestamp_ms=1000 + number)
        return name

    return create


class Admin:
    """Runs a verb in this process on two brokers: the exit code, and what stdout and stderr show."""

    def __init__(self, servers: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.servers = servers
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Run the command with -b; a usage error of argparse is its exit code."""
        self._capsys.readouterr()
        try:
            code = main([*words, "-b", self.servers])
        except SystemExit as ended:
            code = int(ended.code or 0)
        shown = self._capsys.readouterr()
        return code, shown.out, shown.err

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """Run with --json; return the printed objects."""
        code, shown, errors = self(*words, "--json")
        assert code == 0, errors
        return [json.loads(line) for line in shown.splitlines()]

    @staticmethod
    def name(kind: str = "topic") -> str:
        """Return a name of its own."""
        return f"{kind}-{next(NUMBERS)}"


@pytest.fixture(scope="module")
def two_brokers() -> Iterator[KafkaCluster]:
    """Two brokers with an authorizer, in which the anonymous user is the super user."""
    config = {
        **QUICK,
        "auto.create.topics.enable": False,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "transaction.partition.verification.enable": False,  # allows hanging transactions
    }
    with KafkaCluster(brokers=2, config=config) as cluster:
        yield cluster


@pytest.fixture
def admin(two_brokers: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> Admin:
    """The command on two brokers."""
    return Admin(two_brokers.bootstrap_servers, capsys)


class TerminalInput(io.StringIO):
    """Text that was typed in a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal_input(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that sets what is typed in the terminal of the command."""
    return lambda text: monkeypatch.setattr(sys, "stdin", TerminalInput(text))
