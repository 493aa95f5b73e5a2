"""Arguments and results of admin calls: typed, comparable values. Durations are seconds, sizes bytes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs

from pykafka2.errors import IllegalArgument
from pykafka2.option_fields import hidden
from pykafka2.other_clients import explaining, explaining_creation
from pykafka2.types import PartitionInfo, TopicPartition


@attrs.define(frozen=True, init=False)
class NewTopic:
    """A topic to create. -1 uses the broker's default; `assignment` maps partitions to broker ids and
    overrides both numbers.

    `num_partitions`, `replica_assignments` and `topic_configs` are kafka-python's names of `partitions`,
    `assignment` and `configs`.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str | float | bool]
    assignment: Mapping[int, Sequence[int]] | None

    @explaining
    def __init__(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        configs: Mapping[str, str | float | bool] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
        *,
        num_partitions: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str | float | bool] | None = None,
    ) -> None:
        if partitions != -1 and num_partitions != -1:
            raise IllegalArgument("partitions and num_partitions mean the same; give one of them")
        self.__attrs_init__(
            name,
            partitions if num_partitions == -1 else num_partitions,
            replication_factor,
            configs or topic_configs or {},
            assignment or replica_assignments or None,
        )


@explaining_creation
@attrs.define(frozen=True)
class NewPartitions:
    """A topic's new number of partitions, and optionally the broker ids of each new one."""

    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None

    def __attrs_post_init__(self) -> None:
        total: object = self.total_count
        if isinstance(total, str):
            raise IllegalArgument(
                f"NewPartitions({total!r}, ...): it has no topic. Use create_partitions("
                f"{{{total!r}: {self.new_assignments!r}}})"
            )


@attrs.define(frozen=True)
class PartitionReassignment:
    """The brokers of a partition that is being moved: all of them, those being added, those being removed."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@attrs.define(frozen=True)
class TopicDescription:
    """A topic and its partitions; `authorized_operations` are None unless requested."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool = False
    authorized_operations: tuple[str, ...] | None = None


@attrs.define(frozen=True)
class AclBinding:
    """An ACL, with Kafka's names (`TOPIC`, `LITERAL`, `User:ann`, `READ`, `ALLOW`)."""

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str


@attrs.define(frozen=True)
class TransactionListing:
    """A transactional id, its producer, and its state at the coordinator, such as "Ongoing"."""

    transactional_id: str
    producer_id: int
    state: str


@attrs.define(frozen=True)
class ProducerIdAndEpoch:
    """The producer id and epoch that fenced the earlier producers of a transactional id."""

    producer_id: int
    producer_epoch: int


@attrs.define(frozen=True)
class TransactionDescription:
    """A transactional id at its coordinator, whose id takes no part in comparisons.

    The timeout is in seconds; the start is -1 without a transaction.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout: float
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]
    coordinator_id: int = attrs.field(default=-1, eq=False)


@attrs.define(frozen=True)
class QuotaEntity:
    """The entity that a quota applies to: a user, a client id, both, or an IP address.

    As a name, `QuotaEntity.DEFAULT` means all users, client ids or addresses without a quota of their own.
    In a filter, `QuotaEntity.ANY` matches any name. An attribute that is None is not part of the entity.
    """

    DEFAULT: ClassVar[str] = "<default>"
    ANY: ClassVar[str] = "<any>"

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


@attrs.define(frozen=True)
class ScramCredentialInfo:
    """The public part of a SCRAM credential: "SCRAM-SHA-256" or "SCRAM-SHA-512", and the iterations."""

    mechanism: str
    iterations: int


@attrs.define(frozen=True)
class UserScramCredentialUpsertion:
    """A user's new password for one mechanism. If `salt` is None, a random one is used."""

    user: str
    password: str = attrs.field(repr=hidden)
    mechanism: str = "SCRAM-SHA-512"
    iterations: int = 8192
    salt: bytes | None = attrs.field(default=None, repr=hidden)


@attrs.define(frozen=True)
class UserScramCredentialDeletion:
    """A user's credential to delete, for one mechanism."""

    user: str
    mechanism: str = "SCRAM-SHA-512"


@attrs.define(frozen=True)
class DelegationToken:
    """A token that authenticates as its owner by SCRAM: `sasl_delegation_token=True`, with `token_id` as
    `sasl_username` and `password` as `sasl_password`.

    Principals look like "User:ann"; times are milliseconds since 1970. It expires at `expiry_time_ms` unless
    it is renewed, and can be renewed until `max_time_ms`.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_time_ms: int
    expiry_time_ms: int
    max_time_ms: int
    hmac: bytes = attrs.field(repr=hidden)

    @property
    def password(self) -> str:
        """The HMAC as text: a secret."""
        return base64.b64encode(self.hmac).decode()
