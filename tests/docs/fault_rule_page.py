"""The page of the site that lists keys and actions of fault rules, made from `FaultRule` and `Action`.

`python -m tests.docs.option_pages` writes it; test_option_pages.py compares.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka2.broker.faults.rule import RULE_KEYS, Action, FaultRule
from tests.docs.definitions import check_entries, definition, overview, section

HEAD = """\
# Fault rules

A rule selects requests that reach a [cluster for tests](../guides/testing.md), and defines what happens to
them. It is data: keyword arguments of `cluster.controls.rule(...)`, or a mapping such as JSON for
`cluster.controls.add_rule(...)`. Only `then` is needed; criteria that are left out match everything.

```python
from pykafka2 import KafkaProducer
from pykafka2.testing import KafkaCluster

with KafkaCluster(brokers=1, topics=["orders"]) as cluster:
    data = {"api": "Produce", "nth": 2, "then": "apply_then_lose_reply"}
    rule = cluster.controls.add_rule(data)
    servers = cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers, linger_ms=0) as producer:
        for value in (b"0", b"1", b"2"):
            producer.send("orders", value).result(timeout=10)
    assert rule.fired == 1  # so one batch was sent twice
    assert cluster.log("orders", 0).values() == [b"0", b"1", b"2"]
```

