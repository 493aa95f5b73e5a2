"""Transcripts of Apache Kafka 4.3.1 as files, and how either cluster is asked for one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..real_kafka import QUICK_GROUPS
from .scenarios import SCENARIOS
from .side import Side

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
    "channel.mode": "serial",
}


def transcript(scenario: str, addresses: Sequence[str]) -> dict[str, Any]:
    """Run it on the cluster at these addresses (by broker id)."""
    side = Side(scenario, addresses)
    try:
        SCENARIOS[scenario](side)
    except Exception as problem:
        problem.add_note(f"in {scenario} after: {json.dumps(list(side.transcript), indent=1)}")
        raise
    finally:
        side.close()
    return side.transcript


def recorded(scenario: str) -> dict[str, Any]:
    """What Apache Kafka said when asked last."""
    answers: dict[str, Any] = json.loads((FOLDER / f"{scenario}.json").read_text(encoding="utf-8"))
    return answers


def record(scenario: str, answers: dict[str, Any]) -> None:
    text = json.dumps(answers, indent=1, ensure_ascii=False)
    (FOLDER / f"{scenario}.json").write_text(text + "\n", encoding="utf-8")
