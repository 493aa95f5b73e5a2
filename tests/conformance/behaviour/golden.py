"""Transcripts of Apache Kafka 4.4.0 as files, and how to record one from either cluster."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster

from ..real_kafka import QUICK_GROUPS, RESTRICTED_PASSWORD, RESTRICTED_USER
from ..recorded_json import one_line_per_exchange
from .scenarios import SCENARIOS
from .side import Side

Addresses = tuple[Sequence[str], Sequence[str]]
"""Addresses of the brokers, by id; and their SASL addresses, if they have any."""

FOLDER = Path(__file__).parent / "golden"

BUNDLED_CONFIG: dict[str, object] = {
    # As real_kafka.py sets Apache Kafka; and its own muting, as pipelining is our departure.
    "auto.create.topics.enable": False,
    **QUICK_GROUPS,
    "default.replication.factor": 1,
    "num.io.threads": 2,
    "num.network.threads": 2,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "channel.mode": "serial",
}


BUNDLED_AUTHORIZER: dict[str, object] = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
}
"""For scenarios about access, as Apache Kafka's has it."""


def is_about_access(scenario: str) -> bool:
    """Whether a scenario needs an authorizer, and a client that authenticates."""
    return scenario.startswith("access_")


def bundled_for(scenario: str, mode: str = "serial", release: str | None = None) -> KafkaCluster:
    """The bundled brokers that a scenario runs on, not started yet."""
    config = {**BUNDLED_CONFIG, "channel.mode": mode}
    if not is_about_access(scenario):
        return KafkaCluster(brokers=3, config=config, as_version=release)
    return KafkaCluster(
        brokers=3,
        config={**config, **BUNDLED_AUTHORIZER},
        as_version=release,
        listeners=["PLAINTEXT", "SASL_PLAINTEXT"],
        users={RESTRICTED_USER: RESTRICTED_PASSWORD},
    )


def addresses_of(cluster: KafkaCluster, scenario: str) -> Addresses:
    """Addresses of the brokers, by id, and their SASL addresses."""
    by_sasl = cluster.bootstrap_servers_of("SASL_PLAINTEXT").split(",") if is_about_access(scenario) else []
    return cluster.bootstrap_servers.split(","), by_sasl


def transcript(scenario: str, addresses: Addresses, release: str | None = None) -> dict[str, Any]:
    """Run it on the cluster at these addresses (by broker id), in versions that this release has."""
    side = Side(scenario, *addresses, release=release)
    try:
        SCENARIOS[scenario](side)
    except Exception as problem:
        problem.add_note(f"in {scenario} after: {json.dumps(list(side.transcript), indent=1)}")
        raise
    finally:
        side.close()
    return side.transcript


def recorded(scenario: str, release: str | None = None) -> dict[str, Any]:
    """The last recorded transcript of Apache Kafka, of the newest or of this release.

    4.3 has files only of those scenarios in which 4.4 responds differently.
    """
    file = _file(scenario, release)
    if release == "4.3" and not file.exists():
        file = _file(scenario, None)
    answers: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return answers


def record(scenario: str, answers: dict[str, Any], release: str | None = None) -> None:
    file = _file(scenario, release)
    file.parent.mkdir(exist_ok=True)
    file.write_text(one_line_per_exchange(answers), encoding="utf-8")


def _file(scenario: str, release: str | None) -> Path:
    folder = FOLDER if release is None else FOLDER / release
    return folder / f"{scenario}.json"


def recorded_names(release: str) -> set[str]:
    """The scenarios of which this release has a file."""
    return {file.stem for file in (FOLDER / release).glob("*.json")}
