"""Create, describe and delete topics.

Shows: `KafkaAdminClient`, topics with their own settings, waiting until every partition has a leader, and the
result of a call about several topics if some of them fail.

    python examples/manage_topics.py
"""

from __future__ import annotations

from pykafka2 import KafkaAdminClient, NewTopic
from pykafka2.testing import KafkaCluster


def describe(admin: KafkaAdminClient, topic: str) -> None:
    for partition in admin.describe_topics([topic])[topic].partitions:
        print(
            f"{topic}-{partition.partition}: leader {partition.leader}, "
            f"replicas {list(partition.replicas)}, in sync {list(partition.isr)}"
        )


def run(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        cluster = admin.describe_cluster()
        print(f"cluster {cluster.cluster_id} of {len(cluster.nodes)} brokers")

        admin.create_topics(
            [
                NewTopic("orders", partitions=2, replication_factor=3, configs={"min.insync.replicas": "2"}),
                NewTopic("audit", partitions=1, replication_factor=1),
            ]
        )
        admin.wait_for_topics(["orders", "audit"])
        describe(admin, "orders")

        # "orders" exists already, "returns" does not: each has its own outcome.
        outcomes = admin.create_topics(["orders", "returns"], raise_errors=False)
        for topic, error in outcomes.errors.items():
            print(f"{topic}: {type(error).__name__}")

        admin.delete_topics(["audit"])
        print("topics:", ", ".join(admin.list_topics()))


def main() -> None:
    with KafkaCluster(brokers=3) as cluster:
        run(cluster.bootstrap_servers)


if __name__ == "__main__":
    main()
