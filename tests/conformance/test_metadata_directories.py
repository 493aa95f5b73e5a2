"""Data directories with metadata: written by Apache Kafka and opened by ours, and the other way."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import DelegationToken, KafkaAdminClient, NewTopic
from pykafka2.testing import KafkaCluster
from tests.testing.described import AUTHORIZED, described, fill

from .brokers import await_deletion, eventually
from .maven import KafkaJars
from .real_kafka import RealKafka

SNAPSHOTS = "metadata.log.max.record.bytes.between.snapshots=3000\n"
KEY = "the key of all delegation tokens"
TOKENS = f"delegation.token.secret.key={KEY}\n"
METADATA_LOG = "__cluster_metadata-0"


def log_dirs(folder: Path) -> list[Path]:
    return [folder / f"broker-{number}" for number in (0, 1)]


def apache_on(jars: KafkaJars, folder: Path, extra: str = "") -> RealKafka:
    return RealKafka(jars, brokers=2, authorizes=True, log_dirs=log_dirs(folder), extra=extra)


def described_at(bootstrap_servers: str) -> dict[str, object]:
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        return described(admin)


def on_disk(folder: Path) -> KafkaCluster:
    config = {**AUTHORIZED, "delegation.token.secret.key": KEY}
    return KafkaCluster(2, config=config, data_dir=folder, listeners=["PLAINTEXT", "SASL_PLAINTEXT"])


def login(address: str, user: str, password: str, mechanism: str = "SCRAM-SHA-512", **options: Any) -> Any:
    return KafkaAdminClient(
        bootstrap_servers=address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_plain_username=user,
        sasl_plain_password=password,
        **options,
    )


def new_token(address: str) -> DelegationToken:
    with login(address, "alice", "alice-secret") as admin:
        token: DelegationToken = admin.create_delegation_token(renewers=["User:bob"])
    return token


def check_logins(address: str, token: DelegationToken) -> None:
    """Users log in by their passwords, and the token's owner by the token."""
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        with login(address, "alice", "alice-secret", mechanism) as admin:
            assert admin.describe_delegation_tokens() == [token]
    with login(address, "bob", "bob-secret") as admin:
        assert admin.describe_delegation_tokens() == [token]
    hmac = base64.b64encode(token.hmac).decode()
    with login(address, token.token_id, hmac, sasl_delegation_token=True) as admin:
        assert admin.describe_cluster().cluster_id


def dumped(jars: KafkaJars, path: Path) -> str:
    """Return what `kafka-dump-log` prints about a segment or snapshot of the metadata log."""
    command = [
        *jars.java("org.apache.kafka.tools.DumpLogSegments"),
        *("--cluster-metadata-decoder", "--skip-record-metadata", "--files", str(path)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rror" not in done.stderr, done.stderr
    return done.stdout


def test_directory_of_apache_kafka_is_described_the_same_by_ours(jars: KafkaJars, tmp_path: Path) -> None:
    with apache_on(jars, tmp_path, SNAPSHOTS + TOKENS) as apache:
        with KafkaAdminClient(bootstrap_servers=apache.bootstrap_servers) as admin:
            fill(admin, "theirs")
            before = described(admin)
        token = new_token(apache.sasl_addresses[0])
        snapshots = tmp_path / "broker-0" / METADATA_LOG
        eventually(lambda: any(snapshots.glob("*.checkpoint")), "Apache Kafka wrote no snapshot")
    for _ in range(2):
        with on_disk(tmp_path) as cluster:
            assert described_at(cluster.bootstrap_servers) == before
            check_logins(cluster.bootstrap_servers_of("SASL_PLAINTEXT"), token)


def test_directory_of_ours_is_described_the_same_by_apache_kafka(jars: KafkaJars, tmp_path: Path) -> None:
    with (
        on_disk(tmp_path) as cluster,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        fill(admin, "ours")
        write_snapshot(cluster)
        admin.upsert_scram_user("dora", "dora-secret", iterations=4096)
        before = described(admin)
        token = new_token(cluster.bootstrap_servers_of("SASL_PLAINTEXT"))
    log = tmp_path / "broker-0" / METADATA_LOG
    files = [*sorted(log.glob("*.log")), *log.glob("*.checkpoint")]
    assert len(files) == 3
    for path in files:
        text = dumped(jars, path)
        assert "Could not" not in text
        assert "isvalid: true" in text
    with apache_on(jars, tmp_path, TOKENS) as apache:
        assert described_at(apache.bootstrap_servers) == before
        check_logins(apache.sasl_addresses[0], token)
        with KafkaAdminClient(bootstrap_servers=apache.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("back", 2, 2)])
            admin.wait_for_topics(["back"])
            admin.delete_topics(["ours-two"])
            await_deletion(apache.bootstrap_servers, "ours-two")
            before = described(admin)
    with on_disk(tmp_path) as cluster:
        assert described_at(cluster.bootstrap_servers) == before
        check_logins(cluster.bootstrap_servers_of("SASL_PLAINTEXT"), token)


@pytest.mark.long
def test_quorum_with_voters_in_the_log_is_kept(jars: KafkaJars, tmp_path: Path) -> None:
    """With kraft.version 1 (KIP-853) the log and each snapshot have the voters."""
    voters = "controller.quorum.voters=\ncontroller.quorum.bootstrap.servers=127.0.0.1:{controller_port}\n"
    with (
        apache_on(jars, tmp_path, voters) as apache,
        KafkaAdminClient(bootstrap_servers=apache.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("theirs", 2, 2)])
        admin.wait_for_topics(["theirs"])
        before = admin.describe_metadata_quorum().voters
    with (
        KafkaCluster(2, config=AUTHORIZED, data_dir=tmp_path) as cluster,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        assert admin.list_topics() == ["theirs"]
        write_snapshot(cluster)
        admin.create_topics([NewTopic("ours", 2, 2)])
        metadata = cluster.running.storage.metadata if cluster.running.storage else None
        assert metadata is not None
        assert metadata.quorum.kraft_version == 1
    with (
        apache_on(jars, tmp_path, voters) as apache,
        KafkaAdminClient(bootstrap_servers=apache.bootstrap_servers) as admin,
    ):
        assert sorted(admin.list_topics()) == ["ours", "theirs"]
        after = admin.describe_metadata_quorum().voters
        assert [(one.replica_id, one.directory_id) for one in after] == [
            (one.replica_id, one.directory_id) for one in before
        ]


def write_snapshot(cluster: KafkaCluster) -> None:
    cluster.controller.run("snapshot", lambda active: active.log.write_snapshot())
