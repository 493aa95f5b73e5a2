"""Authorization of requests: the checks, and the gate that runs an API's check before its function.

A check allows the request (None), rejects it as a whole (an error code), or responds. A check that denies
some entries removes them from the request and adds their errors to the response. Checks are stateless.

The gate exists if authorizer.class.name names Kafka's StandardAuthorizer. It uses the ACLs of the broker's
latest metadata (the controller's, for requests that the controller handles) and rebuilds its index when they
change. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any, Final

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.security.acls import NO_ACLS, Acls
from pykafka2.broker.security.authorizer import MAX_CALLERS, Access, Authorizer, Rights, Settings
from pykafka2.broker.security.principal import Caller
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.responses import lists_of_entries
from pykafka2.clock import Clock
from pykafka2.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.registry import ApiKey, name_of
from pykafka2.protocol.struct import Response

MESSAGES = {
    TopicAuthorizationFailed.code: "Topic authorization failed.",
    GroupAuthorizationFailed.code: "Group authorization failed.",
    ClusterAuthorizationFailed.code: "Cluster authorization failed.",
    TransactionalIdAuthorizationFailed.code: "Transactional Id authorization failed.",
}
"""Kafka's message for each error."""

REFUSAL_OF: dict[int, type[BrokerError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}


class Checked:
    """A request that is being checked.

    `image` is that of the handling broker, or the controller's if that handles it. Created for each request:
    not an attrs class, whose `__init__` takes twice as long.
    """

    __slots__ = ("access", "context", "image", "services")

    def __init__(
        self, services: Services, context: RequestContext, access: Access, image: ClusterImage
    ) -> None:
        self.services = services
        self.context = context
        self.access = access
        self.image = image

    @property
    def request(self) -> Any:
        return self.context.request

    @property
    def version(self) -> int:
        return self.context.version

    def replace(self, **changed: Any) -> Any:
        """Replace the request by a copy with these fields changed."""
        rest = copy(self.context.request)
        for name, value in changed.items():
            setattr(rest, name, value)
        self.context.request = rest
        return rest

    def amend(self, change: Callable[[Any], None]) -> None:
        """Change the response before it is sent, after the changes of other checks."""
        earlier = self.context.amend

        def amended(response: Any) -> None:
            if earlier is not None:
                earlier(response)
            change(response)

        self.context.amend = amended


Verdict = Response | int | None
Check = Callable[[Checked], Verdict]


def OPEN(checked: Checked) -> Verdict:  # noqa: N802  a value of `access=`, like BROKERS
    """Allow every client: the request needs no right, and its declaration says so (ApiVersions, SASL)."""
    return None


def BROKERS(checked: Checked) -> Verdict:  # noqa: N802
    """Allow only brokers, over their links; clients do not see the API."""
    return None if checked.context.origin.caller.is_broker else code_of(ResourceType.CLUSTER)


def code_of(resource_type: int) -> int:
    """Return the error code for denied access to a resource of this type."""
    return REFUSAL_OF[resource_type].code or 0


def on_cluster(operation: int) -> Check:
    """Return a check: the request needs this operation on the cluster."""

    def check(checked: Checked) -> Verdict:
        return None if checked.access.may_on_cluster(operation) else code_of(ResourceType.CLUSTER)

    return check


def on_named(operation: int, resource_type: ResourceType, field: str) -> Check:
    """Return a check: the request needs this operation on the resource in a field, which is not null."""

    def check(checked: Checked) -> Verdict:
        if checked.access.may(operation, resource_type, getattr(checked.request, field)):
            return None
        return code_of(resource_type)

    return check


def topic_name(entry: Any, image: ClusterImage) -> str | None:
    """Return the topic of an entry; None for an unknown id.

    If both are set, the id counts, as for handlers: otherwise an allowed name would give access to any id.
    """
    known = image.topic_names.get(getattr(entry, "topic_id", None))  # type: ignore[arg-type]
    if known is not None:
        return known
    name = getattr(entry, "name", None) or getattr(entry, "topic", None)
    return name if isinstance(name, str) else None


def group_name(entry: Any, image: ClusterImage) -> str:
    """Return the id of the group in an entry, which can also be a name itself."""
    return str(getattr(entry, "group_id", entry))


def each_topic(operation: int, **options: Any) -> Check:
    """Return a check: every topic of the request needs this operation; see `each`."""
    return each(operation, ResourceType.TOPIC, topic_name, **options)


def each(
    operation: int,
    resource_type: ResourceType,
    name_of: Callable[[Any, ClusterImage], str | None] = group_name,
    *,
    message: str | None = "",
    skip_duplicates: bool = False,
    unless: Callable[[Checked], bool] = lambda checked: False,
) -> Check:
    """Return a check: every entry of the request needs this operation, and those without it get an error.

    Entries for which `name_of` returns None are left to the handler, and with `skip_duplicates` also
    duplicates. `message` is by default Kafka's for this error.
    """

    def check(checked: Checked) -> Verdict:
        entries, responses = lists_of_entries(checked.context.api_key, checked.version)
        requested: list[Any] = getattr(checked.request, entries) or []
        if not requested or unless(checked):
            return None
        image, has_right = checked.image, checked.access.rights.may
        for entry in requested:
            name = name_of(entry, image)
            if name is not None and not has_right(operation, resource_type, name):
                break
        else:
            return None  # the usual case: nothing is copied
        is_allowed = checked.access.may
        refused: list[Any] = []
        kept: list[Any] = []
        duplicates = _duplicates(name_of(entry, image) for entry in requested) if skip_duplicates else ()
        for entry in requested:
            name = name_of(entry, image)
            is_refused = (
                name is not None and name not in duplicates and not is_allowed(operation, resource_type, name)
            )
            (refused if is_refused else kept).append(entry)
        if not refused:
            return None
        code = code_of(resource_type)
        add_refusals(checked, refused, code, MESSAGES[code] if message == "" else message)
        if kept:
            checked.replace(**{entries: kept})
            return None
        # Do not call the handler without entries: a group coordinator could respond with another error.
        empty: Response = type(checked.request).RESPONSE(**{responses: []})
        return empty

    return check


def _duplicates(names: Iterable[str | None]) -> set[str | None]:
    seen: set[str | None] = set()
    duplicates: set[str | None] = set()
    for name in names:
        (duplicates if name in seen else seen).add(name)
    return duplicates


def add_refusals(checked: Checked, refused: list[Any], code: int, message: str | None) -> None:
    """Add errors for these entries of the request to the response."""
    entries, responses = lists_of_entries(checked.context.api_key, checked.version)
    others = copy(checked.request)
    setattr(others, entries, refused)
    refusal = checked.services.responses.refusal_of(checked.context, others, code)
    more: list[Any] = getattr(refusal, responses)
    for error in more:
        if getattr(error, "error_message", None):
            error.error_message = message
    checked.amend(lambda response: getattr(response, responses).extend(more))


READ_GROUP: Final = on_named(Operation.READ, ResourceType.GROUP, "group_id")
READ_EACH_TOPIC: Final = each_topic(Operation.READ)
WRITE_TRANSACTION: Final = on_named(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id")


def in_turn(*checks: Check) -> Check:
    """Return a check that runs several checks, up to the first that rejects or responds."""

    def check(checked: Checked) -> Verdict:
        for part in checks:
            verdict = part(checked)
            if verdict is not None:
                return verdict
        return None

    return check


TOPIC_CONFIGS, BROKER_CONFIGS, LOGGER_CONFIGS, GROUP_CONFIGS = 2, 4, 8, 32
"""Numbers of configurable resources; resources of other types need rights on the cluster."""


def check_configs(operation: int, *, names_loggers: bool = False) -> Check:
    """Return a check for DESCRIBE_CONFIGS or ALTER_CONFIGS on each resource.

    The right is needed on the topic, the group or the cluster.

    With `names_loggers` loggers are included, which Kafka rejects without a message; since 4.4 it rejects
    changes of brokers' options without one, too.
    """

    def check(checked: Checked) -> Verdict:
        silent = {LOGGER_CONFIGS} if names_loggers else set[int]()
        if operation == Operation.ALTER_CONFIGS and checked.services.node.release.is_since("4.4"):
            silent.add(BROKER_CONFIGS)
        refused: dict[tuple[int, bool], list[Any]] = {}
        kept: list[Any] = []
        for resource in checked.request.resources:
            resource_type, is_allowed = _check_configurable(checked, operation, resource)
            if is_allowed:
                kept.append(resource)
            else:
                is_silent = resource.resource_type in silent
                refused.setdefault((resource_type, is_silent), []).append(resource)
        for (resource_type, is_silent), resources in refused.items():
            code = code_of(resource_type)
            add_refusals(checked, resources, code, None if is_silent else MESSAGES[code])
        if refused:
            checked.replace(resources=kept)
        return None

    return check


def _check_configurable(checked: Checked, operation: int, resource: Any) -> tuple[int, bool]:
    """Return the type that a configurable resource belongs to, and whether the operation is allowed."""
    access, name = checked.access, resource.resource_name
    if resource.resource_type == TOPIC_CONFIGS:
        return ResourceType.TOPIC, access.may(operation, ResourceType.TOPIC, name)
    if resource.resource_type == GROUP_CONFIGS:
        return ResourceType.GROUP, access.may(operation, ResourceType.GROUP, name)
    return ResourceType.CLUSTER, access.may_on_cluster(operation)


def keep_described(access: Access, response: Any, entries: str, resource_type: int, name: str) -> None:
    """Keep the entries of a response that the client can describe; `name` is their field with the name."""
    kept = [
        entry
        for entry in getattr(response, entries)
        if access.may(Operation.DESCRIBE, resource_type, getattr(entry, name), notes=False)
    ]
    setattr(response, entries, kept)


# ---------------------------------------------------------------------- groups

OPERATIONS_NOT_REQUESTED: Final = -2147483648


def set_group_operations(checked: Checked) -> Verdict:
    """Set the authorized operations of each group (KIP-430)."""
    rights = checked.access.rights

    def amend(response: Any) -> None:
        for group in response.groups:
            if group.authorized_operations != OPERATIONS_NOT_REQUESTED:
                group.authorized_operations &= rights.operations(ResourceType.GROUP, group.group_id)

    if checked.request.include_authorized_operations:
        checked.amend(amend)
    return None


def hide_described_topics(checked: Checked) -> Verdict:
    """Hide a group if one of its members subscribes to a topic that the client cannot describe."""
    access = checked.access

    def hide(response: Any) -> None:
        for group in response.groups:
            topics = {topic for member in group.members for topic in _topics_of(member)}
            if not all(access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in sorted(topics)):
                group.error_code = code_of(ResourceType.TOPIC)
                group.error_message = (
                    "The group has described topic(s) that the client is not authorized to describe."
                )
                group.members = []

    checked.amend(hide)
    return None


def _topics_of(member: Any) -> set[str]:
    """Return the topics of a described member; those of share groups have no target assignment."""
    assigned = [*member.assignment.topic_partitions]
    if hasattr(member, "target_assignment"):
        assigned += member.target_assignment.topic_partitions
    return {*member.subscribed_topic_names, *(partitions.topic_name for partitions in assigned)}


def check_subscription(checked: Checked) -> Verdict:
    """Check DESCRIBE on every topic named by a member of a KIP-848 group or a share group."""
    names = checked.request.subscribed_topic_names or ()
    is_allowed = checked.access.may
    if all([is_allowed(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in dict.fromkeys(names)]):  # noqa: C419  records all denials
        return None
    return code_of(ResourceType.TOPIC)


PRODUCE: Final = int(ApiKey.PRODUCE)
WRITE: Final = int(Operation.WRITE)
TOPIC: Final = int(ResourceType.TOPIC)


def settings_of(config: BrokerConfig, *, matches_networks: bool = True) -> Settings:
    """Return super.users and allow.everyone.if.no.acl.found. Raise `ConfigurationError`."""
    return Settings.of(
        config.text("super.users") or "",
        allows_if_none_found=bool(config.get("allow.everyone.if.no.acl.found")),
        matches_networks=matches_networks,
    )


class Gate:
    """Passes requests to their handlers, or rejects them."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        clock: Clock,
        events: EventLog,
        *,
        matches_networks: bool = True,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._events = events
        self._settings = settings_of(config, matches_networks=matches_networks)
        self._acls = NO_ACLS
        self._authorizer = self._of_controller = Authorizer(NO_ACLS, self._settings)
        # By identity: a connection uses the same object each time, and hashing one takes a microsecond.
        self._rights: dict[int, tuple[Caller, Rights]] = {}

    def lets_pass(self, context: RequestContext, image: ClusterImage) -> bool:
        """Return whether a request is known to be authorized. If False, `handle` decides.

        Repeated requests only look up cached decisions: a hundredth of the cost of a Produce.
        """
        if context.api_key == PRODUCE:
            request: Any = context.request
            known = self._rights.get(id(context.origin.caller))
            if known is None or image.acls is not self._acls or request.transactional_id is not None:
                return False
            decided = known[1].decided
            for topic in request.topic_data:
                name = topic.name or image.topic_names.get(topic.topic_id)
                if not decided.get((WRITE, TOPIC, name)):  # type: ignore[arg-type]
                    return False
            return True
        return context.origin.caller.is_broker

    def handle(
        self,
        services: Services,
        context: RequestContext,
        image: ClusterImage,
        check: Check,
        proceed: Callable[[], Response | None],
        *,
        by_controller: bool,
    ) -> Response | None:
        """Return the response of the API's function, `proceed`, or the error of its check."""
        access = self.access(context, image.acls, by_controller=by_controller)
        verdict = check(Checked(services, context, access, image))
        if verdict is None:
            return proceed()
        if isinstance(verdict, int):
            refusal = services.responses.refused(context, verdict)
            if getattr(refusal, "error_message", None):
                refusal.error_message = MESSAGES[verdict]  # type: ignore[union-attr]
            return refusal
        return verdict

    def access(self, context: RequestContext, acls: Acls, *, by_controller: bool = False) -> Access:
        """Return the rights of the sender of a request under these ACLs."""
        caller = context.origin.caller
        if by_controller:
            if self._of_controller.acls is not acls:
                self._of_controller = Authorizer(acls, self._settings)
            return Access(self._of_controller.rights_of(caller), self, context)
        if self._acls is not acls:
            self._acls, self._authorizer = acls, Authorizer(acls, self._settings)
            self._rights = {}
        known = self._rights.get(id(caller))
        if known is None:
            if len(self._rights) >= MAX_CALLERS:
                self._rights.clear()
            known = self._rights[id(caller)] = caller, self._authorizer.rights_of(caller)
        return Access(known[1], self, context)

    def denied(
        self, context: RequestContext, rights: Rights, operation: int, resource_type: int, name: str
    ) -> None:
        """Record a denial in the event log."""
        self._events.access_denied(
            self._clock.monotonic(),
            self._broker_id,
            rights.principal,
            rights.host,
            name_of(context.api_key),
            Operation(operation).name,
            ResourceType(resource_type).name,
            name,
        )
