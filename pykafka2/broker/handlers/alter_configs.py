"""IncrementalAlterConfigs and AlterConfigs: change options of resources (KIP-226, KIP-339).

The controller makes the changes. As in Kafka, a request about one broker must be sent to that broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pykafka2.broker.base.image import BROKER_RESOURCE, LOGGER_RESOURCE
from pykafka2.broker.controller.control.configs import ConfigChange, Operation, configured, replaced
from pykafka2.broker.handlers.api import CONTROLLER, api, services_of_receiver
from pykafka2.broker.handlers.authorization import check_configs
from pykafka2.broker.server.responses import Refusal
from pykafka2.errors import BrokerError, InvalidConfig, InvalidRequest, UnknownServerError
from pykafka2.protocol.acl_terms import Operation as AclOperation
from pykafka2.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from pykafka2.protocol.struct import MetadataRecord

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

LOG_LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")

ALTERED: Final = Refusal(silent=UnknownServerError)

Outcome = tuple[Any, "BrokerError | int"]
"""A resource of the request, and the error if it was not changed, or 0."""


@api(
    IncrementalAlterConfigsRequest,
    0,
    1,
    at=CONTROLLER,
    access=check_configs(AclOperation.ALTER_CONFIGS, names_loggers=True),
    refusal=ALTERED,
)
def handle_incremental(
    services: Services, context: RequestContext, request: IncrementalAlterConfigsRequest, now: float
) -> IncrementalAlterConfigsResponse:
    receiver = services_of_receiver(services, context)

    def change(resource: Any) -> list[MetadataRecord]:
        changes = [
            ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs
        ]
        if resource.resource_type == LOGGER_RESOURCE:
            _change_loggers(receiver, resource.resource_name, changes, validate_only=request.validate_only)
            return []
        return configured(services.controller, resource.resource_type, resource.resource_name, changes)

    outcomes = _altered(services, receiver, request, change)
    return IncrementalAlterConfigsResponse(
        responses=[
            ALTERED.entry(
                IncrementalAlterConfigsResponseAlterConfigsResourceResponse, resource, context.version, error
            )
            for resource, error in outcomes
        ]
    )


@api(
    AlterConfigsRequest,
    0,
    2,
    at=CONTROLLER,
    access=check_configs(AclOperation.ALTER_CONFIGS),
    refusal=ALTERED,
)
def handle(
    services: Services, context: RequestContext, request: AlterConfigsRequest, now: float
) -> AlterConfigsResponse:
    def change(resource: Any) -> list[MetadataRecord]:
        configs = {config.name: config.value for config in resource.configs}
        return replaced(services.controller, resource.resource_type, resource.resource_name, configs)

    outcomes = _altered(services, services_of_receiver(services, context), request, change)
    cls = AlterConfigsResponseAlterConfigsResourceResponse
    return AlterConfigsResponse(
        responses=[ALTERED.entry(cls, resource, context.version, error) for resource, error in outcomes]
    )


def _altered(
    services: Services, receiver: Services, request: Any, change: Callable[[Any], list[MetadataRecord]]
) -> list[Outcome]:
    """Make all valid changes in one write, and return errors for the others."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    outcomes: list[Outcome] = []
    records: list[MetadataRecord] = []
    for resource in request.resources:
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            _check(receiver, resource)
            changes = change(resource)
        except BrokerError as error:
            outcomes.append((resource, error))
            continue
        outcomes.append((resource, 0))
        records += changes
    if not request.validate_only:
        services.controller.write(records)
    return outcomes


def _check(receiver: Services, resource: Any) -> None:
    """Perform the checks of the broker that received the request, before the controller handles it."""
    nulls = [
        config.name
        for config in resource.configs
        if config.value is None and getattr(config, "config_operation", Operation.SET) != Operation.DELETE
    ]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")
    names = [config.name for config in resource.configs]
    if len(set(names)) < len(names):
        raise InvalidRequest("Error due to duplicate config keys")
    name = resource.resource_name
    if resource.resource_type == LOGGER_RESOURCE or (resource.resource_type == BROKER_RESOURCE and name):
        try:
            node = int(name)
        except ValueError:
            raise InvalidRequest(f"Node id must be an integer, but it is: {name}") from None
        if node != receiver.id and resource.resource_type == BROKER_RESOURCE:
            raise InvalidRequest(f"Unexpected broker id, expected {receiver.id}, but received {name}")
        if node != receiver.id:
            raise InvalidRequest(f"Unexpected node id. Expected {receiver.id}, but received {name}")


def _change_loggers(
    receiver: Services, name: str, changes: list[ConfigChange], *, validate_only: bool
) -> None:
    """Change a broker's log levels, which the controller does not store."""
    levels = dict(receiver.log_levels)
    for change in changes:
        if change.operation in (Operation.APPEND, Operation.SUBTRACT):
            verb = Operation(change.operation).name
            raise InvalidRequest(f"{verb} operation is not allowed for the BROKER_LOGGER resource")
        if change.name not in levels:
            raise InvalidConfig(f"Logger {change.name} does not exist!")
        if change.operation == Operation.DELETE:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
        if change.value not in LOG_LEVELS:
            raise InvalidConfig(
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log "
                f"level. Valid log levels are {', '.join(LOG_LEVELS)}"
            )
        levels[change.name] = change.value
    if not validate_only:
        receiver.log_levels.update(levels)
