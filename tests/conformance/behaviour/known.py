"""Known differences between the bundled broker and Apache Kafka 4.4.0, with reasons.

Every entry's `row` is the start of a row of the table in docs/fidelity.md; an entry that no longer applies
fails the stage, so that the table stays true.
"""

from __future__ import annotations

import re
from pathlib import Path

import attrs

FIDELITY = Path(__file__).parents[3] / "docs" / "fidelity.md"


def unserved_keys() -> set[int]:
    """Return the API keys of the table "APIs that are not served" in docs/fidelity.md."""
    text = FIDELITY.read_text(encoding="utf-8")
    section = text.partition("## APIs that are not served\n")[2].partition("\n## ")[0]
    rows: list[str] = re.findall(r"^\| [^|]+ \| ([\d, ]+) \|", section, re.MULTILINE)
    return {int(key) for row in rows for key in row.split(",")}


@attrs.frozen
class Known:
    """One difference: regular expressions for scenario (whole), step and path (part)."""

    scenario: str
    step: str
    path: str
    row: str


WORDS = "`error_message` of a rejected batch"
ABORTED = "Aborted transactions in a read_committed fetch"
NUMBER_ZERO = "ACLs with the number 0 (UNKNOWN)"
LATEST_OF_DELETED = "ListOffsets for the largest timestamp"
NO_STREAMS = "Streams groups (KIP-1071)"

UNSERVED_KEYS = "|".join(map(str, sorted(unserved_keys())))

KNOWN: tuple[Known, ...] = (
    Known(
        ".*",
        "Produce v",
        r"partition_responses\[\d+\]\.error_message$",
        WORDS,
    ),
    Known("produce_refuses", "no records: Produce v12", "^$", "Produce with null records"),
    Known(
        "configs_of_a_broker",
        r"^(channel\.mode|client\.telemetry|log\.validate|max\.pipelined\.\w+|threads|producer\.id\.expiration\.check\..*"
        r"|super\.users|allow\.everyone\.if\.no\.acl\.found)$",
        "^$",
        "Additional options",
    ),
    Known("configs_of_a_broker", r"log\.initial\.task\.delay\.ms", "^$", "First retention check"),
    Known("transaction_holds_readers_back", "all that is committed", "aborted_transactions$", ABORTED),
    Known("times_inside_batches", "the latest", r"partitions\[0\]\.offset$", LATEST_OF_DELETED),
    Known("access_rules_are_kept", r"(type|operation) 0: (Create|Describe|Delete)Acls", "^$", NUMBER_ZERO),
    Known("hostile_frames", "an array of -2 names", "^$", "Negative lengths"),
    Known("api_versions_advertised", f"^API ({UNSERVED_KEYS})$", "^$", NO_STREAMS),
    Known("api_versions_advertised", "streams.version", "^$", NO_STREAMS),
)
