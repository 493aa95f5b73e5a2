"""One of the two clusters that get the same requests; its responses without ids, places and times."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from ..bridge import Bridge
from ..maven import QUICK_JAVA
from .jars import WorldJars

Answers = dict[str, Any]
"""Observations, by action."""

UUID = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?<![\w/.+-])(?=\S*[a-z])(?=[A-Za-z]*[\d_/+-])[A-Za-z0-9_/+-]{22}(?![\w+/-])"
    r"|(?<=TopicId: )\S+"
)
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[\d.,:]*|(?<!\d)1[67]\d{11}(?!\d)")
LOGS = re.compile(r"/tmp/(pykafka2-real-kafka-\w+/nodes-\w+/data-\d|kafka-logs)")
NOISE = re.compile(
    r"^(<time>|\d\d:\d\d:\d\d\.\d+) (ERROR|WARN|INFO) .*|^SLF4J.*|^(at|Caused by:|\.\.\. \d+ more) ?.*"
    r"|^(pykafka2\.conformance\.Tools\$Exited: )?exit \d+$"
)
"""Lines of a log, of a stack trace, and of how Tools.java ends a tool."""

NO_ELR = re.compile(r"\bmin\.insync\.replicas=1( sensitive=\w+ synonyms=\{.*\})?,?")
"""Kafka sets it for all brokers (docs/fidelity.md, eligible leader replicas): left out on both sides."""


def _no_need() -> None:
    """Apache Kafka obeys the throttle."""


@attrs.define
class Side:
    """A cluster of three brokers, the JVM that asks it, and a folder for files."""

    kind: str
    addresses: list[str]
    bridge: Bridge
    jars: WorldJars
    folder: Path
    stop_followers: Callable[[], None] = _no_need
    """Keeps moves from ending where a throttle does not: the bundled broker enforces none of replication."""

    @property
    def servers(self) -> str:
        return ",".join(self.addresses)

    def plain(self, text: str) -> list[str]:
        """Its lines, without what differs from run to run; blanks collapsed."""
        for node, address in enumerate(self.addresses):
            host, _, port = address.rpartition(":")
            text = re.sub(rf"(localhost|{host}):{port}\b", f"<broker {node}>", text)
            text = re.sub(rf"\b{host} {port}\b", f"<broker {node}>", text)
        text = re.sub(r"<broker \d>\s+\(\d\)", "<coordinator>", text)
        text = LOGS.sub("<logs>", text.replace(str(self.folder), "<folder>"))
        text = NO_ELR.sub("", TIME.sub("<time>", UUID.sub("<id>", text)))
        lines = [" ".join(line.split()) for line in text.splitlines()]
        return [line for line in lines if line and not NOISE.match(line)]

    def tool(self, name: str, *arguments: object, input: str = "") -> tuple[int, str]:
        """Run it in the JVM; its status and all it printed."""
        item = {"class": name, "arguments": [str(one) for one in arguments], "input": input}
        (done,) = self.bridge("tool", [item])
        return done["status"], done["output"]

    @contextmanager
    def process(self, main: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A JVM of its own, killed at the end; what it prints goes to a file `<class>.log` in the folder."""
        log = self.folder / f"{main.rpartition('.')[2]}.log"
        flags = ("-Xmx256m", *QUICK_JAVA, "-Dpykafka2.log.level=ERROR")
        with log.open("ab") as output:
            process = subprocess.Popen(
                self.jars.java(main, *arguments, flags=flags),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
