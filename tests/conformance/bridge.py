"""A JVM with Apache Kafka's classes that answers the tests' questions: java/src/.../Bridge.java from here.

One process per generation of kafka-clients serves the whole session.  Owned by the test's thread;
a lock keeps two threads' questions apart.
"""

from __future__ import annotations

import base64
import json
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from .maven import CURRENT, QUICK_JAVA, KafkaJars

JVM_FLAGS = (
    "-Xmx512m",
    *QUICK_JAVA,
    "-Dpykafka2.log.level=ERROR",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",  # for the shutdown hooks of tools: Tools.java
)


class BridgeError(AssertionError):
    """Java failed where it should not have; the message is its stack trace."""


class Bridge:
    """Ask Java: `bridge("murmur2", [b64(b"key")])` answers one result per item."""

    def __init__(self, jars: KafkaJars, log_file: Path, generation: str = CURRENT) -> None:
        self._log_file = log_file
        self._lock = threading.Lock()
        with log_file.open("wb") as log:
            self._process = subprocess.Popen(
                jars.java("Bridge", generation=generation, flags=JVM_FLAGS),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C ends pytest, which closes the pipe, which ends the JVM: no noise in between.
                start_new_session=True,
            )

    def __call__(self, operation: str, items: list[Any]) -> list[Any]:
        """One answer per item, in order.  An item that failed in Java raises BridgeError."""
        answers = self.attempt(operation, items)
        for item, answer in zip(items, answers, strict=True):
            if isinstance(answer, dict) and "failed" in answer:
                raise BridgeError(f"{operation} of {_shortened(item)} failed in Java:\n{answer['failed']}")
        return answers

    def attempt(self, operation: str, items: list[Any]) -> list[Any]:
        """Like a call, but a failed item's answer is {"failed": stack trace}."""
        line = json.dumps({"op": operation, "items": items}).encode() + b"\n"
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock:
            stdin.write(line)
            stdin.flush()
            reply = stdout.readline()
        if not reply.endswith(b"\n"):
            raise BridgeError(
                f"the JVM ended during {operation}:\n{self._log_file.read_text(errors='replace')}"
            )
        answers: list[Any] = json.loads(reply)
        return answers

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def b64(data: bytes | None) -> str | None:
    """Bytes as JSON carries them."""
    return None if data is None else base64.b64encode(data).decode()


def unb64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _shortened(item: Any) -> str:
    text = json.dumps(item)
    return text if len(text) <= 600 else f"{text[:600]}… ({len(text)} characters)"
