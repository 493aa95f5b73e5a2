"""The asyncio admin client's signature.  Its behaviour comes with the asyncio facade (design section 1).

Every call asks the cluster, so every one is a coroutine.  tests/typing holds it against
`pykafka2.KafkaAdminClient`, name by name and parameter by parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self

from pykafka2.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pykafka2.admin.outcomes import Outcomes
    from pykafka2.admin.values import (
        AclBinding,
        ClusterDescription,
        ConfigEntry,
        ConfigResource,
        GroupDescription,
        GroupListing,
        NewTopic,
        PartitionLag,
        QuotaEntity,
        TopicDescription,
        TransactionDescription,
        TransactionListing,
    )


class KafkaAdminClient(Protocol):
    """`pykafka2.KafkaAdminClient` on the event loop: same options, names, parameters and errors.

    Belongs to the loop that is running when it is entered; any number of its tasks may use it at a time.
    Calls take `timeout` in seconds (default: default_api_timeout_ms) and raise `KafkaTimeoutError`,
    `NoBrokersAvailable` or the broker's own error.  Calls about many things answer with `Outcomes`, and
    raise `ItemsFailed` if any failed, unless `raise_errors` is False.

    Cancelling a call stops the waiting; what was asked of the cluster may still happen.
    """

    async def __aenter__(self) -> Self:
        """Belong to the running loop.  Nothing is connected to yet."""
        ...

    async def __aexit__(self, *exception: object) -> None:
        """Close, as `close` without arguments."""
        ...

    # ------------------------------------------------------------------ topics and records

    async def create_topics(
        self,
        topics: Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, TopicDescription]:
        """Create topics; a plain name takes the broker's defaults.

        Returns each topic with the id that it was given (its partitions appear in the metadata a moment
        later: `wait_for_topics`).  Raises `ItemsFailed` (unless `raise_errors` is False) with an error per
        topic such as `TopicAlreadyExists`, `InvalidReplicationFactor`, `InvalidConfig`.
        """
        ...

    async def delete_topics(
        self, topics: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, None]:
        """Delete topics by name with all their records.  Raises `ItemsFailed` as `create_topics` does."""
        ...

    async def list_topics(self, *, include_internal: bool = False, timeout: float | None = None) -> list[str]:
        """The names of all topics that the principal may see, sorted."""
        ...

    async def describe_topics(
        self, topics: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, TopicDescription]:
        """Partitions, leaders and replicas of topics."""
        ...

    async def wait_for_topics(self, topics: Iterable[str], *, timeout: float | None = None) -> None:
        """Wait until every partition of the topics has a leader; creates none of them.

        `timeout` is for all together.

        Raises:
            KafkaTimeoutError: some partitions had no leader in time; it names them.
            UnknownTopicOrPartition, NoBrokersAvailable: a topic is not there, or nobody was reached, in time.
        """
        ...

    async def create_partitions(
        self, totals: Mapping[str, int], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, None]:
        """Raise the number of partitions of topics to the totals given (CreatePartitions)."""
        ...

    async def delete_records(
        self,
        before_offsets: Mapping[TopicPartition, int],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, int]:
        """Delete records below the offsets (-1: all so far); the new log starts (DeleteRecords)."""
        ...

    async def elect_leaders(
        self,
        partitions: Sequence[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Hand leadership to the preferred replica, with `unclean` to any that lives (KIP-460)."""
        ...

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Move partitions to other brokers; None cancels a move (KIP-455)."""
        ...

    # ------------------------------------------------------------------ configurations

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[ConfigResource, dict[str, ConfigEntry]]:
        """All settings of each resource with their sources; sensitive values stay None."""
        ...

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[ConfigResource, None]:
        """Set settings; None takes one back to its default.  Others stay as they are (KIP-339)."""
        ...

    # ------------------------------------------------------------------ groups and their offsets

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> list[GroupListing]:
        """All groups of all coordinators, of the states and types given (none: all)."""
        ...

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, GroupDescription]:
        """State, assignor, coordinator and members of groups, classic and KIP-848."""
        ...

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, None]:
        """Delete groups without members; `NonEmptyGroup` for others."""
        ...

    async def remove_members(
        self, group_id: str, members: Iterable[str], *, reason: str = "", timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Have members (ids or static instance ids) leave the group."""
        ...

    async def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed; partitions without a commit are left out."""
        ...

    async def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group that has no members."""
        ...

    async def reset_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        to: str = "earliest",
        timestamp_ms: int | None = None,
        shift: int | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Commit the earliest or latest offsets, those of a time, or the present ones shifted."""
        ...

    async def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Forget commits; `GroupSubscribedToTopic` while a member reads the topic."""
        ...

    async def group_lag(
        self, group_id: str, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionLag]:
        """How far a group is behind, to the last stable offset, in records and in time."""
        ...

    # ------------------------------------------------------------------ access rules

    async def describe_acls(
        self,
        *,
        resource_type: str = "ANY",
        resource_name: str | None = None,
        principal: str | None = None,
        timeout: float | None = None,
    ) -> list[AclBinding]:
        """The rules that match; None and ANY match all."""
        ...

    async def create_acls(
        self, bindings: Iterable[AclBinding], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[AclBinding, None]:
        """Add rules; one that is there already stays as it is.  One outcome for each rule.

        Raises:
            ItemsFailed: some were refused (unless `raise_errors` is False), each with the broker's error.
        """
        ...

    async def delete_acls(
        self, bindings: Iterable[AclBinding], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[AclBinding, None]:
        """Take these rules away, each matched in all its parts; one that is not there is no error.

        Raises as `create_acls`.
        """
        ...

    # ------------------------------------------------------------------ users and quotas

    async def describe_scram_users(
        self, users: Iterable[str] | None = None, *, timeout: float | None = None
    ) -> dict[str, dict[str, int]]:
        """Each user's mechanisms with their iterations; never a credential."""
        ...

    async def upsert_scram_user(
        self,
        user: str,
        password: str,
        *,
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = 8192,
        timeout: float | None = None,
    ) -> None:
        """Create a user or give it a new password; the password itself never leaves this process."""
        ...

    async def delete_scram_user(
        self, user: str, *, mechanism: str = "SCRAM-SHA-512", timeout: float | None = None
    ) -> None:
        """Take away a user's credential for one mechanism; those for others stay.

        Raises:
            ResourceNotFound: the user has none for this mechanism.
        """
        ...

    async def describe_client_quotas(
        self, *, timeout: float | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """All quotas: `producer_byte_rate`, `consumer_byte_rate`, `request_percentage` ..."""
        ...

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[QuotaEntity, None]:
        """Set quotas; None takes one away."""
        ...

    # ------------------------------------------------------------------ transactions

    async def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = (), timeout: float | None = None
    ) -> list[TransactionListing]:
        """All transactional ids of all coordinators, of the states and producer ids given (none: all).

        `states` are Kafka's words, such as "Ongoing", "PrepareCommit", "CompleteAbort".
        """
        ...

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, TransactionDescription]:
        """State, producer, timeout in seconds, start and partitions of each transactional id.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False), with `TransactionalIdNotFound` where no
                coordinator knows the id.
        """
        ...

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        timeout: float | None = None,
    ) -> None:
        """Write an abort marker for one partition: the way out for a hanging transaction."""
        ...

    async def find_hanging_transactions(
        self, *, older_than: float = 900.0, timeout: float | None = None
    ) -> list[TransactionDescription]:
        """Transactions that are open in a log, but unknown to their coordinator, for so many seconds."""
        ...

    # ------------------------------------------------------------------ the cluster, and the end

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The cluster's id, brokers and controller (in KRaft: some live broker, R69 of the protocol)."""
        ...

    async def close(self, timeout: float = 5.0) -> None:
        """End all connections, within `timeout` seconds.  Safe to repeat."""
        ...
