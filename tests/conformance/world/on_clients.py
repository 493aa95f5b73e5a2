"""The Java clients in their corners (ClientCases.java), and every method of Admin (AdminCalls.java)."""

from __future__ import annotations

from typing import Any

from ..bridge import Bridge
from .side import Answers, Side

ASSIGNORS = "org.apache.kafka.clients.consumer."
RANGE, COOPERATIVE = f"{ASSIGNORS}RangeAssignor", f"{ASSIGNORS}CooperativeStickyAssignor"

CASES: dict[str, dict[str, Any]] = {
    "group: classic, range": {"case": "group", "protocol": "classic", "assignor": RANGE},
    "group: classic, cooperative": {"case": "group", "protocol": "classic", "assignor": COOPERATIVE},
    "group: classic, range, static": {
        "case": "group",
        "protocol": "classic",
        "assignor": RANGE,
        "static": True,
    },
    "group: classic, cooperative, static": {
        "case": "group",
        "protocol": "classic",
        "assignor": COOPERATIVE,
        "static": True,
    },
    "group: consumer": {"case": "group", "protocol": "consumer"},
    "group: consumer, range, static": {
        "case": "group",
        "protocol": "consumer",
        "assignor": "range",
        "static": True,
    },
    "group: consumer, uniform, static": {
        "case": "group",
        "protocol": "consumer",
        "assignor": "uniform",
        "static": True,
    },
    "pattern: classic": {"case": "pattern", "protocol": "classic"},
    "pattern: consumer": {"case": "pattern", "protocol": "consumer"},
    "pattern: consumer, by the broker": {"case": "pattern", "protocol": "consumer", "server": True},
    "times": {"case": "times"},
    "idempotent, five under way": {"case": "idempotent"},
    "transactions: classic": {"case": "transactions", "protocol": "classic"},
    "transactions: consumer": {"case": "transactions", "protocol": "consumer"},
    "codecs and levels": {"case": "codecs"},
    "telemetry": {"case": "telemetry"},
    "share group": {"case": "share"},
    "racks: classic": {"case": "rack", "protocol": "classic"},
    "racks: consumer": {"case": "rack", "protocol": "consumer"},
}


def clients(side: Side) -> Answers:
    answers: Answers = {}
    for number, (name, case) in enumerate(CASES.items()):
        topic = f"case{number}"
        item = {"bootstrap_servers": side.servers, "topic": topic, **case}
        (answers[name],) = side.bridge.attempt("client_case", [item])
    return answers


def admin(side: Side) -> Answers:
    return admin_answers(side.bridge, side.servers)


def admin_answers(bridge: Bridge, servers: str) -> Answers:
    """Results of every method of Admin there, without ids and times."""
    (answers,) = bridge("admin_calls", [{"bootstrap_servers": servers}])
    return {name: _plain("", answer) for name, answer in answers.items()}


VARY = {
    "producerId": "a producer id",
    "finalizedFeaturesEpoch": "an epoch",
    "coordinatorId": "a broker",
    "consumerId": "a member id",
    "coordinator": "a broker",
}


def _plain(name: str, answer: Any) -> Any:
    """Without ids and times."""
    if isinstance(answer, dict):
        return {key: _plain(key, value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [_plain(name, value) for value in answer]
    if name in VARY and answer is not None:
        return VARY[name]
    if isinstance(answer, int) and answer > 1_600_000_000_000:
        return "a time"
    return answer
