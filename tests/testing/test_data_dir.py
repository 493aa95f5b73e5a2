"""`KafkaCluster(data_dir=...)`: what survives a restart, and directories that are refused."""

from __future__ import annotations

from pathlib import Path

from pykafka2 import KafkaAdminClient
from pykafka2.testing import KafkaCluster

from .described import AUTHORIZED, described, fill


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
