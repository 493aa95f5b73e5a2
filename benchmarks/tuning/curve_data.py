"""The measured points of the curves as a CSV file beside the images, from which they can be drawn again."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import attrs

from benchmarks.tuning.curves import Curve
from benchmarks.tuning.points import Outcome

FILE_NAME = "curves.csv"
FIGURES = tuple(field.name for field in attrs.fields(Outcome))
COLUMNS = ("option", "value", *FIGURES, "date", "commit")


def read_rows(folder: Path) -> list[dict[str, str]]:
    """Return the rows of the folder's file, or none if there is no file."""
    path = folder / FILE_NAME
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_curve(folder: Path, curve: Curve, outcomes: dict[Any, Outcome], date: str, commit: str) -> None:
    """Replace the rows of this curve in the folder's file, and keep those of the others."""
    rows = [row for row in read_rows(folder) if row["option"] != curve.option]
    for value, outcome in outcomes.items():
        figures = {name: f"{getattr(outcome, name):.4g}" for name in FIGURES}
        figures["records_per_second"] = f"{outcome.records_per_second:.0f}"
        rows.append({"option": curve.option, "value": str(value), **figures, "date": date, "commit": commit})
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE_NAME).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_curve(folder: Path, curve: Curve) -> dict[Any, Outcome]:
    """Return the points of this curve by the option's value, in the order of the curve."""
    rows = {row["value"]: row for row in read_rows(folder) if row["option"] == curve.option}
    return {
        value: Outcome(**{name: float(rows[str(value)][name]) for name in FIGURES})
        for value in curve.values
        if str(value) in rows
    }
