"""The child of `KafkaCluster(process=True)`: runs one cluster and its admin port until its parent ends.

The parent writes one line of JSON with the cluster's arguments to standard input.  It reads one line from
standard output: the address, or the error.  The end of standard input ends this process, so it cannot outlive
its parent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from pykafka2.errors import KafkaError
from pykafka2.testing.arguments import Topic
from pykafka2.testing.cluster import KafkaCluster


def cluster_of(arguments: dict[str, Any]) -> KafkaCluster:
    """Return the cluster that the parent described."""
    topics = {name: Topic(**topic) for name, topic in arguments.pop("topics").items()}
    return KafkaCluster(topics=topics, **arguments)


def main() -> int:
    # Ctrl-C reaches the whole process group; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Other output must not mix with the response.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    arguments = json.loads(sys.stdin.readline() or "null")
    if arguments is None:
        return 0
    try:
        cluster = cluster_of(arguments).start()
    except KafkaError as error:
        _respond(answers, {"error": {"type": type(error).__name__, "message": str(error)}})
        return 1
    try:
        port = cluster.open_admin_port()
        _respond(answers, {"address": port.address, "token": port.token})
        while sys.stdin.readline():
            pass
    finally:
        cluster.close()
    return 0


def _respond(answers: Any, what: dict[str, Any]) -> None:
    try:
        print(json.dumps(what), file=answers, flush=True)
        answers.close()
    except BrokenPipeError:
        pass  # the parent has ended; the end of standard input follows


if __name__ == "__main__":
    sys.exit(main())
