"""`pykafka2 metrics serve` as typed: its paths, a cluster that is away, and how it ends."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, NewTopic, TopicPartition
from pykafka2.cli.main import main
from pykafka2.testing import KafkaCluster
from tests.cli.conftest import Admin
from tests.cli.typed import started

pytest.importorskip("prometheus_client")


@contextmanager
def serving(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The running command, and the address without the path that it printed."""
    process = started("metrics", "serve", "--port", "0", *words)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        assert "/metrics" in url, url
        yield process, url.removesuffix("/metrics")
    finally:
        process.kill()
        process.communicate()


def fetched(url: str) -> tuple[int, str]:
    """Return status and text of a page."""
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.slow
def test_serves_lag_of_two_groups_probes_and_ends_with_ctrl_c(admin: Admin) -> None:
    topic, groups = admin.name(), [admin.name("served"), admin.name("served")]
    with KafkaAdminClient(bootstrap_servers=admin.servers) as client:
        client.create_topics([NewTopic(topic, 2, 1)], wait_for_metadata=True)
        for number, group in enumerate(groups):
            client.alter_group_offsets(group, {TopicPartition(topic, number): 0})
        other = admin.name("unserved")
        client.alter_group_offsets(other, {TopicPartition(topic, 0): 0})
    with serving("-b", admin.servers, "--groups", "served-*", "--topics", topic) as (process, base):
        status, text = fetched(f"{base}/metrics")
        assert status == 200
        lines = text.splitlines()
        for number, group in enumerate(groups):
            labels = f'consumergroup="{group}",partition="{number}",topic="{topic}"'
            assert f"kafka_consumergroup_lag{{{labels}}} 0.0" in lines
        assert other not in text
        assert "kafka_up 1.0" in lines
        assert any(
            line.startswith('kafka_admin_client_request_total{client_id="pykafka2"}') for line in lines
        )
        assert fetched(f"{base}/healthz") == (200, "ok\n")
        assert fetched(f"{base}/readyz") == (200, "ok\n")
        assert fetched(f"{base}/other") == (404, "use /metrics, /healthz or /readyz\n")
        if shutil.which("promtool") is not None:
            checked = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), check=False)
            assert checked.returncode == 0
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, b"")


def served_lag(base: str, topic: str, group: str) -> tuple[float, float]:
    """Return the served lag of partition 0, and the served end of the partition."""
    status, text = fetched(f"{base}/metrics")
    assert status == 200
    values = dict(line.rsplit(" ", 1) for line in text.splitlines())
    partition = f'partition="0",topic="{topic}"'
    return (
        float(values[f'kafka_consumergroup_lag{{consumergroup="{group}",{partition}}}']),
        float(values[f"kafka_topic_partition_current_offset{{{partition}}}"]),
    )


@pytest.mark.slow
def test_read_committed_leaves_an_open_transaction_out_of_the_lag(
    admin: Admin, two_brokers: KafkaCluster
) -> None:
    topic, group, transactional_id = admin.name(), admin.name("served"), admin.name("id")
    with KafkaAdminClient(bootstrap_servers=admin.servers) as client:
        client.create_topics([NewTopic(topic, 1, 1)], wait_for_metadata=True)
        client.alter_group_offsets(group, {TopicPartition(topic, 0): 1})
    words = (
        "-b",
        admin.servers,
        "--groups",
        group,
        "--topics",
        topic,
        "--timeout",
        "25",
        "--isolation-level",
    )
    with (
        KafkaProducer(bootstrap_servers=admin.servers) as plain,
        KafkaProducer(bootstrap_servers=admin.servers, transactional_id=transactional_id) as producer,
        serving(*words, "read_committed") as (_, committed),
        serving(*words, "read_uncommitted") as (_, uncommitted),
        serving(*words[:-1]) as (_, default),
    ):
        plain.send_many(topic, [b"done"] * 3)
        plain.flush()
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_many(topic, [b"open"] * 2)
        producer.flush()
        assert served_lag(committed, topic, group) == (2, 3)
        assert served_lag(uncommitted, topic, group) == served_lag(default, topic, group) == (4, 5)
        producer.commit_transaction()
        # The broker writes the marker, which has an offset of its own, after its response.
        two_brokers.wait_until(lambda: not two_brokers.transaction(transactional_id).is_open)
        assert served_lag(committed, topic, group) == served_lag(uncommitted, topic, group) == (5, 6)


@pytest.mark.gate
@pytest.mark.slow
def test_sigterm_ends_it_with_exit_code_0(admin: Admin) -> None:
    with serving("-b", admin.servers, "--json") as (process, _):
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        assert process.returncode == 0


@pytest.mark.gate
@pytest.mark.slow
def test_cluster_that_is_away_is_up_0_and_not_ready() -> None:
    with serving("-b", "127.0.0.1:1", "--timeout", "0.3") as (process, base):
        status, text = fetched(f"{base}/metrics")
        assert status == 200
        assert "kafka_up 0.0" in text.splitlines()
        status, reason = fetched(f"{base}/readyz")
        assert (status, "is not connected" in reason) == (503, True)
        assert fetched(f"{base}/healthz") == (200, "ok\n")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
        assert b"No broker responds, so kafka_up is 0 until one does" in errors


def test_port_in_use_is_exit_code_1(admin: Admin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, shown, errors = admin("metrics", "serve", "--port", port)
    assert (code, shown) == (1, "")
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in errors


def test_missing_library_is_named_with_its_extra(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    code, _, errors = admin("metrics", "serve", "--port", "0")
    assert code == 2
    assert "pip install 'pykafka2[prometheus]'" in errors


def test_wrong_port_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["metrics", "serve", "--port", "65536"])
    assert ended.value.code == 2
    assert "use a port from 0 to 65535" in capsys.readouterr().err
