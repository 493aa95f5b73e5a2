"""Settings of topics, brokers, groups (DescribeConfigs, IncrementalAlterConfigs, ListConfigResources)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka2.admin.arguments import config_value, texts
from pykafka2.admin.config_values import (
    SOURCES,
    TYPES,
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSynonym,
)
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.rounds import Part, Results, Rounds, is_retriable, was_refused
from pykafka2.driver.pollable import AnyNode, ToNode
from pykafka2.errors import IllegalArgument, KafkaError, error_of, error_or_none

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient

V = TypeVar("V")

Value = str | int | float | bool | None
"""A value to set; None restores the default."""
Change = Value | tuple[AlterConfigOp | int | str, Value]
"""A value, or an operation with its value."""

OWN_SOURCES = {
    ConfigResourceType.TOPIC: "DYNAMIC_TOPIC_CONFIG",
    ConfigResourceType.BROKER: "DYNAMIC_BROKER_CONFIG",
    ConfigResourceType.BROKER_LOGGER: "DYNAMIC_BROKER_LOGGER_CONFIG",
    ConfigResourceType.CLIENT_METRICS: "DYNAMIC_CLIENT_METRICS_CONFIG",
    ConfigResourceType.GROUP: "DYNAMIC_GROUP_CONFIG",
}
"""The source of settings that belong to the resource itself."""
CLUSTER_WIDE = "DYNAMIC_DEFAULT_BROKER_CONFIG"
"""The source of those of the broker with the empty name."""


class ConfigsAdmin:
    """The configuration calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[ConfigResource, dict[str, ConfigEntry]]:
        """Return the settings of each resource with their sources; sensitive values are None.

        Args:
            resources: topics, brokers, groups ...; the `configs` of a resource select settings by name.
            include_synonyms: also return the values that are overridden, with their sources (KIP-226).
            include_documentation: also return Kafka's description of each setting (KIP-569).

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `UnknownTopicOrPartition`,
                `InvalidRequest` for a broker id that is no number, `TopicAuthorizationFailed`,
                `ClusterAuthorizationFailed`, `GroupAuthorizationFailed`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource

        def request(some: list[ConfigResource]) -> DescribeConfigsRequest:
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.resource_type.value,
                        resource_name=resource.name,
                        configuration_keys=None if resource.configs is None else list(resource.configs),
                    )
                    for resource in some
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )

        def read(
            response: Any, some: list[ConfigResource]
        ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
            return _read(response.results, _entries)

        outcomes = self._at_homes(
            "describe_configs", _resources(resources), request, read, timeout, is_retriable
        )
        return outcomes.checked("describe_configs", raise_errors)

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, Change]] | Iterable[ConfigResource],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[ConfigResource, None]:
        """Alter settings; None restores a default. Other settings stay unchanged (KIP-339).

        Args:
            changes: by resource the new values by name; `(AlterConfigOp.APPEND, "compact")` and SUBTRACT
                change the items of a list. A list of resources with `configs` is accepted, too.
            validate_only: have the brokers check the changes without making them.

        Raises:
            ItemsFailed: some were rejected (unless `raise_errors` is False), each whole: `InvalidConfig`,
                `UnknownTopicOrPartition`, `TopicAuthorizationFailed`, `ClusterAuthorizationFailed`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.configs import (
            IncrementalAlterConfigsRequest,
            IncrementalAlterConfigsRequestAlterableConfig,
            IncrementalAlterConfigsRequestAlterConfigsResource,
        )

        resources = _resources(changes)
        settings = {
            resource: _operations(
                resource, changes[resource] if isinstance(changes, Mapping) else resource.configs
            )
            for resource in resources
        }

        def request(some: list[ConfigResource]) -> IncrementalAlterConfigsRequest:
            return IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsRequestAlterConfigsResource(
                        resource_type=resource.resource_type.value,
                        resource_name=resource.name,
                        configs=[
                            IncrementalAlterConfigsRequestAlterableConfig(
                                name=name, config_operation=operation.value, value=value
                            )
                            for name, (operation, value) in settings[resource].items()
                        ],
                    )
                    for resource in some
                ],
                validate_only=validate_only,
            )

        def read(response: Any, some: list[ConfigResource]) -> Results[ConfigResource, None]:
            return _read(response.responses, lambda result: None)

        outcomes = self._at_homes("alter_configs", resources, request, read, timeout, was_refused)
        return outcomes.checked("alter_configs", raise_errors)

    def reset_configs(
        self,
        resources: Mapping[ConfigResource, Iterable[str] | None] | Iterable[ConfigResource],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[ConfigResource, tuple[str, ...]]:
        """Restore the defaults of settings; return their names by resource.

        Args:
            resources: by resource the names of settings; None, or a resource alone, restores all that are set
                for the resource itself. The min.insync.replicas of all brokers stays unless it is named,
                because brokers with eligible leader replicas need it.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False), as in `alter_configs`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        named: dict[ConfigResource, Iterable[str] | None]
        if isinstance(resources, Mapping):
            named = {resource: resources[resource] for resource in _resources(resources)}
        else:
            named = {resource: resource.configs for resource in _resources(resources)}
        wanted = {resource: texts("configs", names) for resource, names in named.items() if names is not None}
        whole = [resource for resource in named if resource not in wanted]
        described = self.describe_configs(
            [ConfigResource(resource.resource_type, resource.name) for resource in whole],
            timeout=timeout,
            raise_errors=False,
        )
        for resource, entries in described.succeeded.items():
            is_cluster_wide = resource.resource_type is ConfigResourceType.BROKER and not resource.name
            own = CLUSTER_WIDE if is_cluster_wide else OWN_SOURCES[resource.resource_type]
            wanted[resource] = [
                name
                for name, entry in entries.items()
                if entry.source == own and not (is_cluster_wide and name == "min.insync.replicas")
            ]
        altered = self.alter_configs(
            {resource: dict.fromkeys(names) for resource, names in wanted.items() if names},
            validate_only=validate_only,
            timeout=timeout,
            raise_errors=False,
        )
        errors = described.errors | altered.errors
        outcomes = Outcomes(
            {resource: tuple(wanted[resource]) for resource in named if resource not in errors}, errors
        )
        return outcomes.checked("reset_configs", raise_errors)

    def list_config_resources(
        self,
        types: Iterable[ConfigResourceType | str] = (),
        *,
        timeout: float | None = None,
    ) -> list[ConfigResource]:
        """Return the resources that can have settings, of these types (all if empty), sorted (KIP-1142).

        Groups and client metrics are listed only if they have settings.

        Raises:
            UnsupportedVersion: brokers before Kafka 4.1 only list client metrics.
            ClusterAuthorizationFailed: the principal lacks DESCRIBE_CONFIGS on the cluster.
            IllegalArgument: a type is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.configs import ListConfigResourcesRequest

        wanted = [ConfigResource(kind, "").resource_type for kind in types]
        only_metrics = set(wanted) == {ConfigResourceType.CLIENT_METRICS}
        request = ListConfigResourcesRequest(
            resource_types=[] if only_metrics else [kind.value for kind in wanted]
        )
        response = self._cluster.request(
            request, AnyNode(), timeout, _error_of_listing, max_version=0 if only_metrics else None
        )
        return sorted(
            (
                ConfigResource(entry.resource_type, entry.resource_name)
                for entry in response.config_resources
                if entry.resource_type in tuple(ConfigResourceType)
            ),
            key=lambda resource: (resource.resource_type, resource.name),
        )

    def list_client_metrics_resources(self, *, timeout: float | None = None) -> list[str]:
        """Return the names of the subscriptions to client metrics (KIP-714), sorted.

        Raise the errors of `list_config_resources`.
        """
        resources = self.list_config_resources([ConfigResourceType.CLIENT_METRICS], timeout=timeout)
        return [resource.name for resource in resources]

    def _at_homes(
        self,
        operation: str,
        resources: list[ConfigResource],
        request: Callable[[list[ConfigResource]], Any],
        read: Callable[[Any, list[ConfigResource]], Results[ConfigResource, V]],
        timeout: float | None,
        retries: Callable[[KafkaError], bool],
    ) -> Outcomes[ConfigResource, V]:
        """Send the resources that are brokers to these brokers, the others together to any."""

        def divide(
            pending: list[ConfigResource], left: float
        ) -> tuple[list[Part[ConfigResource, V]], dict[ConfigResource, KafkaError]]:
            shares: dict[int | None, list[ConfigResource]] = {}
            for resource in pending:
                shares.setdefault(_home(resource), []).append(resource)
            return [part(home, some) for home, some in shares.items()], {}

        def part(home: int | None, some: list[ConfigResource]) -> Part[ConfigResource, V]:
            to = AnyNode() if home is None else ToNode(home)
            return Part(some, request(some), to, lambda response: read(response, some))

        return Rounds(self._cluster, operation, timeout, retries).run(resources, divide)


def _home(resource: ConfigResource) -> int | None:
    """Return the id of the broker that must get the request, or None for any."""
    is_broker = resource.resource_type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
    return int(resource.name) if is_broker and resource.name.isdecimal() else None


def _resources(resources: Iterable[ConfigResource]) -> list[ConfigResource]:
    if isinstance(resources, ConfigResource | str):
        raise IllegalArgument(
            f"resources={resources!r} must be a list; pass [{resources!r}] for a single one"
        )
    unique = list(dict.fromkeys(resources))
    for resource in unique:
        if not isinstance(resource, ConfigResource):
            raise IllegalArgument(f"resources must contain ConfigResource values, not {resource!r}")
    return unique


def _operations(resource: ConfigResource, changes: object) -> dict[str, tuple[AlterConfigOp, str | None]]:
    if not isinstance(changes, Mapping):
        raise IllegalArgument(f"{resource}: the changes must be a dict of values by name, not {changes!r}")
    return {name: _operation(resource, name, change) for name, change in changes.items()}


def _operation(resource: ConfigResource, name: str, change: Change) -> tuple[AlterConfigOp, str | None]:
    operation: Any = None
    value = change
    if isinstance(change, tuple):
        if len(change) != 2:
            raise IllegalArgument(f"{resource}: {name}={change!r} must be a value or (operation, value)")
        operation, value = change
    if operation is None:
        operation = AlterConfigOp.DELETE if value is None else AlterConfigOp.SET
    elif isinstance(operation, str) and operation.upper() in AlterConfigOp.__members__:
        operation = AlterConfigOp[operation.upper()]
    elif isinstance(operation, int) and operation in tuple(AlterConfigOp):
        operation = AlterConfigOp(operation)
    else:
        names = ", ".join(AlterConfigOp.__members__)
        raise IllegalArgument(f"{resource}: {name}: operation {operation!r} is not one of {names}")
    if operation is AlterConfigOp.DELETE:
        return operation, None
    return operation, config_value(f"{resource}: {name}", value)


def _read(results: Any, value: Callable[[Any], V]) -> Results[ConfigResource, V]:
    found: dict[ConfigResource, V] = {}
    errors: dict[ConfigResource, KafkaError] = {}
    for result in results:
        resource = ConfigResource(result.resource_type, result.resource_name)
        if result.error_code:
            errors[resource] = error_of(result.error_code, result.error_message)
        else:
            found[resource] = value(result)
    return found, errors


def _entries(result: Any) -> dict[str, ConfigEntry]:
    return {
        entry.name: ConfigEntry(
            entry.name,
            entry.value,
            _named(SOURCES, entry.config_source),
            entry.read_only,
            entry.is_sensitive,
            _named(TYPES, entry.config_type),
            tuple(
                ConfigSynonym(synonym.name, synonym.value, _named(SOURCES, synonym.source))
                for synonym in entry.synonyms
            ),
            entry.documentation or None,
        )
        for entry in sorted(result.configs, key=lambda entry: entry.name)
    }


def _named(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"UNKNOWN({number})"


def _error_of_listing(response: Any) -> KafkaError | None:
    return error_or_none(response.error_code)
