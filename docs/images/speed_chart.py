"""Draws speed.svg from the tables of docs/benchmarks.md: `python docs/images/speed_chart.py`.

A bar is the ratio to confluent-kafka in one run on Apache Kafka; longer is better.  For latencies, which are
better when smaller, the bar shows the inverse.  The thin bar below it is pykafka2 with pykafka2-c, if there
is that row: "| `send`, compiled | confluent-kafka |" for "| `send` | confluent-kafka |".
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
TABLES = HERE.parent / "benchmarks.md"
TARGET = HERE / "speed.svg"

# (label in the chart, first cells of the row in benchmarks.md, whether the figure is a latency)
BARS = [
    ("send", "| `send` | confluent-kafka |", False),
    ("send, add_callback", "| `send` with `add_callback` | confluent-kafka |", False),
    ("send_many", "| `send_many` | confluent-kafka, 1 MiB batches |", False),
    ("send_many, Arrow", "| `send_many` with Arrow | confluent-kafka, 1 MiB batches |", False),
    ("poll", "| `poll` | confluent-kafka, tuned |", False),
    ("iteration", "| iteration | confluent-kafka's `poll`, tuned |", False),
    ("poll_columns", "| `poll_columns` | confluent-kafka, tuned |", False),
    ("send, unique keys", "| `send`, unique keys of 36 bytes | confluent-kafka |", False),
    ("one at a time, p50", "| one record at a time, p50 | confluent-kafka |", True),
]
WIDTH, LEFT, RIGHT, TOP, STEP = 760, 170, 60, 50, 32
ROOM = 1.15
"""The width of the plot over its longest bar, for the figure behind the bar."""
STYLE = (
    "<style>text{fill:#24292f}line{stroke:#57606a}.page{fill:#fff}.faster{fill:#2a7f62}.slower{fill:#c26b3a}"
    "@media(prefers-color-scheme:dark){text{fill:#d7dde5}line{stroke:#8b949e}.page{fill:#161b22}"
    ".faster{fill:#3fae87}.slower{fill:#e08a54}}</style>"
)


def ratio_of(tables: str, row: str) -> float:
    """Return the first figure behind a row's leading cells; "–" is none."""
    rest = tables[tables.index(row) + len(row) :]
    found = re.match(r" (?:–, )*(\d+(?:\.\d+)?)", rest)
    if found is None:
        raise ValueError(f"the row {row!r} has no figure")
    return float(found[1])


def value_of(tables: str, row: str, is_latency: bool) -> float:
    """Return the length of a row's bar, in bars of confluent-kafka."""
    return ratio_of(tables, row) ** (-1 if is_latency else 1)


def compiled(row: str) -> str:
    """Return how the row begins that has the same figure for the compiled code."""
    return row.replace(" |", ", compiled |", 1)


def bars(number: int, label: str, pure: float, with_c: float | None, unit: float) -> str:
    """Draw the bar of a row, and a thin one for the compiled code if it was measured."""
    y = TOP + number * STEP
    parts = [f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(label)}</text>']
    drawn = [(pure, y, 18, 14)] if with_c is None else [(pure, y, 16, 13), (with_c, y + 17, 8, 8)]
    for value, top, height, baseline in drawn:
        side = "faster" if value >= 1 else "slower"
        note, size = ("", 13) if top == y else (" compiled", 10)
        parts.append(
            f'<rect x="{LEFT}" y="{top}" width="{unit * value:.0f}" height="{height}" rx="2" class="{side}"/>'
            f'<text x="{LEFT + unit * value + 6:.0f}" y="{top + baseline}" font-size="{size}">'
            f"{value:.2f} ×{note}</text>"
        )
    return "".join(parts)


def measured(tables: str) -> str:
    """Return date and commit of the newest run of the producer's table."""
    section = tables.split("\n## Producer\n")[1]
    date, commit = re.search(r"\d{4}-\d\d-\d\d", section), re.search(r"`([0-9a-f]{7,12})`", section)
    if date is None or commit is None:
        raise ValueError("the section Producer has no date or no commit")
    return f"{date[0]}, commit {commit[1]}"


def draw(tables: str) -> str:
    """Return the chart as SVG."""
    height = TOP + len(BARS) * STEP + 30
    end = TOP + len(BARS) * STEP
    pure = [value_of(tables, row, is_latency) for _, row, is_latency in BARS]
    with_c = [
        value_of(tables, compiled(row), is_latency) if compiled(row) in tables else None
        for _, row, is_latency in BARS
    ]
    unit = (WIDTH - LEFT - RIGHT) / (ROOM * max(*pure, *(value or 0.0 for value in with_c)))
    one = LEFT + unit
    rows = [
        bars(number, label, pure[number], with_c[number], unit) for number, (label, _, _) in enumerate(BARS)
    ]
    title = "pykafka2's speed over confluent-kafka's (1 ×): Apache Kafka, records of 100 bytes"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
            ' font-family="sans-serif" font-size="13">',
            STYLE,
            '<rect class="page" width="100%" height="100%" rx="6"/>',
            f'<text x="20" y="28" font-size="15" font-weight="bold">{title}</text>',
            *rows,
            f'<line x1="{one:.0f}" y1="{TOP - 8}" x2="{one:.0f}" y2="{end + 4}" stroke-dasharray="4 3"/>',
            f'<text x="20" y="{height - 12}" font-size="11">Measured on {measured(tables)}</text>',
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(draw(TABLES.read_text(encoding="utf-8")), encoding="utf-8")
