"""What importing costs beyond bare Python: `python -m benchmarks.imports`.

Targets: `import pykafka2` 10 ms, the two clients 120 ms.  Rounds are interleaved, because the machine is
noisy; the best of each is printed.
"""

from __future__ import annotations

import argparse
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


def seconds_of(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", statement], check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each statement (default 15)")
    rounds = parser.parse_args().rounds
    best = dict.fromkeys(STATEMENTS, float("inf"))
    for _ in range(rounds):
        for name, statement in STATEMENTS.items():
            best[name] = min(best[name], seconds_of(statement))
    bare = best["bare Python"]
    for name, seconds in best.items():
        print(f"{name:55s} {1000 * (seconds - bare):8.1f} ms beyond bare Python")


if __name__ == "__main__":
    main()
