"""`KafkaCluster(data_dir=...)`: what survives a restart, and directories that are refused."""

from __future__ import annotations

import base64
import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.broker.base.features import release_of
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller, NewTopic
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.metadata.recovery import MetadataPlace, open_metadata
from pykafka2.broker.controller.metadata.storage import DiskMetadataStorage
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.clock import SeededEntropy
from pykafka2.errors import ConfigurationError, KafkaStorageError
from pykafka2.testing import KafkaCluster, Topic, starting
from pykafka2.testing.storage import ClusterStorage, log_dirs_under, open_storage
from pykafka2.testing.views.partitions import PartitionView

from .described import AUTHORIZED, described, fill


@pytest.mark.gate
def test_metadata_survives_restarts_of_two_brokers(tmp_path: Path) -> None:
    before = None
    for _ in range(3):
        with (
            KafkaCluster(2, config=AUTHORIZED, data_dir=tmp_path) as cluster,
            KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        ):
            if before is None:
                fill(admin, "kept")
                before = described(admin)
                assert sorted(before["topics"]) == ["kept-one", "kept-two"]
            else:
                assert described(admin) == before
            for topic in admin.describe_topics(["kept-one", "kept-two"]).values():
                assert all(partition.leader in (0, 1) for partition in topic.partitions)


@pytest.mark.gate
def test_crash_of_all_brokers_loses_no_metadata(tmp_path: Path) -> None:
    with (
        KafkaCluster(2, config=AUTHORIZED, data_dir=tmp_path / "first") as cluster,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        fill(admin, "kept")
        before = described(admin)
        # What is in the files now is what a crash leaves, because every change is flushed.
        shutil.copytree(tmp_path / "first", tmp_path / "crashed", ignore=shutil.ignore_patterns(".lock"))
    with (
        KafkaCluster(2, config=AUTHORIZED, data_dir=tmp_path / "crashed") as cluster,
        KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        assert described(admin) == before


def test_ids_are_not_repeated_after_a_restart_with_the_same_seed(tmp_path: Path) -> None:
    ids: set[bytes] = set()
    producer_ids: list[int] = []
    for number in range(3):
        with KafkaCluster(1, [f"topic-{number}"], data_dir=tmp_path, seed=7) as cluster:
            ids |= set(cluster.controller.image.topic_names)
            allocated = cluster.controller.run("allocate", lambda active: active.allocate_producer_ids())
            producer_ids += allocated
            incarnations = {broker.incarnation_id for broker in cluster.controller.image.brokers.values()}
            assert not incarnations & ids
    assert len(ids) == 3
    assert len(set(producer_ids)) == len(producer_ids)


def test_only_missing_topics_are_created_at_a_restart(tmp_path: Path) -> None:
    with KafkaCluster(1, {"a": 2}, data_dir=tmp_path) as cluster:
        topic_id = cluster.controller.image.topics["a"].id
    with KafkaCluster(1, {"a": 5, "b": 1}, data_dir=tmp_path) as cluster:
        image = cluster.controller.image
        assert image.topics["a"].id == topic_id
        assert [len(image.topics[name].partitions) for name in ("a", "b")] == [2, 1]


def test_cluster_object_starts_again_with_its_data(tmp_path: Path) -> None:
    cluster = KafkaCluster(2, data_dir=tmp_path)
    with cluster:
        cluster.create_topic("a")
        cluster_id = cluster.cluster_id
    with cluster:
        assert cluster.topics() == ["a"]
        assert cluster.cluster_id == cluster_id


def test_users_and_delegation_tokens_log_in_after_a_restart(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "listeners": ["SASL_PLAINTEXT"],
        "config": {"delegation.token.secret.key": "the key of all tokens"},
        "data_dir": tmp_path,
    }
    with KafkaCluster(1, users={"ann": "ann-secret"}, **options) as cluster:
        login = sasl_options("ann", "ann-secret")
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, **login) as admin:
            admin.upsert_scram_user("bob", "bob-secret", iterations=4096)
            token = admin.create_delegation_token(renewers=["User:bob"])
    with KafkaCluster(1, **options) as cluster:
        for user, password in (("ann", "ann-secret"), ("bob", "bob-secret")):
            login = sasl_options(user, password)
            with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, **login) as admin:
                assert [one.token_id for one in admin.describe_delegation_tokens()] == [token.token_id]
        login = sasl_options(token.token_id, base64.b64encode(token.hmac).decode())
        login["sasl_delegation_token"] = True
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, **login) as admin:
            assert admin.list_topics() == []


