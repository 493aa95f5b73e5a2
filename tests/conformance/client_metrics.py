"""The metrics of Java's clients after scripted work on the bundled broker, kept as golden data.

`python -m tests.conformance.client_metrics` runs Java's clients and writes tests/java_metrics.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.test_java_metrics import CLIENT_ID, GOLDEN, WORK, kept, work_cluster

from .maven import KafkaJars, jars_or_skip
from .recorded_json import one_line_per_exchange

TIMEOUT = 120.0


def recorded(jars: KafkaJars) -> dict[str, Any]:
    """Return what `kept` keeps of the metrics of Java's producer, consumers and admin client."""
    with work_cluster() as cluster:
        return {client: kept(client, _rows(jars, client, cluster.bootstrap_servers)) for client in WORK}


def _rows(jars: KafkaJars, client: str, servers: str) -> list[tuple[str, str, dict[str, str], float | None]]:
    command = jars.java("ClientMetrics", servers, client)
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    for row in rows:
        row["tags"].setdefault("client-id", CLIENT_ID)  # app-info and the count have none in common
    return [(row["group"], row["name"], row["tags"], row["value"]) for row in rows]


def written(answers: dict[str, Any]) -> str:
    """Return the text of the file: one line for each metric."""
    parts = (f'"{client}": {one_line_per_exchange(rows).strip()}' for client, rows in answers.items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    GOLDEN.write_text(written(recorded(jars_or_skip())), encoding="utf-8")
    print(f"written: {GOLDEN}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