If several rules match a request, the first one that is due fires. `rule.seen` counts the matching requests
until the rule has fired as often as it can, and `rule.fired` how often it fired. A misspelt
key, API, action or error raises [`ConfigurationError`](errors.md#configurationerror), which names the
nearest one.
"""

KEYS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Which requests": {
        "api": (
            "string, integer or class",
            'The API: its name (`"Produce"`), its key (`0`) or a request class (`ProduceRequest`).',
        ),
        "topic": (
            "string",
            "Requests that name this topic or its id, or fetch it in a fetch session.",
        ),
        "partition": ("integer", "Requests that name this partition; usually with [`topic`](#topic)."),
        "client_id": ("string", "Requests of this client, by its `client_id`."),
        "broker": ("integer", "Requests that this broker receives."),
        "where": (
            "callable",
            "Requests for which `where(request)` returns true; it receives a copy of the decoded request. "
            "Not in JSON, and not with `process=True`.",
        ),
        "between_brokers": (
            "boolean",
            "`True` matches the requests that brokers send each other, such as the fetches of followers, "
            "instead of those of clients.",
        ),
    },
    "How often": {
        "nth": (
            "integer",
            "The first matching request that the rule fires on, counted from 1; by default the only one.",
        ),
        "every": (
            "integer",
            "2 fires on every second matching request, and so on. Cannot be combined with [`nth`](#nth).",
        ),
        "times": ("integer", "The rule fires at most this often. -1 means no limit."),
    },
    "What happens": {
        "then": (
            "string",
            "One of the [actions](#actions), such as `hold`, `delay:0.5` or `error:NOT_COORDINATOR`.",
        ),
        "reply": (
            "callable, mapping or response",
            "The response of [`replace_reply`](#replace_reply). A function receives copies of request and "
            "response, and returns the response. A mapping has the fields that differ; it and a whole "
            "response need [`api`](#api). A value that its field cannot have is rejected when the rule is "
            "added.",
        ),
        "reset": (
            "boolean",
            "Whether a connection that the rule closes is reset (`ConnectionResetError`), or closed "
            "normally.",
        ),
    },
}
"""Type and effect of each key."""

VALID = {
    "nth": "at least 1",
    "every": "at least 1",
    "times": "at least 1, or -1",
    "broker": "an id of the cluster's brokers",
}

DEFAULTS = {
    "then": "",
    "times": "1 with `nth`, otherwise no limit",
    "reset": "`True` for `apply_then_lose_reply` and `replay`, otherwise `False`",
}
"""Defaults that depend on other keys; `then` must be set."""

ACTIONS: Mapping[Action, tuple[str, str, str]] = {
    Action.ERROR: (
        "error:NOT_LEADER_OR_FOLLOWER",
        "no",
        "The broker responds with this error, by Kafka's name, class name or code. With [`topic`](#topic) "
        "or [`partition`](#partition), the other partitions of a Produce or Fetch request are processed. "
        "Use it to test the handling of an [error](errors.md).",
    ),
    Action.DELAY: (
        "delay:0.5",
        "after the delay in seconds",
        "The request waits, and later requests of the connection behind it. Use it to test timeouts.",
    ),
    Action.HOLD: (
        "hold",
        "at `controls.release()`",
        "The request waits until the test releases it. Use it to look at a client while a request is in "
        "flight.",
    ),
    Action.SWALLOW: (
        "swallow",
        "no",
        "There is no response, and the connection stays open. Use it to test `request_timeout_ms`.",
    ),
    Action.LOSE_REPLY: (
        "apply_then_lose_reply",
        "yes",
        "The connection is reset instead of a response. Use it to test whether a retry duplicates records.",
    ),
    Action.HALF_FRAME: (
        "half_frame",
        "yes",
        "Half of the response's bytes are sent, then the connection is closed.",
    ),
    Action.CLOSE_BEFORE: ("close_before", "no", "The connection is closed."),
    Action.CLOSE_AFTER: ("close_after", "yes", "The broker responds, then closes the connection."),
    Action.REPLAY: (
        "replay:0.5",
        "after the delay in seconds, without one at `controls.release()`",
        "The connection is reset at once, and the late request has no response. Use it to test a request "
        "that arrives after its retry.",
    ),
    Action.STALE_METADATA: (
        "stale_metadata",
        "with the old state",
        "The broker responds with the cluster's state from when the rule was added. Needs [`api`](#api): "
        "Metadata, DescribeCluster or DescribeTopicPartitions.",
    ),
    Action.REPLACE_REPLY: (
        "replace_reply",
        "yes",
        "The broker responds with [`reply`](#reply).",
    ),
}
"""An example of each action, whether the request is processed, and the effect."""

SHORTCUTS = """\
Calls of `cluster.controls` that add a rule. `request` is a name, a key or a request class, and `match` any of
`topic`, `partition`, `client_id`, `broker` and `between_brokers`.

| Call | The same as `rule(api=request, ...)` with |
| --- | --- |
| `fail_next(request, error, times=1, **match)` | `then="error:..."`, `times=1` |
| `delay(request, seconds, **match)` | `then="delay:SECONDS"` |
| `hold(request, **match)` | `then="hold"` |
| `lose_reply(request, times=1, **match)` | `then="apply_then_lose_reply"`, `times=1` |
| `disconnect_next(request, times=1, **match)` | `then="close_before"`, `reset=True`, `times=1` |

`controls.rules()` returns the rules, `remove_rule(rule)` removes one, and `clear()` all. `held()` returns the
number of held requests, and `release()` processes them. `throttle(client_id, request, seconds)` responds at
once with a throttle time, as brokers do when a client exceeds its quota.
[Where each rule acts](../guides/testing.md#fault-rules) is drawn in the guide.
"""


def fault_rule_page() -> str:
    """Return the text of the page. Raises SystemExit for a key or an action without an entry."""
    check_entries("fault_rule_page.py", RULE_KEYS, [name for keys in KEYS.values() for name in keys])
    check_entries("fault_rule_page.py", [one.value for one in Action], [one.value for one in ACTIONS])
    subjects = {title: [*keys] for title, keys in KEYS.items()}
    actions = [action.value for action in ACTIONS]
    parts = [HEAD, overview({**subjects, "Actions": actions}) + "\n"]
    for title, keys in KEYS.items():
        parts.append(section(title, *(_key(name, *keys[name]) for name in keys)))
    made = (
        definition(action.value, (("Example", f'`then="{example}"`'), ("Processed", processed)), text)
        for action, (example, processed, text) in ACTIONS.items()
    )
    return "\n".join([*parts, section("Actions", *made), section("Shortcuts", SHORTCUTS)])


def _key(name: str, kind: str, text: str) -> str:
    default = attrs.fields_dict(FaultRule)[name].default
    shown = DEFAULTS.get(name, f"`{default}`")
    return definition(name, (("Type", kind), ("Default", shown), ("Valid", VALID.get(name, ""))), text)
