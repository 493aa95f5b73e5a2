"""The admin client's calls on the bundled broker and on Apache Kafka: the same results, field by field.

Each scenario notes the result of every call, a value or an error with the broker's words. Ids and times that
each run chooses are noted by kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import attrs
import pytest

from pykafka2 import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    KafkaShareConsumer,
    OffsetAndMetadata,
    TopicPartition,
)
from pykafka2.admin import (
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    FeatureUpdate,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    Outcomes,
    UpdateFeatureType,
)
from pykafka2.driver.pollable import ToLeader
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pykafka2.structs import TopicPartitionReplica
from tests.broker.support.batches import batch

from .brokers import Cluster, eventually

BEGIN_MS = 1_700_000_000_000
ORDERS = [TopicPartition("adm-orders", number) for number in range(3)]
PAYMENTS = [TopicPartition("adm-payments", number) for number in range(2)]
TRANSACTIONAL = 0x10
MISSING = TopicPartition("adm-missing", 0)
MEMBER_ID = re.compile(r"\b(adm[\w-]*?-)?[\w-]{36,}")


class Notes:
    """One cluster, its admin client, and what the calls of a scenario returned."""

    def __init__(self, cluster: Cluster, stack: ExitStack) -> None:
        self.cluster = cluster
        self.noted: list[tuple[str, Any]] = []
        self.stack = stack
        self.servers = cluster.bootstrap_servers
        self.admin = stack.enter_context(
            KafkaAdminClient(bootstrap_servers=self.servers, client_id="adm", default_api_timeout_ms=20_000)
        )

    def note(self, label: str, call: Callable[[], Any], *, kinds_only: bool = False) -> Any:
        """Note what the call returned; returns its value, None if it raised.

        With `kinds_only` errors are noted without their words (docs/fidelity.md, "Text of error messages").
        """
        try:
            answer = call()
        except KafkaError as error:
            self.noted.append((label, type(error).__name__ if kinds_only else words_of(error)))
            return None
        if kinds_only:
            self.noted.append((label, {str(key): kind_of(answer.errors.get(key)) for key in answer}))
            return answer
        self.noted.append((label, shown(answer)))
        return answer

    def producer(self, **options: Any) -> KafkaProducer:
        return self.stack.enter_context(KafkaProducer(bootstrap_servers=self.servers, **options))

    def member(self, group: str, topic: str, **options: Any) -> KafkaConsumer:
        """A consumer that has joined the group and owns the topic's partitions."""
        consumer = self.stack.enter_context(
            KafkaConsumer(
                topic,
                bootstrap_servers=self.servers,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                **options,
            )
        )
        eventually(lambda: consumer.poll(timeout_ms=100) is not None and bool(consumer.assignment()))
        return consumer


def kind_of(error: KafkaError | None) -> str:
    return "done" if error is None else type(error).__name__


def words_of(error: KafkaError) -> str:
    return f"{type(error).__name__}: {MEMBER_ID.sub('ID', str(error))}"


