"""What is checked of a request before its handler sees it: the pieces that table.py puts together.

A check lets the request go on (None), refuses it as a whole (an error's code), or answers it.  One that
refuses some entries takes them out of the request and adds their refusals to the answer.  No state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.security.asker import Asker
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
"""What Kafka says of each where there is room for words."""

REFUSAL_OF: dict[int, type[BrokerError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
}


class Checked:
    """A request under examination.  `image` is that of the broker that handles it, or the controller's where
    that does.  One is made for each request: no attrs, whose `__init__` takes twice as long.
    """

    __slots__ = ("asker", "context", "image", "services")

    def __init__(
        self, services: Services, context: RequestContext, asker: Asker, image: ClusterImage
    ) -> None:
        self.services = services
        self.context = context
        self.asker = asker
        self.image = image

    @property
    def request(self) -> Any:
        return self.context.request

    @property
    def version(self) -> int:
        return self.context.version

    def replace(self, **changed: Any) -> Any:
        """Have a request with these fields handled instead."""
        rest = copy(self.context.request)
        for name, value in changed.items():
            setattr(rest, name, value)
        self.context.request = rest
        return rest

    def amend(self, change: Callable[[Any], None]) -> None:
        """Change the answer before it leaves, after what other checks change."""
        earlier = self.context.amend

        def amended(response: Any) -> None:
            if earlier is not None:
                earlier(response)
            change(response)

        self.context.amend = amended


Verdict = Response | int | None
Check = Callable[[Checked], Verdict]


def code_of(resource_type: int) -> int:
    """The error that refuses access to a resource of this type."""
    return REFUSAL_OF[resource_type].code or 0


def on_cluster(operation: int) -> Check:
    """The whole request needs this operation on the cluster."""

    def check(checked: Checked) -> Verdict:
        return None if checked.asker.may_on_cluster(operation) else code_of(ResourceType.CLUSTER)

    return check


def on_named(operation: int, resource_type: ResourceType, field: str) -> Check:
    """The whole request needs this operation on the resource that a field names; none is needed for null."""

    def check(checked: Checked) -> Verdict:
        name = getattr(checked.request, field)
        if name is None or checked.asker.may(operation, resource_type, name):
            return None
        return code_of(resource_type)

    return check


def topic_name(entry: Any, image: ClusterImage) -> str | None:
    """The topic of an entry; None for an id that nobody knows.  Beside a name the id counts, as for handlers:
    else a name that one may see would open the way to any id.
    """
    known = image.topic_names.get(getattr(entry, "topic_id", None))  # type: ignore[arg-type]
    if known is not None:
        return known
    name = getattr(entry, "name", None) or getattr(entry, "topic", None)
    return name if isinstance(name, str) else None


def each_topic(operation: int, entries: str = "topics", answers: str = "topics", **options: Any) -> Check:
    """Every topic of a list needs this operation; see `each`."""
    return each(operation, ResourceType.TOPIC, entries, answers, topic_name, **options)


def each(
    operation: int,
    resource_type: ResourceType,
    entries: str,
    answers: str,
    name_of: Callable[[Any, ClusterImage], str | None] = lambda entry, image: str(entry),
    *,
    words: str | None = "",
    unless_twice: bool = False,
    unless: Callable[[Checked], bool] = lambda checked: False,
) -> Check:
    """Every entry of a list needs this operation; those that lack it are answered with an error.

    `entries` and `answers` are the fields of the request and of the response.  What `name_of` gives no name
    is the handler's to refuse.  With `unless_twice` so is what is named more than once.  `words` are said
    where there is room, by default Kafka's for this error.
    """

    def check(checked: Checked) -> Verdict:
        asked: list[Any] = getattr(checked.request, entries) or []
        if not asked or unless(checked):
            return None
        image, has_right = checked.image, checked.asker.rights.may
        for one in asked:
            name = name_of(one, image)
            if name is not None and not has_right(operation, resource_type, name):
                break
        else:
            return None  # as most often: nothing is copied
        may = checked.asker.may
        refused: list[Any] = []
        kept: list[Any] = []
        twice = _named_twice(name_of(one, image) for one in asked) if unless_twice else ()
        for one in asked:
            name = name_of(one, image)
            is_refused = name is not None and name not in twice and not may(operation, resource_type, name)
            (refused if is_refused else kept).append(one)
        if not refused:
            return None
        code = code_of(resource_type)
        add_refusals(checked, entries, answers, refused, code, WORDS[code] if words == "" else words)
        if kept:
            checked.replace(**{entries: kept})
            return None
        # Nobody is asked about nothing: a group's coordinator might have something else to say.
        empty: Response = type(checked.request).RESPONSE(**{answers: []})
        return empty

    return check


def _named_twice(names: Iterable[str | None]) -> set[str | None]:
    seen: set[str | None] = set()
    twice: set[str | None] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return twice


def add_refusals(
    checked: Checked, entries: str, answers: str, refused: list[Any], code: int, words: str | None
) -> list[Any]:
    """Add these entries' refusals to the answer; the refusals."""
    others = copy(checked.request)
    setattr(others, entries, refused)
    refusal = checked.services.answers.refusal_of(checked.context, others, code)
    more: list[Any] = getattr(refusal, answers)
    for one in more:
        if getattr(one, "error_message", None):
            one.error_message = words
    checked.amend(lambda response: getattr(response, answers).extend(more))
    return more


def in_turn(*checks: Check) -> Check:
    """One check after another, up to the first that refuses or answers."""

    def check(checked: Checked) -> Verdict:
        for one in checks:
            verdict = one(checked)
            if verdict is not None:
                return verdict
        return None

    return check