def sasl_options(user: str, password: str) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def test_refused_directory_names_the_file_and_releases_its_locks(tmp_path: Path) -> None:
    with KafkaCluster(2, data_dir=tmp_path) as cluster:
        cluster.create_topic("a")
        cluster.create_topic("b")
    segment = tmp_path / "broker-0" / "__cluster_metadata-0" / f"{0:020d}.log"
    whole = segment.read_bytes()
    segment.write_bytes(whole[:200] + b"?" + whole[201:])
    with pytest.raises(ConfigurationError, match=f"{segment}: the batch at byte "):
        KafkaCluster(2, data_dir=tmp_path).start()
    segment.write_bytes(whole)
    with KafkaCluster(2, data_dir=tmp_path) as cluster:
        assert cluster.topics() == ["a", "b"]


def test_directory_in_use_is_refused(tmp_path: Path) -> None:
    with (
        KafkaCluster(1, data_dir=tmp_path),
        pytest.raises(ConfigurationError, match=r"another broker has locked its file \.lock"),
    ):
        KafkaCluster(1, data_dir=tmp_path).start()


@pytest.mark.gate
def test_restart_of_a_cluster_keeps_the_leaders(tmp_path: Path) -> None:
    def partitions(cluster: KafkaCluster) -> list[PartitionView]:
        return [cluster.partition("orders", number) for number in range(6)]

    with KafkaCluster(3, {"orders": Topic(6, 3)}, data_dir=tmp_path) as cluster:
        before = partitions(cluster)
    for _ in range(2):
        with KafkaCluster(3, data_dir=tmp_path) as cluster:
            after = partitions(cluster)
            assert [one.leader for one in after] == [one.leader for one in before]
            assert all(new.leader_epoch > old.leader_epoch for old, new in zip(before, after, strict=True))
            cluster.wait_until(lambda c=cluster: all(len(one.isr) == 3 for one in partitions(c)), 30)
        before = after


def test_partition_of_a_broker_that_does_not_return_gets_another_leader(tmp_path: Path) -> None:
    topic = Topic(assignment=[[1, 0], [0, 1]])
    with KafkaCluster(2, {"orders": topic}, data_dir=tmp_path) as cluster:
        assert [cluster.partition("orders", number).leader for number in (0, 1)] == [1, 0]
    options = {"broker.session.timeout.ms": 500, "broker.heartbeat.interval.ms": 100}
    with KafkaCluster(1, data_dir=tmp_path, config=options) as cluster:
        cluster.wait_until(
            lambda: [one.leader for one in cluster.controller.image.topics["orders"].partitions] == [0, 0]
        )
        assert cluster.controller.image.brokers[1].is_fenced


def test_number_as_data_dir_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"data_dir=5 is illegal\. Set the path"):
        KafkaCluster(1, data_dir=5)  # type: ignore[arg-type]


@pytest.mark.gate
def test_cluster_in_a_child_process_keeps_its_data(tmp_path: Path) -> None:
    with KafkaCluster(1, ["a"], data_dir=tmp_path, process=True) as cluster:
        cluster.create_topic("b")
    with KafkaCluster(1, data_dir=tmp_path) as cluster:
        assert cluster.topics() == ["a", "b"]


