"""How recorded answers of Apache Kafka are written to files: one line per exchange.

A diff of such a file shows which exchanges changed, and a grep finds an exchange with its whole answer.
"""

from __future__ import annotations

import json
from typing import Any


def one_line_per_exchange(answers: dict[str, Any]) -> str:
    """Return a JSON object whose entries take one line each."""
    lines = (
        f"{json.dumps(request, ensure_ascii=False)}: {json.dumps(answer, ensure_ascii=False)}"
        for request, answer in answers.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"
