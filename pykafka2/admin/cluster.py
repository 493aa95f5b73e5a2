"""The cluster: brokers, features, the quorum of controllers, versions of brokers, unregistration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pykafka2.admin.arguments import request_timeout_ms, text, uuid_bytes, whole_number
from pykafka2.admin.cluster_values import (
    ApiVersion,
    ClusterDescription,
    FeatureMetadata,
    FeatureUpdate,
    QuorumInfo,
    QuorumReplica,
    UpdateFeatureType,
    VersionRange,
)
from pykafka2.admin.group_descriptions import operations
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.places import at_brokers, at_one, broker_ids
from pykafka2.admin.rounds import Results, was_refused
from pykafka2.driver.pollable import AnyNode
from pykafka2.errors import IllegalArgument, KafkaError, UnknownTopicOrPartition, error_of, error_or_none
from pykafka2.text import type_of
from pykafka2.types import Node

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
    from pykafka2.protocol.messages.quorum import Listener, ReplicaState

METADATA_TOPIC = "__cluster_metadata"
MAX_LEVEL = 2**15 - 1
UPDATE_TYPES = ("UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE")


class ClusterAdmin:
    """The calls of `KafkaAdminClient` about the cluster. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout: float | None = None,
    ) -> ClusterDescription:
        """Return the cluster's id, brokers and controller (in KRaft any live broker).

        Args:
            include_authorized_operations: also return what the principal may do with the cluster (KIP-430).
            include_fenced_brokers: also return brokers that are registered but not up (KIP-1073).

        Raises:
            UnsupportedVersion: an option requires Kafka 2.8, fenced brokers 4.0.
        """
        from pykafka2.protocol.messages.cluster import DescribeClusterRequest
        from pykafka2.protocol.messages.metadata import MetadataRequest

        if not include_authorized_operations and not include_fenced_brokers:
            metadata = self._cluster.request(
                MetadataRequest(topics=[], allow_auto_topic_creation=False), timeout=timeout
            )
            nodes = [Node(one.node_id, one.host, one.port, one.rack) for one in metadata.brokers]
            return _described(metadata.cluster_id, metadata.controller_id, nodes)
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=include_authorized_operations,
            include_fenced_brokers=include_fenced_brokers,
        )
        response = self._cluster.request(request, AnyNode(), timeout, _error_of)
        return _described(
            response.cluster_id,
            response.controller_id,
            [Node(one.broker_id, one.host, one.port, one.rack) for one in response.brokers],
            operations(response.cluster_authorized_operations),
            tuple(sorted(one.broker_id for one in response.brokers if one.is_fenced)),
        )

    def describe_features(self, *, timeout: float | None = None) -> FeatureMetadata:
        """Return the levels of features in effect and those that a broker supports (KIP-584).

        The level of metadata.version, for example, decides which records the controllers write.
        """
        response = self._cluster.request(_api_versions_request(), AnyNode(), timeout, _error_of)
        return FeatureMetadata(
            {
                feature.name: VersionRange(feature.min_version_level, feature.max_version_level)
                for feature in sorted(response.finalized_features, key=lambda feature: feature.name)
            },
            response.finalized_features_epoch,
            {
                feature.name: VersionRange(feature.min_version, feature.max_version)
                for feature in sorted(response.supported_features, key=lambda feature: feature.name)
            },
        )

    def update_features(
        self,
        updates: Mapping[str, int | FeatureUpdate | tuple[UpdateFeatureType | int | str, int]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, None]:
        """Change the levels of features; all succeed or none does.

        Args:
            updates: by feature the new level (an upgrade), or a `FeatureUpdate` for a downgrade.
            validate_only: have the controller check the request without changing anything (KIP-778).

        Raises:
            ItemsFailed: the update failed (unless `raise_errors` is False): `InvalidUpdateVersion`,
                `FeatureUpdateFailed`, `ClusterAuthorizationFailed`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest

        if not isinstance(updates, Mapping):
            raise IllegalArgument(f"updates must be {{feature: level}}, not {type_of(updates)}")
        wanted = {text("updates", name): _update(name, update) for name, update in updates.items()}
        if not wanted:
            return Outcomes({})
        timeout_ms = request_timeout_ms(self._cluster, timeout)

        def request(names: list[str]) -> UpdateFeaturesRequest:
            return UpdateFeaturesRequest(
                timeout_ms=timeout_ms,
                feature_updates=[
                    FeatureUpdateKey(
                        feature=name,
                        max_version_level=wanted[name].max_version_level,
                        upgrade_type=wanted[name].upgrade_type.value,
                    )
                    for name in names
                ],
                validate_only=validate_only,
            )

        def read(response: Any, names: list[str]) -> Results[str, None]:
            if response.error_code:
                error = (response.error_code, response.error_message)
                return {}, {name: error_of(*error) for name in names}
            errors = {
                result.feature: error_of(result.error_code, result.error_message)
                for result in response.results  # of versions before 2
                if result.error_code
            }
            return {name: None for name in names if name not in errors}, dict(errors)

        outcomes = at_one(
            self._cluster, "update_features", wanted, request, read, timeout, retries=was_refused
        )
        return outcomes.checked("update_features", raise_errors)

    def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumInfo:
        """Return the quorum of controllers, and how far each has copied the metadata log (KIP-595, KIP-836).

        Raises:
            ClusterAuthorizationFailed: the principal lacks DESCRIBE on the cluster.
            UnsupportedVersion: the cluster uses ZooKeeper.
        """
        from pykafka2.protocol.messages.quorum import (
            DescribeQuorumRequest,
            DescribeQuorumRequestPartitionData,
            DescribeQuorumRequestTopicData,
        )

        request = DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequestTopicData(
                    topic_name=METADATA_TOPIC,
                    partitions=[DescribeQuorumRequestPartitionData(partition_index=0)],
                )
            ]
        )
        response = self._cluster.request(request, AnyNode(), timeout, _error_of_quorum)
        quorum = response.topics[0].partitions[0]
        return QuorumInfo(
            quorum.leader_id,
            quorum.leader_epoch,
            quorum.high_watermark,
            _replicas(quorum.current_voters),
            _replicas(quorum.observers),
            {
                node.node_id: tuple(
                    (listener.name, listener.host, listener.port) for listener in node.listeners
                )
                for node in sorted(response.nodes, key=lambda node: node.node_id)
            },
        )

    def add_raft_voter(
        self,
        voter_id: int,
        directory_id: bytes | UUID,
        listeners: Mapping[str, tuple[str, int]],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Make a controller a voter of the quorum (KIP-853).

        Args:
            voter_id: the controller's node id.
            directory_id: the id of its metadata directory, which its `meta.properties` has.
            listeners: its hosts and ports by listener, such as {"CONTROLLER": ("kafka-3", 9093)}.
            cluster_id: the cluster that is meant; the controller refuses the call if it has another id.

        Raises:
            DuplicateVoter: the controller is a voter already.
            InconsistentClusterId, InvalidRequest: the cluster or the listeners are others.
            UnsupportedVersion: the quorum is static (kraft.version 0), or Kafka older than 3.9.
            ClusterAuthorizationFailed: the principal lacks ALTER on the cluster.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.quorum import AddRaftVoterRequest

        request = AddRaftVoterRequest(
            cluster_id=None if cluster_id is None else text("cluster_id", cluster_id),
            timeout_ms=request_timeout_ms(self._cluster, timeout),
            voter_id=whole_number("voter_id", voter_id, 0),
            voter_directory_id=uuid_bytes("directory_id", directory_id),
            listeners=_listeners(listeners),
        )
        self._cluster.request(request, AnyNode(), timeout, _error_of)

    def remove_raft_voter(
        self,
        voter_id: int,
        directory_id: bytes | UUID,
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Remove a voter from the quorum of controllers (KIP-853). Arguments and errors: `add_raft_voter`.

        Raises:
            VoterNotFound: there is no voter with these ids.
        """
        from pykafka2.protocol.messages.quorum import RemoveRaftVoterRequest

        request = RemoveRaftVoterRequest(
            cluster_id=None if cluster_id is None else text("cluster_id", cluster_id),
            voter_id=whole_number("voter_id", voter_id, 0),
            voter_directory_id=uuid_bytes("directory_id", directory_id),
        )
        self._cluster.request(request, AnyNode(), timeout, _error_of)

    def api_versions(
        self,
        brokers: Iterable[int] | None = None,
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[int, dict[str, ApiVersion]]:
        """Return the APIs of brokers (None: of all) by name, with their versions.

        Raises:
            ItemsFailed: some brokers failed (unless `raise_errors` is False).
            IllegalArgument: `brokers` is not a list of ids; no request was sent.
        """
        from pykafka2.protocol.registry import name_of

        def read(response: Any, broker: int) -> dict[str, ApiVersion]:
            if response.error_code:
                raise error_of(response.error_code)
            return {
                name_of(api.api_key): ApiVersion(api.api_key, api.min_version, api.max_version)
                for api in sorted(response.api_keys, key=lambda api: api.api_key)
            }

        outcomes = at_brokers(
            self._cluster,
            "api_versions",
            checked_brokers(self._cluster, brokers, timeout),
            lambda broker: _api_versions_request(),
            read,
            timeout,
        )
        return outcomes.checked("api_versions", raise_errors)

    def unregister_broker(self, broker_id: int, *, timeout: float | None = None) -> None:
        """Remove a broker that was shut down for good from the cluster's metadata.

        Its replicas keep their assignment: move them away first.

        Raises:
            BrokerIdNotRegistered: there is no such broker.
            ClusterAuthorizationFailed: the principal lacks ALTER on the cluster.
            IllegalArgument: the id is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.cluster import UnregisterBrokerRequest

        request = UnregisterBrokerRequest(broker_id=whole_number("broker_id", broker_id, 0))
        self._cluster.request(request, AnyNode(), timeout, _error_of)

    def unregister_controller(self, controller_id: int, *, timeout: float | None = None) -> None:
        """Remove a KRaft controller that was shut down for good from the cluster's metadata (KIP-1331).

        Call `remove_raft_voter` first if it is a voter. A controller that still runs registers again.

        Raises:
            ControllerIdNotRegistered: there is no such controller.
            InvalidRequest: it is the active controller.
            UnsupportedVersion: the brokers are older than Kafka 4.4, or their metadata.version is below 33.
            ClusterAuthorizationFailed: the principal lacks ALTER on the cluster.
            IllegalArgument: the id is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.cluster import UnregisterControllerRequest

        request = UnregisterControllerRequest(controller_id=whole_number("controller_id", controller_id, 0))
        self._cluster.request(request, AnyNode(), timeout, _error_of)


def checked_brokers(
    cluster: ClusterClient, brokers: Iterable[int] | None, timeout: float | None
) -> list[int]:
    """Return the ids, or those of all brokers that are up for None. Raise IllegalArgument."""
    if brokers is None:
        return broker_ids(cluster, timeout)
    if isinstance(brokers, str | int) or not hasattr(brokers, "__iter__"):
        raise IllegalArgument(f"brokers={brokers!r} must be a list of broker ids")
    return [whole_number("broker id", broker, 0) for broker in dict.fromkeys(brokers)]


def _listeners(listeners: Mapping[str, tuple[str, int]]) -> list[Listener]:
    from pykafka2.protocol.messages.quorum import Listener

    if not isinstance(listeners, Mapping) or not listeners:
        raise IllegalArgument(f"listeners={listeners!r} must be a dict of (host, port) by listener")
    made = []
    for name, address in listeners.items():
        if not isinstance(address, tuple) or len(address) != 2:
            raise IllegalArgument(f"listeners[{name!r}] must be (host, port), not {address!r}")
        host, port = text("host", address[0]), whole_number("port", address[1], 1, 65535)
        made.append(Listener(name=text("listener", name), host=host, port=port))
    return made


def _described(
    cluster_id: str | None,
    controller_id: int,
    nodes: list[Node],
    authorized: tuple[str, ...] | None = None,
    fenced: tuple[int, ...] = (),
) -> ClusterDescription:
    in_order = tuple(sorted(nodes, key=lambda node: node.id))
    controller = next((node for node in in_order if node.id == controller_id), None)
    return ClusterDescription(cluster_id, controller, in_order, authorized, fenced)


def _api_versions_request() -> ApiVersionsRequest:
    from pykafka2.network.handshake import SOFTWARE_NAME, SOFTWARE_VERSION
    from pykafka2.protocol.messages.api_versions import ApiVersionsRequest

    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)


def _update(name: str, update: object) -> FeatureUpdate:
    if isinstance(update, tuple) and len(update) == 2:
        kind, level = update
        if isinstance(kind, str) and kind.upper() in UPDATE_TYPES:
            kind = UpdateFeatureType[kind.upper()]
        if not isinstance(kind, int) or kind not in tuple(UpdateFeatureType):
            raise IllegalArgument(f"{name}: {kind!r} is not one of {', '.join(UPDATE_TYPES)}")
        update = FeatureUpdate(level, UpdateFeatureType(kind))
    if not isinstance(update, FeatureUpdate):
        update = FeatureUpdate(whole_number(f"the level of {name}", update, 0, MAX_LEVEL))
    whole_number(f"the level of {name}", update.max_version_level, 0, MAX_LEVEL)
    return update


def _replicas(states: list[ReplicaState]) -> tuple[QuorumReplica, ...]:
    return tuple(
        QuorumReplica(
            state.replica_id,
            state.log_end_offset,
            None if state.last_fetch_timestamp < 0 else state.last_fetch_timestamp,
            None if state.last_caught_up_timestamp < 0 else state.last_caught_up_timestamp,
            bytes(state.replica_directory_id),
        )
        for state in sorted(states, key=lambda state: state.replica_id)
    )


def _error_of(response: Any) -> KafkaError | None:
    if not response.error_code:
        return None
    return error_of(response.error_code, getattr(response, "error_message", None))


def _error_of_quorum(response: Any) -> KafkaError | None:
    error = _error_of(response)
    if error is not None:
        return error
    if not response.topics or not response.topics[0].partitions:
        return UnknownTopicOrPartition("the response does not contain the metadata log")
    partition = response.topics[0].partitions[0]
    return error_or_none(partition.error_code, partition.error_message)
