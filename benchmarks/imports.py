"""The cost of importing beyond bare Python: `python -m benchmarks.imports`.

Targets: `import pykafka2` 10 ms, the two clients 100 ms.  The constructors import the parts of a client, so
one row creates both clients, too.  Rounds are interleaved, because the machine is noisy; minimum and median
of each are printed.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time

CLIENTS = "from pykafka2 import KafkaProducer, KafkaConsumer"
CREATED = (
    f"{CLIENTS}; KafkaProducer(bootstrap_servers='localhost:1').close(); "
    "KafkaConsumer(bootstrap_servers='localhost:1').close()"
)
STATEMENTS = {
    "bare Python": "pass",
    "import pykafka2": "import pykafka2",
    CLIENTS: CLIENTS,
    "the same, and create and close both clients": CREATED,
    "import kafka (kafka-python)": "import kafka",
    "import confluent_kafka": "import confluent_kafka",
}


def seconds_of(statement: str) -> tuple[float, float]:
    """Wall and CPU seconds of a fresh interpreter; the CPU's are steadier on a busy machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", statement], check=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each statement (default 15)")
    rounds = parser.parse_args().rounds
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in STATEMENTS}
    for _ in range(rounds):
        for name, statement in STATEMENTS.items():
            runs[name].append(seconds_of(statement))
    print(
        f"{'milliseconds beyond bare Python (bare: whole process)':55s} wall: min median    CPU: min median"
    )
    bare_walls, bare_cpus = zip(*runs["bare Python"], strict=True)
    for name, measured in runs.items():
        walls, cpus = zip(*measured, strict=True)
        is_bare = name == "bare Python"
        figures = [
            1000 * (figure(all_of) - (0.0 if is_bare else figure(bare_of)))
            for all_of, bare_of in ((walls, bare_walls), (cpus, bare_cpus))
            for figure in (min, statistics.median)
        ]
        print("{:55s} {:9.1f} {:6.1f} {:11.1f} {:6.1f}".format(name, *figures))


if __name__ == "__main__":
    main()
