"""Groups of any type for `pykafka2 groups`: the calls for share groups beside those for consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka2.errors import GroupIdNotFound, IllegalArgument, KafkaError

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient, TopicPartition
    from pykafka2.admin import GroupDescription, Outcomes

SHARE = "Share"
SHARE_COLUMNS = ["topic", "partition", "start", "lag"]


def is_share_group(client: KafkaAdminClient, name: str) -> bool:
    """Return whether a share group has this name; False if its coordinator cannot be reached."""
    return name in client.describe_share_groups([name], raise_errors=False).succeeded


def described_groups(client: KafkaAdminClient, names: list[str]) -> Outcomes[str, GroupDescription]:
    """Describe groups of all types but streams groups."""
    from pykafka2.admin import Outcomes

    others = client.describe_groups(names, raise_errors=False)
    rest = [
        name for name, error in others.errors.items() if isinstance(error, GroupIdNotFound | IllegalArgument)
    ]
    shares = client.describe_share_groups(rest, raise_errors=False).succeeded if rest else {}
    groups = others.succeeded | shares
    return Outcomes(
        {name: groups[name] for name in names if name in groups},
        {name: error for name, error in others.errors.items() if name not in groups},
    )


def share_rows(
    client: KafkaAdminClient, group: GroupDescription
) -> tuple[dict[TopicPartition, dict[str, Any]], dict[TopicPartition, KafkaError]]:
    """Return the fields of each partition that a share group reads, and the errors of partitions."""
    offsets = client.list_share_group_offsets(group.group_id, raise_errors=False)
    assigned = {one for member in group.members for one in member.assignment}
    known = offsets.succeeded
    rows = {
        one: {
            "topic": one.topic,
            "partition": one.partition,
            "start": known[one].offset if one in known else None,
            "lag": known[one].lag if one in known else None,
        }
        for one in sorted({*offsets, *assigned})
    }
    return rows, offsets.errors


def deleted_groups(client: KafkaAdminClient, names: list[str]) -> Outcomes[str, None]:
    """Delete groups of all types but streams groups."""
    from pykafka2.admin import Outcomes

    shares = list(client.describe_share_groups(names, raise_errors=False).succeeded)
    others = [name for name in names if name not in shares]
    outcomes = [client.delete_groups(others, raise_errors=False)] if others else []
    outcomes += [client.delete_share_groups(shares, raise_errors=False)] if shares else []
    return Outcomes(
        {name: None for some in outcomes for name in some.succeeded},
        {name: error for some in outcomes for name, error in some.errors.items()},
    )
