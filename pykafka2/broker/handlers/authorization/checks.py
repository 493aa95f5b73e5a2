"""Building blocks of authorization checks, which table.py combines.

A check allows the request (None), rejects it as a whole (an error code), or responds. A check that denies
some entries removes them from the request and adds their errors to the response. Stateless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.security.authorizer import Access
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from pykafka2.protocol.acl_terms import ResourceType
from pykafka2.protocol.struct import Response

WORDS = {
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


def code_of(resource_type: int) -> int:
    """Return the error code for denied access to a resource of this type."""
    return REFUSAL_OF[resource_type].code or 0


def on_cluster(operation: int) -> Check:
    """Return a check: the request needs this operation on the cluster."""

    def check(checked: Checked) -> Verdict:
        return None if checked.access.may_on_cluster(operation) else code_of(ResourceType.CLUSTER)

    return check


def on_named(operation: int, resource_type: ResourceType, field: str) -> Check:
    """Return a check: the request needs this operation on the resource in a field; null needs none."""

    def check(checked: Checked) -> Verdict:
        name = getattr(checked.request, field)
        if name is None or checked.access.may(operation, resource_type, name):
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


def each_topic(operation: int, entries: str = "topics", responses: str = "topics", **options: Any) -> Check:
    """Return a check: every topic of a list needs this operation; see `each`."""
    return each(operation, ResourceType.TOPIC, entries, responses, topic_name, **options)


def each(
    operation: int,
    resource_type: ResourceType,
    entries: str,
    responses: str,
    name_of: Callable[[Any, ClusterImage], str | None] = lambda entry, image: str(entry),
    *,
    message: str | None = "",
    skip_duplicates: bool = False,
    unless: Callable[[Checked], bool] = lambda checked: False,
) -> Check:
    """Return a check: every entry of a list needs this operation, and those without it get an error.

    `entries` and `responses` are the fields of the request and of the response. Entries for which `name_of`
    returns None are left to the handler, and with `skip_duplicates` also duplicates. `message` is by default
    Kafka's for this error.
    """

    def check(checked: Checked) -> Verdict:
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
        add_refusals(checked, entries, responses, refused, code, WORDS[code] if message == "" else message)
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


def add_refusals(
    checked: Checked, entries: str, responses: str, refused: list[Any], code: int, message: str | None
) -> list[Any]:
    """Add errors for these entries to the response. Return them."""
    others = copy(checked.request)
    setattr(others, entries, refused)
    refusal = checked.services.responses.refusal_of(checked.context, others, code)
    more: list[Any] = getattr(refusal, responses)
    for error in more:
        if getattr(error, "error_message", None):
            error.error_message = message
    checked.amend(lambda response: getattr(response, responses).extend(more))
    return more


def in_turn(*checks: Check) -> Check:
    """Return a check that runs several checks, up to the first that rejects or responds."""

    def check(checked: Checked) -> Verdict:
        for part in checks:
            verdict = part(checked)
            if verdict is not None:
                return verdict
        return None

    return check
