"""Draws channel-states.svg beside it: `python docs/guides/channel_states.py`, no packages needed.

A test compares the arrows with the tables in pykafka2/broker/server/channel.py.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

TARGET = Path(__file__).with_name("channel-states.svg")
WIDTH, HEIGHT = 940, 430

# state: (x, y, width, whether the article added it, whether the socket is read)
STATES = {
    "NOT_MUTED": (20, 60, 130, False, True),
    "MUTED": (300, 60, 130, False, False),
    "MUTED_AND_RESPONSE_PENDING": (610, 60, 290, False, False),
    "REQCACHED_AND_RESPONSE_PENDING": (190, 240, 290, True, True),
    "REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING": (640, 240, 280, True, False),
}
BOX_HEIGHT = 54
MAX_NAME = 32
"""Longer names take two lines."""

# (state, event, next state, path, x and y of the label, its anchor)
ARROWS = [
    ("NOT_MUTED", "MUTED", "MUTED", "M150 76H296", 223, 69, "middle"),
    ("MUTED", "UNMUTED", "NOT_MUTED", "M300 98H154", 223, 114, "middle"),
    ("MUTED", "REQUEST_RECEIVED", "MUTED_AND_RESPONSE_PENDING", "M430 76H606", 518, 69, "middle"),
    ("MUTED_AND_RESPONSE_PENDING", "LAST_RESPONSE_SENT", "MUTED", "M610 98H434", 520, 114, "middle"),
    (
        "MUTED_AND_RESPONSE_PENDING",
        "REQUEST_LOCAL_PROCESSED",
        "REQCACHED_AND_RESPONSE_PENDING",
        "M660 114L443 237",
        528,
        160,
        "end",
    ),
    ("REQCACHED_AND_RESPONSE_PENDING", "LAST_RESPONSE_SENT", "MUTED", "M335 240V118", 327, 210, "end"),
    (
        "REQCACHED_AND_RESPONSE_PENDING",
        "REQUEST_RECEIVED",
        "REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING",
        "M480 256H636",
        560,
        249,
        "middle",
    ),
    (
        "REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING",
        "REQUEST_LOCAL_PROCESSED",
        "REQCACHED_AND_RESPONSE_PENDING",
        "M640 278H484",
        560,
        294,
        "middle",
    ),
    (
        "REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING",
        "LAST_RESPONSE_SENT",
        "MUTED_AND_RESPONSE_PENDING",
        "M780 240V118",
        772,
        190,
        "end",
    ),
    (
        "REQCACHED_AND_RESPONSE_PENDING",
        "RESPONSE_SENT",
        "REQCACHED_AND_RESPONSE_PENDING",
        "M295 294C295 340 375 340 375 298",
        335,
        350,
        "middle",
    ),
    (
        "REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING",
        "RESPONSE_SENT",
        "REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING",
        "M740 294C740 340 820 340 820 298",
        780,
        350,
        "middle",
    ),
]
LEGEND = [
    (20, "reads", "the socket is read"),
    (190, "muted", "the socket is not read"),
    (385, "muted added", "added by the article (dashed)"),
]
STYLE = (
    "<style>text{fill:#24292f}.event{font-size:12px}.page{fill:#fff}.muted{fill:#eaeef2;stroke:#57606a}"
    ".reads{fill:#d5f0df;stroke:#2a7f62}.added{stroke-dasharray:6 3;stroke-width:2}.arrow{fill:none;"
    "stroke:#57606a;stroke-width:1.5}.head{fill:#57606a}"
    "@media(prefers-color-scheme:dark){text{fill:#d7dde5}.page{fill:#161b22}.muted{fill:#2d333b;"
    "stroke:#8b949e}.reads{fill:#1d4a3a;stroke:#3fae87}.arrow{stroke:#8b949e}.head{fill:#8b949e}}</style>"
)


def name_lines(name: str) -> list[str]:
    """Return the name, in two lines if it is long."""
    if len(name) <= MAX_NAME:
        return [name]
    middle = name.index("_AND_RESPONSE")
    return [name[: middle + 1], name[middle + 1 :]]


def box(name: str, x: int, y: int, width: int, is_added: bool, is_read: bool) -> str:
    kind = ("reads" if is_read else "muted") + (" added" if is_added else "")
    lines = name_lines(name)
    first = y + BOX_HEIGHT // 2 + 4 - 8 * (len(lines) - 1)
    texts = "".join(
        f'<text x="{x + width // 2}" y="{first + 16 * number}" text-anchor="middle" font-weight="bold">'
        f"{escape(line)}</text>"
        for number, line in enumerate(lines)
    )
    return (
        f'<g><title>{escape(name)}</title><rect x="{x}" y="{y}" width="{width}" height="{BOX_HEIGHT}" rx="6" '
        f'class="{kind}"/>{texts}</g>'
    )


def drawing() -> str:
    """Return the picture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        'font-family="sans-serif" font-size="12.5">',
        STYLE,
        '<defs><marker id="end" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
        '<rect class="page" width="100%" height="100%" rx="6"/>',
        '<text x="20" y="30" font-size="15" font-weight="bold">The states of a pipelined connection</text>',
    ]
    for _, event, _, path, x, y, anchor in ARROWS:
        parts.append(f'<path class="arrow" d="{path}" marker-end="url(#end)"/>')
        parts.append(f'<text class="event" x="{x}" y="{y}" text-anchor="{anchor}">{event.lower()}</text>')
    parts += [box(name, *place) for name, place in STATES.items()]
    for x, kind, text in LEGEND:
        parts.append(f'<rect x="{x}" y="378" width="24" height="16" rx="3" class="{kind}"/>')
        parts.append(f'<text x="{x + 32}" y="391">{text}</text>')
    parts.append(
        '<text x="20" y="416">Throttling adds a muted twin to each state but NOT_MUTED; the table has '
        "them.</text>"
    )
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    TARGET.write_text(drawing(), encoding="utf-8")
