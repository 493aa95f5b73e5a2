"""Draws where-faults-act.svg beside it: `python docs/guides/where_faults_act.py`, no packages needed."""

from __future__ import annotations

from html import escape
from pathlib import Path

TARGET = Path(__file__).with_name("where-faults-act.svg")
WIDTH, HEIGHT = 900, 400

# (x, y, width, height, title, lines)
BOXES = [
    (20, 120, 120, 70, "client", ["any library,", 'client_id "app"']),
    (390, 60, 130, 60, "handler", ["leader of orders-0"]),
    (590, 60, 110, 60, "log", ["high watermark"]),
    (770, 60, 110, 60, "follower", ["fetches, ISR"]),
    (390, 300, 130, 60, "controller", ["leaders, metadata"]),
    (590, 300, 200, 60, "coordinator", ["groups, transactions"]),
]
# (x1, y1, x2, y2)
ARROWS = [
    (140, 140, 390, 80),
    (390, 108, 140, 172),
    (520, 90, 590, 90),
    (770, 90, 700, 90),
    (455, 300, 455, 120),
    (640, 300, 520, 115),
]
# (x, y, lines): what a test can do there
NOTES = [
    (
        150,
        20,
        [
            "rules, as a request is taken up:",
            "error  delay  hold  swallow",
            "close_before  replay  stale_metadata",
        ],
    ),
    (
        190,
        205,
        [
            "rules, as its answer leaves:",
            "apply_then_lose_reply  half_frame",
            "close_after  replace_reply  throttle()",
        ],
    ),
    (20, 220, ["the client's link:", "cut_client  delay_client", "throttle_client"]),
    (590, 20, ["roll_segments  apply_retention", "compact"]),
    (
        660,
        150,
        [
            "between brokers:",
            "cut_link  delay_link  throttle_link",
            "pause_followers",
            "shrink_isr  expand_isr",
        ],
    ),
    (250, 300, ["move_controller", "hold_elections", "slow_controller"]),
    (465, 200, ["hold_metadata", "delay_metadata"]),
    (390, 20, ["quotas: set_quota", "clear_quotas"]),
    (700, 270, ["move_coordinator", "hold_loading"]),
    (
        20,
        385,
        ["whole brokers: kill_broker  stop_broker  pause_broker  restart_broker; partitions: move_leader"],
    ),
]


def drawing() -> str:
    """The picture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        "<style>@media (prefers-color-scheme: dark) {svg {filter: invert(0.88) hue-rotate(180deg)}}</style>",
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for x1, y1, x2, y2 in ARROWS:
        parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#555" stroke-width="1.5" '
            'marker-end="url(#end)"/>'
        )
    for x, y, width, height, title, lines in BOXES:
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="#e8eef7" stroke="#345"/>'
        )
        parts.append(f'<text x="{x + 10}" y="{y + 20}" font-weight="bold">{escape(title)}</text>')
        for number, line in enumerate(lines):
            parts.append(f'<text x="{x + 10}" y="{y + 38 + 16 * number}">{escape(line)}</text>')
    for x, y, lines in NOTES:
        for number, line in enumerate(lines):
            parts.append(f'<text x="{x}" y="{y + 15 * number}" fill="#a33">{escape(line)}</text>')
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    TARGET.write_text(drawing())
