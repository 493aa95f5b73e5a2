"""What importing costs beyond bare Python: `python -m benchmarks.imports`.

Targets: `import pykafka2` 10 ms, the two clients 120 ms.  Rounds are interleaved, because the machine is
noisy; the best of each is printed.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

STATEMENTS = {
    "bare Python": "pass",
    "import pykafka2": "import pykafka2",
    "from pykafka2 import KafkaProducer, KafkaConsumer": "from pykafka2 import KafkaProducer, KafkaConsumer",
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
    best = dict.fromkeys(STATEMENTS, (float("inf"), float("inf")))
    for _ in range(rounds):
        for name, statement in STATEMENTS.items():
            wall, cpu = seconds_of(statement)
            best[name] = (min(best[name][0], wall), min(best[name][1], cpu))
    bare_wall, bare_cpu = best["bare Python"]
    print(f"{'beyond bare Python':55s} {'wall':>8s}    {'CPU':>8s}")
    for name, (wall, cpu) in best.items():
        print(f"{name:55s} {1000 * (wall - bare_wall):8.1f} ms {1000 * (cpu - bare_cpu):8.1f} ms")


if __name__ == "__main__":
    main()
