"""Runs command-line tools one after another and keeps what each printed."""

from __future__ import annotations

import json
from collections.abc import Callable

from .side import Answers, Side

AT = 1_700_000_000_000
"""When the records that are written here claim to be from."""


class Asker:
    """Runs one tool after another, and keeps what each printed under a name for the step."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.answers: Answers = {}

    def ask(
        self,
        tool: str,
        *arguments: object,
        input: str = "",
        name: str = "",
        ordered: bool = True,
        keep: Callable[[str], bool] = bool,
        tidy: Callable[[str], str] = str,
        servers: str = "--bootstrap-server",
    ) -> list[str]:
        """Keep status and output; `ordered=False` where Kafka prints in the order of a hash table."""
        short = tool.rpartition(".")[2]
        step = name or " ".join([short, *map(str, arguments)]).replace(str(self.side.folder), "")
        servers_of_side = (servers, self.side.servers) if servers else ()
        try:
            status, output = self.side.tool(tool, *servers_of_side, *arguments, input=input)
            lines = [tidy(line) for line in self.side.plain(output) if keep(line)]
        except AssertionError as problem:
            status, lines = -1, str(problem).splitlines()[:2]
        self.answers[step] = {"status": status, "output": lines if ordered else sorted(lines)}
        return lines

    def file(self, name: str, content: object) -> str:
        path = self.side.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def fill(self, topic: str, count: int, partition: int = 0) -> None:
        """Records of a known size, without a tool."""
        self.side.bridge(
            "produce",
            [
                {
                    "bootstrap_servers": self.side.servers,
                    "topic": topic,
                    "partition": partition,
                    "records": [
                        {"key": None, "value": "YWJj", "timestamp": AT + number, "headers": []}
                        for number in range(count)
                    ],
                    "config": {"linger.ms": "300"},  # one batch, so that sizes are the same
                }
            ],
        )
