"""Log lines of the library in a program without a logging configuration."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.errors import SaslAuthenticationFailed
from pykafka2.logs import ClientLogger, LastResort
from pykafka2.testing import KafkaCluster
from tests.gate import rest_in_gate

PROGRAM = """
import sys
from pykafka2 import KafkaProducer
{setup}
with KafkaProducer(bootstrap_servers="127.0.0.1:1", client_id="till-7", max_block_ms=300) as producer:
    try:
        producer.send("orders", b"v")
    except Exception as error:
        assert "127.0.0.1:1" in str(error)
"""


def stderr_of(setup: str) -> str:
    program = PROGRAM.format(setup=setup)
    ended = subprocess.run(
        [sys.executable, "-c", program], timeout=60, capture_output=True, text=True, check=True
    )
    return ended.stderr


@pytest.mark.gate
@pytest.mark.slow
def test_log_line_on_stderr_names_client_and_logger() -> None:
    (line,) = stderr_of("").splitlines()
    assert line.startswith("WARNING pykafka2.cluster.link: [till-7] bootstrap broker 127.0.0.1:1: ")


def test_rejected_credentials_are_logged_with_the_broker_once(caplog: pytest.LogCaptureFixture) -> None:
    with KafkaCluster(1, listeners=["SASL_PLAINTEXT"], users={"ann": "ann-secret"}) as cluster:
        address = cluster.bootstrap_servers
        with (
            KafkaAdminClient(**cluster.options_for("ann", password="wrong")) as admin,
            pytest.raises(SaslAuthenticationFailed),
        ):
            admin.list_topics()
    lines = [line for line in caplog.messages if "rejected the credentials" in line]
    assert lines
    assert all(line.count(address) == 1 for line in lines)


def test_line_names_the_client_once_and_other_threads_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    handler = LastResort()
    logger = logging.getLogger("pykafka2.test_of_threads")
    logger.propagate = False
    logger.addHandler(handler)

    def log() -> None:
        ClientLogger(logger.name, "till-7").warning("lost a broker")

    io_thread = threading.Thread(target=log, name="till-7")
    io_thread.start()
    io_thread.join()
    log()
    logger.warning("without a client")
    logger.removeHandler(handler)
    thread = threading.current_thread().name
    assert capsys.readouterr().err.splitlines() == [
        "WARNING pykafka2.test_of_threads: [till-7] lost a broker",
        f"WARNING pykafka2.test_of_threads [{thread}]: [till-7] lost a broker",
        f"WARNING pykafka2.test_of_threads [{thread}]: without a client",
    ]


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("setup", "lines"),
    rest_in_gate(
        [
            ("import logging; logging.basicConfig(format='mine: %(message)s')", 1),
            ("import logging; logging.lastResort = None", 0),
            ("import logging; logging.getLogger('pykafka2').addHandler(logging.NullHandler())", 0),
        ]
    ),
)
def test_configured_logging_gets_only_the_selected_lines(setup: str, lines: int) -> None:
    written = stderr_of(setup).splitlines()
    assert len(written) == lines
    assert all(line.startswith("mine: [till-7] bootstrap") for line in written)


def test_a_client_id_with_percent_signs_is_written_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    handler = LastResort()
    logger = logging.getLogger("pykafka2.test_of_logs")
    logger.propagate = False
    logger.addHandler(handler)
    ClientLogger(logger.name, "100%s").warning("lost %s", "a broker")
    logger.removeHandler(handler)
    assert capsys.readouterr().err.endswith("[100%s] lost a broker\n")
