"""The own tests of two Rust clients against the bundled broker: rdkafka (over librdkafka) and rskafka.

    python -m tests.conformance.rust_suites [rdkafka | rskafka] [--real]

fetches the crates' sources by cargo, builds their tests in the cache folder (minutes at first: both build a
librdkafka; seconds later) and runs them.  rdkafka's tests name localhost:9092 themselves, so that port has to
be free; on Apache Kafka those fail for that alone.  Prints cargo's output and what failed; exit status 1 if
anything did.  Not part of the gate, nor of nox: it needs a C compiler and cargo.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import attrs

from .maven import cache_folder
from .suites import Serving, run

FETCH_TIMEOUT = 120.0
BUILD_TIMEOUT = 1500.0
SUITE_TIMEOUT = 400.0


@attrs.frozen
class Crate:
    """A crate whose package has its tests in it."""

    name: str
    version: str
    serving: Serving
    environment: dict[str, str]
    """For its tests; "{address}" in it is the broker's."""
    features: str = ""
    update: str = ""
    """A dependency whose locked version no longer compiles."""


CRATES = [
    Crate(
        "rdkafka",
        "0.39.0",
        Serving(config={"num.partitions": 3}, port=9092),
        {"KAFKA_HOST": "{address}", "KAFKA_VERSION": "4.0"},
    ),
    Crate(
        "rskafka",
        "0.6.0",
        # Its docker-compose file says so, and one test counts on it.
        Serving(config={"auto.create.topics.enable": False}),
        {"TEST_INTEGRATION": "1", "KAFKA_CONNECT": "{address}", "TEST_BROKER_IMPL": "kafka"},
        features="transport-tls,transport-socks5",
        update="rsasl",
    ),
]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("crate", nargs="?", choices=[crate.name for crate in CRATES])
    parser.add_argument("--real", action="store_true", help="run against Apache Kafka, to compare")
    options = parser.parse_args(arguments)
    chosen = [crate for crate in CRATES if options.crate in (None, crate.name)]
    failures = sum(len(_failed_tests(crate, options.real)) for crate in chosen)
    return 1 if failures else 0


def _failed_tests(crate: Crate, real: bool) -> list[str]:
    folder = _sources(crate)
    command = ["cargo", "test", "--quiet", "--tests", "--no-fail-fast"]
    command += ["--features", crate.features] if crate.features else []
    subprocess.run([*command, "--no-run"], cwd=folder, check=True, timeout=BUILD_TIMEOUT)
    with crate.serving.started(real) as address:
        environment = {name: value.format(address=address) for name, value in crate.environment.items()}
        output = run(command, folder, environment, SUITE_TIMEOUT)
    print(f"{crate.name} {crate.version} on {'Apache Kafka' if real else 'the bundled broker'}\n{output}")
    failed = sorted(set(re.findall(r"^    (\w+)$", output, re.MULTILINE)))
    failed += ["no end"] if "STALLED" in output else []
    passed = sum(map(int, re.findall(r"^test result: .*? (\d+) passed", output, re.MULTILINE)))
    print(f"{crate.name} {crate.version}: {passed} passed, {len(failed)} failed {failed or ''}")
    return failed


def _sources(crate: Crate) -> Path:
    """The crate's sources in a folder where cargo can build them."""
    folder = cache_folder() / f"{crate.name}-{crate.version}"
    if folder.exists():
        return folder
    fetcher = cache_folder() / f"fetch-{crate.name}-{crate.version}"
    (fetcher / "src").mkdir(parents=True, exist_ok=True)
    (fetcher / "src" / "lib.rs").touch()
    (fetcher / "Cargo.toml").write_text(
        f'[package]\nname = "fetch"\nversion = "0.0.0"\n[dependencies]\n{crate.name} = "={crate.version}"\n'
    )
    vendored = fetcher / "vendor"
    subprocess.run(
        ["cargo", "vendor", "--quiet", "--versioned-dirs", str(vendored)],
        cwd=fetcher,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=FETCH_TIMEOUT,
    )
    shutil.copytree(vendored / f"{crate.name}-{crate.version}", folder)
    shutil.rmtree(fetcher)
    for unwanted in ("rust-toolchain.toml", ".cargo-checksum.json"):
        (folder / unwanted).unlink(missing_ok=True)
    if crate.update:
        subprocess.run(
            ["cargo", "update", "--quiet", "-p", crate.update], cwd=folder, check=True, timeout=FETCH_TIMEOUT
        )
    return folder


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