def test_failed_metadata_log_rejects_changes_and_leaves_the_brokers_running(tmp_path: Path) -> None:
    with KafkaCluster(2, ["a"], data_dir=tmp_path) as cluster:
        storage = cluster.running.storage
        assert storage is not None
        file = storage.metadata.files.open(str(tmp_path / "missing" / "file"))  # every write raises OSError
        storage.metadata._file = file
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            outcomes = admin.create_topics(["b"], raise_errors=False)
            assert isinstance(outcomes.errors["b"], KafkaStorageError)
            assert "Repair the disk, then start the cluster again" in str(outcomes.errors["b"])
            cluster.controls.crash_broker(1)  # the controller cannot fence it, and stops
            cluster.wait_until(lambda: cluster.controller.active_node is None)
            assert admin.list_topics() == ["a"]
        cluster.check()
    with KafkaCluster(2, data_dir=tmp_path) as cluster:
        assert cluster.topics() == ["a"]
        cluster.create_topic("b")


@pytest.mark.parametrize("content", [b"", b"\x00" * 100])
def test_logs_with_an_empty_metadata_log_are_refused(tmp_path: Path, content: bytes) -> None:
    with KafkaCluster(1, {"a": 1}, data_dir=tmp_path):
        pass
    log = tmp_path / "broker-0/__cluster_metadata-0/00000000000000000000.log"
    whole = log.read_bytes()
    log.write_bytes(content)
    with pytest.raises(
        ConfigurationError, match="it is empty, but the data directory has 1 logs, such as a-0"
    ):
        KafkaCluster(1, data_dir=tmp_path).start()
    assert log.read_bytes() == content
    log.write_bytes(whole)
    with KafkaCluster(1, data_dir=tmp_path) as cluster:
        assert cluster.topics() == ["a"]


def test_full_disk_ends_the_start_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with KafkaCluster(1, {"a": 1}, data_dir=tmp_path):
        pass

    def full(storage: DiskMetadataStorage, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(DiskMetadataStorage, "_write_bytes", full)
        with pytest.raises(
            ConfigurationError, match=r"__cluster_metadata-0 cannot be written: .*No space left"
        ):
            KafkaCluster(1, data_dir=tmp_path).start()
    with KafkaCluster(1, data_dir=tmp_path) as cluster:
        assert cluster.topics() == ["a"]


def test_logs_without_their_metadata_log_are_refused(tmp_path: Path) -> None:
    # Otherwise the cluster would start without topics, and their logs would be set aside.
    with KafkaCluster(2, {"a": Topic(2, 2)}, data_dir=tmp_path):
        pass
    place = tmp_path / "broker-1"
    with pytest.raises(ConfigurationError) as caught:
        KafkaCluster(1, first_broker_id=1, data_dir=tmp_path).start()
    assert f"Data directory {place} cannot be used: it has 2 logs, such as a-0, but no metadata log" in str(
        caught.value
    )
    assert "Start with the first broker of before" in str(caught.value)
    with KafkaCluster(2, data_dir=tmp_path) as cluster:
        assert cluster.topics() == ["a"]


def test_missing_directory_of_a_broker_with_replicas_is_refused(tmp_path: Path) -> None:
    # An empty broker in the ISR could become the leader, and the others would truncate their logs.
    with KafkaCluster(2, {"a": Topic(2, 2)}, data_dir=tmp_path):
        pass
    (tmp_path / "broker-1").rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError, match="broker 1 has replicas in the directory with id"):
        KafkaCluster(2, data_dir=tmp_path).start()
    shutil.rmtree(tmp_path / "broker-1")
    (tmp_path / "elsewhere").rename(tmp_path / "broker-1")
    with KafkaCluster(3, data_dir=tmp_path) as cluster:
        assert cluster.topics() == ["a"]


def test_users_and_features_of_a_restart_change_nothing(tmp_path: Path) -> None:
    with KafkaCluster(1, users={"ann": "ann-secret"}, data_dir=tmp_path) as cluster:
        before = cluster.controller.image.features
        assert users_of(cluster) == {"ann"}
    with KafkaCluster(
        1, users={"eve": "eve-secret"}, features={"transaction.version": 0}, data_dir=tmp_path
    ) as cluster:
        assert cluster.controller.image.features == before
        assert users_of(cluster) == {"ann"}