def shown(answer: Any) -> Any:
    if isinstance(answer, Outcomes):
        return {
            str(key): words_of(answer.errors[key]) if key in answer.errors else shown(answer[key])
            for key in answer
        }
    if attrs.has(type(answer)):
        fields = {field.name: shown(getattr(answer, field.name)) for field in attrs.fields(type(answer))}
        hidden = {
            "member_id": "ID",
            "topic_id": "ID",
            "cluster_id": "ID",
            "port": "PORT",
            "last_timestamp": "TIME",
            "producer_id": "ID",
        }
        return fields | {name: word for name, word in hidden.items() if fields.get(name) is not None}
    if isinstance(answer, dict):
        return {str(key): shown(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [shown(item) for item in answer]
    return answer if answer is None or isinstance(answer, bool | int | float | str) else str(answer)


# ---------------------------------------------------------------------- scenarios


def topics_and_partitions(notes: Notes) -> None:
    admin = notes.admin
    topics = [
        NewTopic("adm-orders", assignment={0: [0, 1], 1: [1, 2], 2: [2, 0]}),
        NewTopic("adm-payments", assignment={0: [1, 0], 1: [0, 2]}, configs={"retention.ms": "-1"}),
    ]
    notes.note("validate", lambda: list(admin.create_topics(topics, validate_only=True)))
    notes.note("create", lambda: list(admin.create_topics(topics)))
    admin.wait_for_topics(["adm-orders", "adm-payments"])
    for name in ("adm-orders", "adm-payments"):
        notes.cluster.await_topic(name, len(ORDERS) if name == "adm-orders" else len(PAYMENTS))
    notes.note("create again", lambda: admin.create_topics(topics, raise_errors=False))
    found = notes.note(
        "describe",
        lambda: admin.describe_topics(["adm-orders", "adm-payments"], include_authorized_operations=True),
    )
    ids = [topic.topic_id for topic in found.values()]
    by_id = admin.describe_topics_by_id(ids)
    notes.note("by id", lambda: [by_id[one] for one in ids])
    notes.note("no such id", lambda: admin.describe_topics_by_id([bytes(15) + b"\1"], raise_errors=False))
    notes.note(
        "delete no such id", lambda: admin.delete_topics_by_id([bytes(15) + b"\1"], raise_errors=False)
    )
    notes.note(
        "add partitions",
        lambda: admin.create_partitions(
            {
                "adm-orders": 3,
                "adm-payments": NewPartitions(3, [[2, 1]]),
                "adm-missing": 2,
            },
            raise_errors=False,
        ),
    )
    notes.note(
        "wrong assignments",
        lambda: [
            admin.create_partitions({"adm-payments": NewPartitions(4, wrong)}, raise_errors=False)
            for wrong in ([[9]], [[0, 0]], [[0], [1]], [[0]])
        ],
    )


def offsets_and_records(notes: Notes) -> None:
    admin, producer = notes.admin, notes.producer()
    for partition, count in zip(ORDERS, (5, 2, 0), strict=True):
        for number in range(count):
            producer.send(*partition[:1], b"v", partition=partition[1], timestamp_ms=BEGIN_MS + number * 1000)
    producer.flush()
    for spec in ("earliest", "latest", "max_timestamp", "earliest_local", "latest_tiered"):
        notes.note(
            spec, lambda spec=spec: admin.list_offsets(dict.fromkeys(ORDERS, spec), raise_errors=False)
        )  # type: ignore[misc]
    for time_ms in (0, BEGIN_MS + 1500, BEGIN_MS + 9000):
        notes.note("by time", lambda at=time_ms: admin.list_offsets(dict.fromkeys(ORDERS, at)))  # type: ignore[misc]
    notes.note(
        "pending upload",
        lambda: admin.list_offsets({ORDERS[0]: "earliest_pending_upload"}, raise_errors=False),
    )
    notes.note("missing", lambda: admin.list_offsets({MISSING: "latest"}, raise_errors=False, timeout=1))
    notes.note(
        "delete records",
        lambda: admin.delete_records(
            {ORDERS[0]: 2, ORDERS[1]: -1, ORDERS[2]: 7, MISSING: 1}, raise_errors=False, timeout=5
        ),
    )
    notes.note("earliest after", lambda: admin.list_offsets(dict.fromkeys(ORDERS, "earliest")))


def comparable(entries: dict[str, ConfigEntry]) -> dict[str, ConfigEntry]:
    """Without what docs/fidelity.md excludes: documentation, and settings of eligible leader replicas."""
    return {
        name: attrs.evolve(entry, documentation=None)
        for name, entry in entries.items()
        if name != "min.insync.replicas"
    }


def settings(notes: Notes) -> None:
    admin = notes.admin
    orders, payments = ConfigResource("TOPIC", "adm-orders"), ConfigResource("TOPIC", "adm-payments")
    broker, group = ConfigResource("BROKER", "1"), ConfigResource("GROUP", "adm-settings")
    metrics = ConfigResource("CLIENT_METRICS", "adm-metrics")
    cluster_wide = ConfigResource("BROKER", "", configs=["log.cleaner.backoff.ms"])
    notes.note(
        "alter",
        lambda: admin.alter_configs(
            {
                payments: {"retention.ms": 60_000, "cleanup.policy": (AlterConfigOp.APPEND, "compact")},
                orders: {"retention.ms": None, "min.insync.replicas": "soon"},
                broker: {"log.cleaner.threads": 2},
                cluster_wide: {"log.cleaner.backoff.ms": 14_000},
                group: {"consumer.session.timeout.ms": 50_000},
                metrics: {"interval.ms": 60_000, "metrics": "org.apache.kafka."},
                ConfigResource("TOPIC", "adm-missing"): {"retention.ms": 1},
                ConfigResource("TOPIC", "adm.bad topic"): {"retention.ms": 1},
            },
            raise_errors=False,
        ),
    )
    notes.note("unknown", lambda: admin.alter_configs({orders: {"no.such": "1"}}, raise_errors=False))
    notes.note("validate", lambda: admin.alter_configs({orders: {"retention.ms": "x"}}, validate_only=True))
    eventually(
        lambda: (
            admin.describe_configs([payments])[payments]["retention.ms"].value == "60000"
            and admin.describe_configs([broker])[broker]["log.cleaner.threads"].value == "2"
        )
    )
    options: dict[str, Any] = {"include_synonyms": True, "include_documentation": True}
    topics = admin.describe_configs([orders, payments], **options)
    notes.note("topics", lambda: {str(one): comparable(topics[one]) for one in topics})
    if notes.cluster.kind == "apache":
        assert "retention" in (topics[orders]["retention.ms"].documentation or "")
    chosen = ConfigResource("BROKER", "1", configs=["log.cleaner.threads", "log.cleaner.backoff.ms"])
    notes.note("broker", lambda: comparable(admin.describe_configs([chosen], **options)[chosen]))
    others = admin.describe_configs([cluster_wide, group, metrics], **options)
    notes.note("others", lambda: {str(one): comparable(others[one]) for one in others})
    notes.note(
        "errors",
        lambda: admin.describe_configs(
            [ConfigResource("TOPIC", "adm-missing"), ConfigResource("BROKER", "x")], raise_errors=False
        ),
    )
    listed = admin.list_config_resources(["TOPIC", "BROKER", "GROUP", "CLIENT_METRICS"])
    notes.note(
        "listed", lambda: [str(one) for one in listed if one.name.startswith("adm-") or one.name.isdecimal()]
    )
    notes.note("metrics resources", admin.list_client_metrics_resources)
    notes.note("reset", lambda: admin.reset_configs([payments, broker, cluster_wide, group, metrics]))
    eventually(lambda: admin.describe_configs([payments])[payments]["retention.ms"].value == "604800000")
    notes.note("reset again", lambda: admin.reset_configs({payments: None, orders: ["retention.ms"]}))


def groups(notes: Notes) -> None:
    admin = notes.admin
    old = notes.member("adm-old", "adm-orders", client_id="adm-one", group_instance_id="adm-static")
    new = notes.member(
        "adm-new", "adm-payments", client_id="adm-two", group_protocol="consumer", client_rack="r"
    )
    old.commit({ORDERS[0]: OffsetAndMetadata(3, "note"), ORDERS[1]: 2})
    new.commit({PAYMENTS[0]: 0})
    admin.alter_group_offsets("adm-idle", {ORDERS[0]: 4, PAYMENTS[1]: 0})

    def listed(**filters: Any) -> list[Any]:
        return [group for group in admin.list_groups(**filters) if group.group_id.startswith("adm-")]

    for members in ("adm-old", "adm-new"):
        admin.wait_for_group(members, members=1)
    notes.note("listed", listed)
    notes.note("stable", lambda: listed(states=["Stable"]))
    notes.note(
        "of a type", lambda: [listed(types=[kind]) for kind in ("Classic", "Consumer", "Share", "Streams")]
    )
    notes.note("simple", lambda: listed(protocols=[""]))
    described = admin.describe_groups(["adm-old", "adm-new", "adm-idle"], include_authorized_operations=True)
    notes.note(
        "described", lambda: {name: attrs.evolve(one, coordinator=None) for name, one in described.items()}
    )
    notes.note("missing", lambda: admin.describe_groups(["adm-none"], raise_errors=False))
    notes.note(
        "offsets", lambda: admin.list_offsets_of_groups(["adm-old", "adm-new", "adm-idle", "adm-none"])
    )
    notes.note("lag", lambda: [admin.group_lag(name) for name in ("adm-old", "adm-new", "adm-idle")])
    timed = admin.group_lag("adm-old", with_time=True)
    notes.note("lag in time", lambda: [one.lag_time is not None for one in timed.values()])
    notes.note(
        "alter with members",
        lambda: [
            admin.alter_group_offsets("adm-old", {ORDERS[0]: 1}, raise_errors=False),
            admin.alter_group_offsets("adm-new", {PAYMENTS[0]: 1}, raise_errors=False),
        ],
    )
    notes.note(
        "alter",
        lambda: admin.alter_group_offsets(
            "adm-idle", {ORDERS[0]: 1, MISSING: 1}, raise_errors=False, timeout=1
        ),
    )
    for target in ({}, {"to": "latest"}, {"shift": -1}, {"offset": 3}, {"timestamp_ms": BEGIN_MS + 2500}):
        notes.note(
            f"reset {target}",
            lambda target=target: (
                admin.reset_group_offsets("adm-idle", ["adm-orders"], dry_run=True, **target)  # type: ignore[misc]
                if target != {"shift": -1}
                else admin.reset_group_offsets("adm-idle", [ORDERS[0]], **target)
            ),
        )
    notes.note("reset with members", lambda: admin.reset_group_offsets("adm-old"))
    notes.note(
        "delete offsets",
        lambda: [
            admin.delete_group_offsets("adm-old", [ORDERS[0], PAYMENTS[0]], raise_errors=False),
            admin.delete_group_offsets("adm-new", [PAYMENTS[0]], raise_errors=False),
            admin.delete_group_offsets("adm-idle", [ORDERS[0], ORDERS[2]], raise_errors=False),
        ],
    )
    notes.note("delete offsets of none", lambda: admin.delete_group_offsets("adm-none", [ORDERS[0]]))
    notes.note("delete", lambda: admin.delete_groups(["adm-old", "adm-new", "adm-none"], raise_errors=False))
    unknown = [MemberToRemove(group_instance_id="adm-other"), MemberToRemove(member_id="adm-unknown")]
    notes.note("remove unknown", lambda: admin.remove_members("adm-old", unknown, raise_errors=False))
    notes.note("remove", lambda: admin.remove_members("adm-old", ["adm-static"], reason="test"))
    notes.note("state after", lambda: admin.describe_groups(["adm-old"])["adm-old"].state)
    members = [one.member_id for one in admin.describe_groups(["adm-new"])["adm-new"].members]
    removed = admin.remove_members("adm-new", members, raise_errors=False)
    notes.note("remove from a consumer group", lambda: [words_of(error) for error in removed.errors.values()])
    old.close()
    new.close()
    for name in ("adm-old", "adm-new"):
        admin.wait_for_group(name, state="Empty")
    notes.note("delete empty", lambda: admin.delete_groups(["adm-old", "adm-new", "adm-idle"]))
    notes.note("gone", listed)


def share_groups(notes: Notes) -> None:
    """Two share groups; what a member has taken and not accepted is the lag."""
    admin = notes.admin
    used = ["adm-share", "adm-share-idle"]
    idle, none, plain = used[1], "adm-none", "adm-plain"
    admin.alter_group_offsets(plain, {ORDERS[0]: 4})
    earliest = {"share.auto.offset.reset": "earliest"}
    resources = [ConfigResource("GROUP", name, configs=[*earliest]) for name in used]
    notes.note("alter configs", lambda: admin.alter_configs(dict.fromkeys(resources, earliest)))
    notes.note("alter", lambda: admin.alter_share_group_offsets(idle, {PAYMENTS[1]: 0, ORDERS[0]: 3}))
    for resource in resources:
        eventually(
            lambda one=resource: (  # type: ignore[misc]
                admin.describe_configs([one])[one]["share.auto.offset.reset"].value == "earliest"
            )
        )
    notes.note(
        "settings", lambda: [admin.describe_configs([one], include_synonyms=True)[one] for one in resources]
    )
    member = notes.stack.enter_context(
        KafkaShareConsumer(
            "adm-orders",
            bootstrap_servers=notes.servers,
            group_id=used[0],
            client_id="adm-one",
            client_rack="r",
            share_acknowledgement_mode="explicit",
        )
    )
    taken: list[Any] = []
    eventually(lambda: taken.extend(*[member.poll(100).values()]) is None and sum(map(len, taken)) == 3)
    first, second, *_ = sorted((one for some in taken for one in some), key=_place)
    for one in (first, second):
        member.acknowledge(one)
    notes.note("committed", member.commit)

    def listed(**filters: Any) -> list[Any]:
        groups = admin.list_groups(types=["Share"], **filters)
        return [one for one in groups if one.group_id.startswith("adm-")]

    notes.note("listed", listed)
    notes.note("stable", lambda: [one.group_id for one in listed(states=["Stable"])])
    described = admin.describe_share_groups(used, include_authorized_operations=True)
    notes.note(
        "described",
        lambda: {
            name: attrs.evolve(one, coordinator=None, epoch=None, assignment_epoch=None)
            for name, one in described.items()
        },
    )
    others = [plain, none]
    notes.note("not share groups", lambda: admin.describe_share_groups(others, raise_errors=False))
    notes.note("refused", lambda: admin.describe_groups(used, raise_errors=False))
    eventually(lambda: sum(one.lag or 0 for one in admin.list_share_group_offsets(used[0]).values()) == 1)
    for name in (*used, none):
        notes.note(f"offsets of {name}", lambda name=name: without_epochs(admin, name))  # type: ignore[misc]
    notes.note("offsets of some", lambda: without_epochs(admin, idle, [PAYMENTS[1], ORDERS[1], MISSING]))
    notes.note(
        "alter with members",
        lambda: admin.alter_share_group_offsets(used[0], {ORDERS[0]: 1}),
        kinds_only=True,
    )
    notes.note(
        "alter of another type",
        lambda: admin.alter_share_group_offsets(plain, {ORDERS[0]: 1}),
        kinds_only=True,
    )
    notes.note(
        "alter a missing one",
        lambda: admin.alter_share_group_offsets(
            idle, {ORDERS[1]: 1, MISSING: 1}, raise_errors=False, timeout=3
        ),
        kinds_only=True,
    )
    notes.note(
        "delete with members",
        lambda: admin.delete_share_group_offsets(used[0], ["adm-orders"]),
        kinds_only=True,
    )
    notes.note(
        "delete offsets of none",
        lambda: admin.delete_share_group_offsets(none, ["adm-orders"]),
        kinds_only=True,
    )
    notes.note("delete", lambda: admin.delete_share_groups([used[0], *others], raise_errors=False))
    member.close()
    eventually(lambda: admin.describe_share_groups(used[:1])[used[0]].state == "Empty")
    for target in ({"to": "latest"}, {"shift": -1}, {"offset": 3}, {"timestamp_ms": BEGIN_MS + 2500}):
        notes.note(
            f"reset {target}",
            lambda target=target: admin.reset_share_group_offsets(used[0], ["adm-orders"], **target),  # type: ignore[misc]
        )
    notes.note("after", lambda: without_epochs(admin, used[0]))
    notes.note(
        "delete offsets",
        lambda: admin.delete_share_group_offsets(
            idle, ["adm-orders", "adm-payments", "adm-missing"], raise_errors=False, timeout=3
        ),
        kinds_only=True,
    )
    notes.note("none is left", lambda: without_epochs(admin, idle))
    notes.note("delete them again", lambda: admin.delete_share_group_offsets(idle, ["adm-orders"], timeout=3))
    notes.note("delete empty", lambda: admin.delete_share_groups(used))
    notes.note("gone", lambda: admin.describe_share_groups(used, raise_errors=False))
    admin.delete_groups([plain])
    admin.reset_configs(resources)


def _place(record: Any) -> tuple[int, int]:
    return record.partition, record.offset


def without_epochs(admin: KafkaAdminClient, group: str, partitions: Any = None) -> dict[str, Any]:
    """The offsets of a share group without the leaders' epochs, which elections in each cluster raise."""
    found = admin.list_share_group_offsets(group, partitions)
    return {str(one): (offset.offset, offset.lag) for one, offset in found.items()}


def leaders_and_reassignments(notes: Notes) -> None:
    admin = notes.admin
    notes.note("elect", lambda: admin.elect_leaders([*ORDERS, MISSING], raise_errors=False))
    notes.note("unclean", lambda: admin.elect_leaders([ORDERS[0]], unclean=True, raise_errors=False))
    notes.note(
        "move",
        lambda: admin.alter_partition_reassignments(
            {ORDERS[0]: [1, 2], ORDERS[1]: None, ORDERS[2]: [9], MISSING: [0], PAYMENTS[0]: []},
            raise_errors=False,
        ),
    )
    eventually(lambda: not admin.list_partition_reassignments())

    def described() -> tuple[int, ...]:
        return admin.describe_topics(["adm-orders"])["adm-orders"].partitions[0].replicas

    eventually(lambda: len(described()) == 2)
    notes.note("moved", described)
    notes.note(
        "keeps its factor",
        lambda: admin.alter_partition_reassignments(
            {ORDERS[0]: [1]}, allow_replication_factor_change=False, raise_errors=False
        ),
    )
    notes.note("none is listed", lambda: admin.list_partition_reassignments([ORDERS[0], MISSING]))


def the_cluster(notes: Notes) -> None:
    admin = notes.admin
    notes.note(
        "described",
        lambda: attrs.evolve(
            admin.describe_cluster(include_authorized_operations=True, include_fenced_brokers=True),
            controller=None,
        ),
    )
    features = admin.describe_features()
    # Streams groups are left out of the bundled broker (docs/fidelity.md).
    left_out = ("streams.version", "kraft.version")
    for kind in ("finalized", "supported"):
        levels = getattr(features, kind)
        notes.note(
            kind, lambda levels=levels: {name: one for name, one in levels.items() if name not in left_out}
        )
    notes.note(
        "update features",
        lambda: [
            admin.update_features(update, validate_only=True, raise_errors=False)
            for update in (
                {"group.version": 1},
                {"group.version": 99},
                {"group.version": 0},
                {"no.such": 1},
                {"group.version": FeatureUpdate(0, UpdateFeatureType.SAFE_DOWNGRADE)},
            )
        ],
    )
    quorum = admin.describe_metadata_quorum()
    notes.note(
        "quorum", lambda: [quorum.leader_id in quorum.nodes, quorum.leader_epoch > 0, len(quorum.voters) > 0]
    )
    served = admin.api_versions([0, 2])
    notes.note("brokers with versions", lambda: list(served))
    notes.note("versions", lambda: {name: one for name, one in served[2].items() if name in SERVED})
    notes.note("unregister", lambda: admin.unregister_broker(77))
    dirs = admin.describe_log_dirs(partitions=[*ORDERS, *PAYMENTS])
    notes.note(
        "log dirs",
        lambda: {
            broker: {str(one): log for path in paths.values() for one, log in path.replicas.items()}
            for broker, paths in dirs.items()
        },
    )
    (path,) = dirs[1]
    here, elsewhere = TopicPartitionReplica("adm-orders", 1, 1), TopicPartitionReplica("adm-missing", 0, 1)
    notes.note(
        "replica dirs",
        lambda: [
            (one.current == path, one.current_offset_lag, one.future, one.future_offset_lag)
            for one in admin.describe_replica_log_dirs([here, elsewhere]).values()
        ],
    )
    notes.note("move to the same", lambda: admin.alter_replica_log_dirs({here: path}, raise_errors=False))
    notes.note("move nowhere", lambda: admin.alter_replica_log_dirs({here: "/adm/none"}, raise_errors=False))


def transactions(notes: Notes) -> None:
    admin = notes.admin
    producer = notes.producer(transactional_id="adm-txn", transaction_timeout_ms=60_000)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("adm-orders", b"committed", partition=2).result(10)
    producer.commit_transaction()  # the next transaction has another epoch (KIP-890)
    producer.begin_transaction()
    producer.send("adm-orders", b"open", partition=2).result(10)
    notes.note("listed", lambda: list(admin.list_transactions(pattern="adm-.*")))
    notes.note("not so long", lambda: admin.list_transactions(longer_than=500, pattern="adm-.*"))
    described = admin.describe_transactions(["adm-txn"])["adm-txn"]
    notes.note(
        "described", lambda: attrs.evolve(described, start_time_ms=0, producer_epoch=0, coordinator_id=0)
    )
    producers = admin.describe_producers([ORDERS[2]])[ORDERS[2]]
    notes.note(
        "producers", lambda: [attrs.evolve(one, producer_epoch=0, coordinator_epoch=0) for one in producers]
    )
    notes.note(
        "producers of none", lambda: admin.describe_producers([MISSING], raise_errors=False, timeout=1)
    )
    notes.note("by a broker", lambda: admin.describe_producers([ORDERS[2]], broker_id=1, raise_errors=False))
    notes.note("hanging", lambda: admin.find_hanging_transactions(topics=["adm-orders"]))
    one = producers[0]
    notes.note(
        "wrong epoch", lambda: admin.abort_transaction(ORDERS[2], one.producer_id, one.producer_epoch - 1)
    )
    notes.note("abort nowhere", lambda: admin.abort_transaction(MISSING, 1, 1, timeout=1))
    notes.note("stable", lambda: admin.list_offsets({ORDERS[2]: "latest"}, isolation_level="read_committed"))
    notes.note("terminate", lambda: admin.force_terminate_transaction("adm-txn"))
    eventually(
        lambda: (
            admin.list_offsets({ORDERS[2]: "latest"}, isolation_level="read_committed")[ORDERS[2]].offset == 4
        )
    )
    notes.note("fenced", lambda: admin.fence_producers(["adm-txn"])["adm-txn"].producer_epoch > 0)
    notes.note("commit of the fenced", producer.commit_transaction)


def hanging_transactions(notes: Notes) -> None:
    """A transaction that no coordinator knows, as leaders before Kafka 3.6 accepted them."""
    admin, place = notes.admin, PAYMENTS[0]
    verification = "transaction.partition.verification.enable"
    cluster_wide = ConfigResource("BROKER", "", configs=[verification])
    admin.alter_configs({cluster_wide: {verification: False}})
    eventually(
        lambda: all(
            admin.describe_configs([one])[one][verification].value == "false"
            for one in (ConfigResource("BROKER", str(broker), [verification]) for broker in range(3))
        )
    )
    records = batch(
        producer_id=777_777,
        producer_epoch=5,
        base_sequence=0,
        attributes=TRANSACTIONAL,
        timestamp=BEGIN_MS,
    )
    data = TopicProduceData(
        name=place.topic, partition_data=[PartitionProduceData(index=place.partition, records=records)]
    )
    request = ProduceRequest(transactional_id="adm-lost", acks=-1, timeout_ms=5000, topic_data=[data])
    response = admin._cluster.request(request, ToLeader(*place), max_version=11)
    notes.note("produced", lambda: response.responses[0].partition_responses[0].error_code)

    def ends() -> list[int]:
        levels = ("read_committed", "read_uncommitted")
        return [admin.list_offsets({place: "latest"}, isolation_level=one)[place].offset for one in levels]

    notes.note("open", ends)
    found = admin.find_hanging_transactions(topics=["adm-payments", "adm-orders"])
    (one,) = found
    notes.note("found", lambda: found)
    notes.note("with another epoch", lambda: admin.abort_transaction(place, 777_777, 4))
    notes.note("aborted", lambda: admin.abort_transaction(place, one.producer_id, one.producer_epoch))
    notes.note("ended", ends)
    notes.note("none is left", lambda: admin.find_hanging_transactions(topics=["adm-payments"]))
    notes.note("verified again", lambda: admin.reset_configs([cluster_wide]))


def the_end(notes: Notes) -> None:
    admin = notes.admin
    ids = [topic.topic_id for topic in admin.describe_topics(["adm-orders"]).values()]
    notes.note("by id", lambda: list(admin.delete_topics_by_id(ids).values()))
    notes.note("by name", lambda: admin.delete_topics(["adm-payments", "adm-missing"], raise_errors=False))
    eventually(lambda: not [name for name in admin.list_topics() if name.startswith("adm-")])


SERVED = ("Produce", "Fetch", "ListOffsets", "Metadata", "CreateTopics", "DescribeConfigs", "OffsetFetch")
"""Some of the APIs that both serve; docs/fidelity.md lists those that only Apache Kafka serves."""

SCENARIOS = [
    topics_and_partitions,
    offsets_and_records,
    settings,
    groups,
    share_groups,
    leaders_and_reassignments,
    the_cluster,
    transactions,
    hanging_transactions,
    the_end,
]

DIFFERENT: dict[str, list[str]] = {}
"""Known differences by scenario; each reason is in docs/fidelity.md."""


@pytest.fixture(scope="module")
def noted(bundled: Cluster, apache: Cluster) -> Iterator[dict[str, dict[str, list[tuple[str, Any]]]]]:
    """The notes of all scenarios in order, by kind of cluster."""
    found: dict[str, dict[str, list[tuple[str, Any]]]] = {}
    for cluster in (bundled, apache):
        found[cluster.kind] = {}
        for scenario in SCENARIOS:
            with ExitStack() as stack:
                notes = Notes(cluster, stack)
                scenario(notes)
                found[cluster.kind][scenario.__name__] = notes.noted
    return found


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in SCENARIOS])
def test_results_are_those_of_apache_kafka(
    noted: dict[str, dict[str, list[tuple[str, Any]]]], scenario: str
) -> None:
    ours, theirs = noted["bundled"][scenario], noted["apache"][scenario]
    assert [label for label, _ in ours] == [label for label, _ in theirs]
    found: list[str] = []
    for (label, our_result), (_, their_result) in zip(ours, theirs, strict=True):
        found += differences(label, our_result, their_result)
    assert found == DIFFERENT.get(scenario, []), "\n".join(found)


def differences(path: str, ours: Any, theirs: Any) -> list[str]:
    """Return a line for each value that differs, with its place."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for key in {**ours, **theirs}:
            found += differences(f"{path}/{key}", ours.get(key, "absent"), theirs.get(key, "absent"))
        return found
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [
            line for number, (one, other) in pairs for line in differences(f"{path}/{number}", one, other)
        ]
    return [] if ours == theirs else [f"{path}: {ours!r} here, {theirs!r} there"]
