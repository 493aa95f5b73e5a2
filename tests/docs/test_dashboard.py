"""The dashboard and the alerts of examples/observability use metrics that are exported."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("prometheus_client")

from benchmarks.dashboard import with_gaps
from pykafka2.contrib.prometheus import FAMILIES, FINEST, exported_name

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "observability"
GUIDE = ROOT / "docs" / "guides" / "observability.md"
BOARD: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
RULES = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]

LABELS = {exported_name(metric): {"client_id", *metric.tags} for metric in FINEST.values()} | {
    name: set(labels) for name, (labels, _) in FAMILIES.items()
}
"""The labels of each exported metric, by its name."""


def unknown(expression: str) -> list[str]:
    """Return the metrics and labels of an expression that are not exported."""
    names = re.findall(r"\bkafka_\w+", expression)
    known = [name for name in names if name in LABELS]
    labels = {
        label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")
    }
    wrong = [label for label in sorted(labels) if not all(label in LABELS[name] for name in known)]
    return [name for name in names if name not in LABELS] + wrong


TARGETS = [
    (panel["title"], target["expr"], target["legendFormat"])
    for panel in BOARD["panels"]
    for target in panel["targets"]
]


@pytest.mark.parametrize(("title", "expression", "legend"), TARGETS, ids=[title for title, *_ in TARGETS])
def test_panel_shows_exported_metrics_and_labels(title: str, expression: str, legend: str) -> None:
    assert unknown(expression) == []
    (name, *_) = re.findall(r"\bkafka_\w+", expression)
    assert set(re.findall(r"{{(\w+)}}", legend)) <= LABELS[name]


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in BOARD["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in BOARD["panels"]})


def test_alerts_use_exported_metrics_and_are_the_six_of_the_guide() -> None:
    section = GUIDE.read_text(encoding="utf-8").split("## What to alert on")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if "`kafka_" in line]
    assert len(rows) == len(RULES) == 6
    for rule, row in zip(RULES, rows, strict=True):
        assert unknown(rule["expr"]) == []
        assert set(re.findall(r"`(kafka_\w+)`", row)) <= set(re.findall(r"\bkafka_\w+", rule["expr"]))


def test_picture_of_the_guide_has_every_panel() -> None:
    picture = (ROOT / "docs" / "images" / "dashboard.svg").read_text(encoding="utf-8")
    titles = [panel["title"] for panel in BOARD["panels"]]
    assert [title for title in titles if f"<!-- {title}" not in picture] == []
    assert "../images/dashboard.svg" in GUIDE.read_text(encoding="utf-8")


def test_picture_has_no_line_where_samples_are_missing() -> None:
    (first, *_, gap, last) = with_gaps([(0.0, 1.0), (1.0, 2.0), (9.0, 3.0)])
    assert (first, last) == ((0.0, 1.0), (9.0, 3.0))
    assert isnan(gap[1])


def test_unknown_metric_and_label_are_found() -> None:
    assert unknown("sum by (consumergroup, shop) (kafka_consumergroup_lag) + kafka_no_such") == [
        "kafka_no_such",
        "shop",
    ]


@pytest.mark.gate
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Debian's package prometheus")
@pytest.mark.parametrize("words", [("rules", "alerts.yml"), ("config", "prometheus.yml")])
def test_promtool_accepts_rules_and_configuration(words: tuple[str, str]) -> None:
    ended = subprocess.run(["promtool", "check", *words], cwd=FOLDER, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