def users_of(cluster: KafkaCluster) -> set[str]:
    users: set[str] = cluster.controller.run("users", lambda active: {*active.state.scram_users})
    return users


def test_relative_log_dirs_are_below_the_broker_and_id_in_absolute_ones_is_its_number(tmp_path: Path) -> None:
    config = BrokerConfig({"log.dirs": f"a, b,{tmp_path}/disk-{{id}},a"})
    assert log_dirs_under(tmp_path, 7, config) == [
        f"{tmp_path}/broker-7/a",
        f"{tmp_path}/broker-7/b",
        f"{tmp_path}/disk-7",
    ]
    assert log_dirs_under(tmp_path, 7, BrokerConfig()) == [f"{tmp_path}/broker-7"]


def test_start_that_fails_after_the_directory_was_opened_releases_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ConfigurationError("no more threads")

    with monkeypatch.context() as patch:
        patch.setattr(starting, "Controllers", fail)
        with pytest.raises(ConfigurationError, match="no more threads"):
            KafkaCluster(1, data_dir=tmp_path).start()
    with KafkaCluster(1, {"a": 1}, data_dir=tmp_path) as cluster:
        assert cluster.topics() == ["a"]


def test_brokers_of_before_are_fenced_in_the_metadata_log_at_the_next_start(tmp_path: Path) -> None:
    def opened() -> tuple[ClusterStorage, Controller]:
        config, entropy = BrokerConfig(), SeededEntropy(1)
        storage = open_storage(
            tmp_path,
            [0, 1],
            config,
            RealFiles(),
            entropy,
            lambda: 1,
            lambda: "A" * 22,
            lambda cluster_id: MetadataImage(cluster_id, config, entropy),
        )
        log = MetadataLog(storage.state, storage.metadata)
        return storage, Controller(0, log, config, entropy, lambda image, changed: None)

    storage, controller = opened()
    for broker in (0, 1):
        controller.register_broker(broker, "host", 9092 + broker, None)
    controller.create_topic(NewTopic("t", 2, 2))
    leaders = [partition.leader for partition in controller.image.topics["t"].partitions]
    storage.close(is_clean=False)
    storage, controller = opened()
    assert [broker.is_fenced for broker in controller.image.brokers.values()] == [True, True]
    assert [partition.leader for partition in controller.image.topics["t"].partitions] == leaders
    end = storage.metadata.end_offset
    storage.close(is_clean=False)
    place = MetadataPlace(RealFiles(), str(tmp_path / "broker-0"), 0)
    new = MetadataImage("A" * 22, BrokerConfig(), SeededEntropy(1))
    state, reopened = open_metadata(place, new, BrokerConfig(), lambda: 1)
    assert [broker.is_fenced for broker in state.brokers.values()] == [True, True]
    assert (state.image.version, reopened.end_offset) == (end, end)


def test_brokers_register_the_features_of_the_release_that_the_cluster_imitates(tmp_path: Path) -> None:
    def registered(as_version: str) -> dict[str, tuple[int, int]]:
        with KafkaCluster(2, data_dir=tmp_path, as_version=as_version):
            pass
        place = MetadataPlace(RealFiles(), str(tmp_path / "broker-0"), 0)
        new = MetadataImage("A" * 22, BrokerConfig(), SeededEntropy(1))
        state, _ = open_metadata(place, new, BrokerConfig(), lambda: 1)
        first, second = (
            {one.name: (one.min_supported_version, one.max_supported_version) for one in broker.features}
            for broker in state.registrations.values()
        )
        assert first == second
        return first

    for as_version, level in (("4.3", 30), ("4.4", 33), ("3.5", 11)):  # an upgrade and a downgrade
        levels = {name: (one.lowest, one.highest) for name, one in release_of(as_version).supported.items()}
        assert registered(as_version) == levels
        assert levels["metadata.version"][1] == level
