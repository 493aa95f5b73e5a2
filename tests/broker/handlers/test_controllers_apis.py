"""Which APIs run on the controller: as Kafka's `ApiKeys.forwardable`, and brokers' own requests to it."""

from __future__ import annotations

from pykafka2.broker.handlers.api import APIS, CONTROLLER, load

# Without requests for delegation tokens, which the receiving broker checks and has the controller carry out.
FORWARDABLE = {
    "CreateTopics",
    "DeleteTopics",
    "CreateAcls",
    "DeleteAcls",
    "AlterConfigs",
    "CreatePartitions",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "AlterClientQuotas",
    "AlterUserScramCredentials",
    "DescribeQuorum",
    "UpdateFeatures",
    "UnregisterBroker",
    "UnregisterController",
    "AddRaftVoter",
    "RemoveRaftVoter",
}
OF_BROKERS = {"AlterPartition", "BrokerRegistration", "AllocateProducerIds", "AssignReplicasToDirs"}


def test_controller_handles_the_apis_that_kafka_forwards() -> None:
    load()
    at_controller = {api.name for api in APIS.values() if api.at is CONTROLLER}
    assert at_controller == FORWARDABLE | OF_BROKERS
    assert {name for name in at_controller if not _is_for_clients(name)} == OF_BROKERS


def _is_for_clients(name: str) -> bool:
    (api,) = (api for api in APIS.values() if api.name == name)
    return not api.between_brokers
