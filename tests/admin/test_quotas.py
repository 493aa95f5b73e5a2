"""Client quotas by the admin client: set, described, deleted, refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, QuotaEntity, errors
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster, Simulation

DEFAULT, ANY = QuotaEntity.DEFAULT, QuotaEntity.ANY
ANN, BOB = QuotaEntity(user="ann"), QuotaEntity(user="bob")
APP = QuotaEntity(client_id="app")
ANN_APP = QuotaEntity(user="ann", client_id="app")
ANYBODY = QuotaEntity(user=DEFAULT)
HOST = QuotaEntity(ip="10.0.0.1")


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    return simulation.cluster(brokers=2)


@pytest.fixture
def admin(simulation: Simulation, cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        yield admin


@pytest.fixture
def quotas(simulation: Simulation, admin: KafkaAdminClient) -> dict[QuotaEntity, dict[str, float]]:
    """Quotas of every kind of entity."""
    changes: dict[QuotaEntity, dict[str, float]] = {
        ANN: {"consumer_byte_rate": 2e6, "producer_byte_rate": 1e6},
        BOB: {"request_percentage": 50.5},
        APP: {"producer_byte_rate": 3e6},
        ANN_APP: {"controller_mutation_rate": 0.5},
        ANYBODY: {"producer_byte_rate": 4e6},
        HOST: {"connection_creation_rate": 5},
    }
    assert set(admin.alter_client_quotas(changes)) == set(changes)
    simulation.run_for(1)
    return changes


def test_quotas_are_described_as_they_were_set(admin: KafkaAdminClient, quotas: Any) -> None:
    assert admin.describe_client_quotas() == quotas


@pytest.mark.parametrize(
    ("matching", "strict", "found"),
    [
        (ANN, False, {ANN, ANN_APP}),
        (ANN, True, {ANN}),
        (QuotaEntity(user=ANY), False, {ANN, BOB, ANN_APP, ANYBODY}),
        (QuotaEntity(user=ANY), True, {ANN, BOB, ANYBODY}),
        (ANYBODY, False, {ANYBODY}),
        (QuotaEntity(client_id=ANY), True, {APP}),
        (QuotaEntity(user=ANY, client_id="app"), False, {ANN_APP}),
        (QuotaEntity(ip=ANY), False, {HOST}),
        (QuotaEntity(user="nobody"), False, set()),
    ],
)
def test_a_filter_selects_entities(
    admin: KafkaAdminClient, quotas: Any, matching: QuotaEntity, strict: bool, found: set[QuotaEntity]
) -> None:
    assert set(admin.describe_client_quotas(matching, strict=strict)) == found


def test_removing_a_quota_keeps_the_others(
    admin: KafkaAdminClient, simulation: Simulation, quotas: Any
) -> None:
    admin.alter_client_quotas({ANN: {"producer_byte_rate": None}, BOB: {"request_percentage": None}})
    simulation.run_for(1)
    described = admin.describe_client_quotas()
    assert described[ANN] == {"consumer_byte_rate": 2e6}
    assert BOB not in described


def test_validate_only_changes_no_quota(admin: KafkaAdminClient, simulation: Simulation) -> None:
    assert list(admin.alter_client_quotas({ANN: {"producer_byte_rate": 5}}, validate_only=True)) == [ANN]
    simulation.run_for(1)
    assert admin.describe_client_quotas() == {}


def test_a_rejected_entity_does_not_prevent_other_changes(
    admin: KafkaAdminClient, simulation: Simulation
) -> None:
    changes: dict[QuotaEntity, dict[str, float]] = {
        ANN: {"producer_byte_rate": 1.5},
        BOB: {"producer_byte_rate": 2},
    }
    with pytest.raises(ItemsFailed, match="cannot be a fractional value"):
        admin.alter_client_quotas(changes)
    outcomes = admin.alter_client_quotas(changes, raise_errors=False)
    assert isinstance(outcomes.errors[ANN], errors.InvalidRequest)
    simulation.run_for(1)
    assert admin.describe_client_quotas() == {BOB: {"producer_byte_rate": 2.0}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({QuotaEntity(): {"producer_byte_rate": 1}}, r"QuotaEntity\(\) is empty; set user"),
        ({"ann": {"producer_byte_rate": 1}}, "must be a QuotaEntity"),
        ({QuotaEntity(user=""): {"producer_byte_rate": 1}}, "user='' must be a name"),
        ({QuotaEntity(user=ANY): {"producer_byte_rate": 1}}, "must be a name or QuotaEntity.DEFAULT"),
        (
            {QuotaEntity(user="a", ip="10.0.0.1"): {"producer_byte_rate": 1}},
            "combines ip with other names; set user",
        ),
        ({ANN: {"producer_bite_rate": 1}}, "use one of producer_byte_rate, consumer_byte_rate, request_perc"),
        ({HOST: {"producer_byte_rate": 1}}, "use one of connection_creation_rate"),
        ({ANN: {"producer_byte_rate": 0}}, "must be a number above 0"),
        ({ANN: {"producer_byte_rate": True}}, "must be a number above 0"),
        ({ANN: {"producer_byte_rate": "5"}}, "must be a number above 0"),
        ({ANN: {"producer_byte_rate": float("inf")}}, "must be a number above 0"),
        ({ANN: {"producer_byte_rate": 10**400}}, "must be a number above 0"),
        ({ANN: 5}, "must be a dict"),
        ([ANN], "must map QuotaEntity"),
    ],
)
def test_illegal_changes_raise_before_a_request_is_sent(
    admin: KafkaAdminClient, cluster: KafkaCluster, changes: Any, words: str
) -> None:
    with pytest.raises(errors.IllegalArgument, match=words):
        admin.alter_client_quotas(changes)
    cluster.history.never("AlterClientQuotas")


def test_an_illegal_filter_is_refused(admin: KafkaAdminClient) -> None:
    with pytest.raises(errors.IllegalArgument, match=r"QuotaEntity\(\) is empty"):
        admin.describe_client_quotas(QuotaEntity())


def test_empty_changes_send_no_request(admin: KafkaAdminClient, cluster: KafkaCluster) -> None:
    assert dict(admin.alter_client_quotas({})) == {}
    cluster.history.never("AlterClientQuotas")


def test_quotas_require_config_operations_on_the_cluster(simulation: Simulation) -> None:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": True}
    cluster = simulation.cluster(brokers=1, config=config)
    cluster.acls.deny("User:*", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", cluster=True)
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        with pytest.raises(errors.ClusterAuthorizationFailed):
            admin.describe_client_quotas()
        outcomes = admin.alter_client_quotas({ANN: {"producer_byte_rate": 5}}, raise_errors=False)
        assert isinstance(outcomes.errors[ANN], errors.ClusterAuthorizationFailed)
        cluster.acls.revoke()
        assert admin.describe_client_quotas() == {}
