"""Random changes of a controller, for tests of its metadata log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from pykafka2.broker.base.features import LATEST
from pykafka2.broker.base.image import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    LOST,
    METRICS_RESOURCE,
    TOPIC_RESOURCE,
    Endpoint,
)
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller, IsrChange, NewTopic
from pykafka2.broker.controller.control.acls import create_acls, delete_acls
from pykafka2.broker.controller.control.brokers import Registration, process_heartbeat, register
from pykafka2.broker.controller.control.client_quotas import QuotaAlteration, alter_client_quotas
from pykafka2.broker.controller.control.configs import replaced
from pykafka2.broker.controller.control.delegation_tokens import TokenRequest, create_token, expire_token
from pykafka2.broker.controller.control.scram_users import Upsertion, alter_scram_users
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.topics import added_partitions
from pykafka2.broker.handlers.update_features import feature_update
from pykafka2.broker.security.acls import Acl, AclFilter
from pykafka2.broker.security.principal import Principal
from pykafka2.clock import SeededEntropy
from pykafka2.errors import BrokerError, KafkaStorageError
from pykafka2.protocol.messages.metadata_records import ProducerIdsRecord

SECRET_KEY = "the key of all tokens"
CONFIG = BrokerConfig({"delegation.token.secret.key": SECRET_KEY})
TOPICS = ("a", "b", "__consumer_offsets")
BROKERS = (0, 1, 2)
DIRECTORIES = {
    0: [bytes([1] * 16)],
    1: [bytes([2] * 16), bytes([3] * 16)],
    2: [bytes([4] * 16), bytes([5] * 16), bytes([6] * 16)],
}
"""The ids of the log directories of each broker."""


def new_state(config: BrokerConfig = CONFIG, features: Mapping[str, int] = LATEST) -> MetadataImage:
    """Return the metadata of a new cluster."""
    return MetadataImage("cluster", config, SeededEntropy(2), features)


def allocated(next_id: int) -> ProducerIdsRecord:
    return ProducerIdsRecord(broker_id=-1, next_producer_id=next_id)


Change = tuple[int, int, int]
"""The number of an operation, and two numbers that select its arguments."""


class Changes:
    """Makes changes on a controller; those that are rejected change nothing."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.entropy = SeededEntropy("changes")
        self.operations: Sequence[Callable[[int, int], object]] = (
            self.register,
            self.heartbeat,
            self.fence,
            self.unregister,
            self.create_topic,
            self.delete_topic,
            self.add_partitions,
            self.move_leader,
            self.shrink_isr,
            self.configure,
            self.update_feature,
            self.allocate_producer_ids,
            self.create_acl,
            self.delete_acls,
            self.create_token,
            self.expire_token,
            self.set_user,
            self.delete_user,
            self.set_quota,
            self.remove_quota,
            self.fail_directory,
            self.assign_directory,
        )

    def make(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.make_one(change)

    def make_one(self, change: Change) -> None:
        """Raise `KafkaStorageError` alone."""
        operation, first, second = change
        try:
            self.operations[operation % len(self.operations)](first, second)
        except KafkaStorageError:
            raise
        except BrokerError:
            pass  # a rejected change

    def register(self, first: int, second: int) -> None:
        broker = first % len(BROKERS)
        endpoints = tuple(
            Endpoint(name, "host", 9000 + second, number)
            for number, name in enumerate(("PLAINTEXT", "SSL")[: 1 + second % 2])
        )
        rack = "rack" if second % 3 else None
        register(
            self.controller,
            Registration(broker, endpoints, rack, bytes([second % 5] * 16), tuple(DIRECTORIES[broker])),
        )

    def heartbeat(self, first: int, second: int) -> None:
        broker = self.controller.state.brokers.get(first % len(BROKERS))
        if broker is not None:
            process_heartbeat(
                self.controller,
                broker.id,
                broker.epoch,
                self.controller.log.end_offset,
                want_fence=second % 7 == 6,
                want_shut_down=second % 7 == 5,
            )

    def fail_directory(self, first: int, second: int) -> None:
        broker = self.controller.state.brokers.get(first % len(BROKERS))
        if broker is not None:
            known = DIRECTORIES[broker.id]
            process_heartbeat(
                self.controller,
                broker.id,
                broker.epoch,
                0,
                want_fence=False,
                want_shut_down=False,
                failed=[known[second % len(known)]],
            )

    def assign_directory(self, first: int, second: int) -> None:
        broker = first % len(BROKERS)
        known = [*DIRECTORIES[broker], LOST]
        self.controller.assign_directories(
            broker,
            [
                (topic.id, second % len(topic.partitions), known[second % len(known)])
                for topic in self.controller.state.topics.values()
            ],
        )

    def fence(self, first: int, second: int) -> None:
        self.controller.fence_broker(first % len(BROKERS))

    def unregister(self, first: int, second: int) -> None:
        if not second % 4:
            self.controller.unregister_broker(first % len(BROKERS))

    def create_topic(self, first: int, second: int) -> None:
        configs = {"retention.ms": str(second)} if second % 2 else {}
        self.controller.create_topic(NewTopic(TOPICS[first % len(TOPICS)], 1 + second % 3, 1, configs))

    def delete_topic(self, first: int, second: int) -> None:
        self.controller.delete_topic(TOPICS[first % len(TOPICS)])

    def add_partitions(self, first: int, second: int) -> None:
        name = TOPICS[first % len(TOPICS)]
        self.controller.write(added_partitions(self.controller.state, name, 1 + second % 5, None))

    def move_leader(self, first: int, second: int) -> None:
        self.controller.move_leader(TOPICS[first % len(TOPICS)], 0, second % len(BROKERS))

    def shrink_isr(self, first: int, second: int) -> None:
        topic = self.controller.state.topics.get(TOPICS[first % len(TOPICS)])
        if topic is not None:
            now = topic.partitions[0]
            change = IsrChange(topic.id, 0, now.leader_epoch, now.partition_epoch, {now.leader: -1})
            self.controller.alter_partitions(now.leader, [change])

    def configure(self, first: int, second: int) -> None:
        kind, name, option = (
            (TOPIC_RESOURCE, TOPICS[second % len(TOPICS)], "retention.ms"),
            (BROKER_RESOURCE, "", "log.retention.ms"),
            (BROKER_RESOURCE, "1", "background.threads"),
            (GROUP_RESOURCE, "g", "consumer.session.timeout.ms"),
            (METRICS_RESOURCE, "m", "interval.ms"),
        )[first % 5]
        value = {"background.threads": 1 + second % 9, "interval.ms": 100 + second % 1000}.get(
            option, 45_000 + second % 1000
        )
        configs = {option: str(value)} if second % 4 else {}
        self.controller.write(replaced(self.controller, kind, name, configs))

    def update_feature(self, first: int, second: int) -> None:
        name = ("transaction.version", "group.version", "share.version")[first % 3]
        record = feature_update(self.controller, name, second % 3, 2 if second % 2 else 1)
        self.controller.write([] if record is None else [record])

    def allocate_producer_ids(self, first: int, second: int) -> None:
        self.controller.allocate_producer_ids()

    def create_acl(self, first: int, second: int) -> None:
        create_acls(
            self.controller, [Acl(2, f"topic-{first % 4}", 3, f"User:{second % 3}", "*", 3, 2 + second % 2)]
        )

    def delete_acls(self, first: int, second: int) -> None:
        delete_acls(self.controller, [AclFilter(resource_name=f"topic-{first % 4}")])

    def create_token(self, first: int, second: int) -> None:
        owner = Principal("User", f"owner-{first % 3}")
        request = TokenRequest(owner, Principal("User", "asker"), [Principal("User", "renewer")], second)
        create_token(self.controller, CONFIG, self.entropy, request, 1_000 * second)

    def expire_token(self, first: int, second: int) -> None:
        for token in [*self.controller.state.tokens.values()][: 1 + first % 2]:
            period = -1 if second % 2 else second
            expire_token(self.controller, CONFIG, token.hmac, token.owner, period, token.issued_at_ms)

    def set_user(self, first: int, second: int) -> None:
        new = Upsertion(f"user-{first % 3}", 1 + second % 2, 4096, b"salt", bytes([second % 7]) * 32)
        alter_scram_users(self.controller, [], [new])

    def delete_user(self, first: int, second: int) -> None:
        alter_scram_users(self.controller, [(f"user-{first % 3}", 1 + second % 2)], [])

    def set_quota(self, first: int, second: int) -> None:
        self._quota(first, 1.0 + second)

    def remove_quota(self, first: int, second: int) -> None:
        self._quota(first, None)

    def _quota(self, first: int, value: float | None) -> None:
        entity = ((("user", "u"),), (("client-id", None), ("user", "u")), (("client-id", None),))[first % 3]
        alter_client_quotas(self.controller, [QuotaAlteration(entity, [("producer_byte_rate", value)])])


def shown(state: MetadataImage) -> dict[str, Any]:
    """Return everything in a state that a restart must restore, as comparable values."""
    return {
        "brokers": dict(sorted(state.brokers.items())),
        "topics": {
            name: (topic.id, topic.partitions, topic.config.overrides, topic.is_internal)
            for name, topic in sorted(state.topics.items())
        },
        "names": dict(sorted(state.topic_names.items())),
        "next host": state.next_host,
        "features": dict(sorted(state.features.items())),
        "configs": {key: dict(values) for key, values in sorted(state.configs.items())},
        "acls": {acl: state.acls[acl] for acl in sorted(state.acls, key=attrs.astuple)},
        "users": {name: dict(sorted(kinds.items())) for name, kinds in sorted(state.scram_users.items())},
        "tokens": {
            name: attrs.evolve(token, credentials=None)  # type: ignore[arg-type]
            for name, token in sorted(state.tokens.items())
        },
        "quotas": {entity: dict(values) for entity, values in sorted(state.quotas.items(), key=repr)},
        "next producer id": state.next_producer_id,
    }
