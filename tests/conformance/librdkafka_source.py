"""librdkafka's sources, fetched and built once and kept in the cache folder; which of its tests are run.

They come with the npm package of Confluent's client for JavaScript, which bundles them whole; it is fetched
through npm and pinned by its SHA-256.  Needs npm, compilers for C and C++, make, bash, and the headers of
zlib and OpenSSL; about three minutes on two cores, once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from .maven import KafkaJars, cache_folder

VERSION = "2.15.1"
PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
ARCHIVE = "confluentinc-kafka-javascript-1.10.1.tgz"
SHA256 = "ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66"
SOURCES = "package/deps/librdkafka/"

DOWNLOAD_TIMEOUT = 180.0
BUILD_TIMEOUT = 1500.0
JOBS = 2

CONFIGURE = ["--disable-gssapi", "--disable-curl", "--disable-lz4-ext", "--disable-zstd", "--no-download"]
"""Only what any machine with a compiler has; lz4 and snappy are in the sources."""

STEPS: list[list[str]] = [
    ["bash", "./configure", "--disable-debug-symbols", *CONFIGURE],
    ["make", f"-j{JOBS}", "-C", "src", "librdkafka.a", "librdkafka.so.1"],
    ["ln", "-sf", "librdkafka.so.1", "src/librdkafka.so"],
    ["make", f"-j{JOBS}", "-C", "src-cpp", "librdkafka++.a", "librdkafka++.so.1"],
    ["ln", "-sf", "librdkafka++.so.1", "src-cpp/librdkafka++.so"],
    # Tests themselves need no optimiser; that halves the time.
    [
        "make",
        f"-j{JOBS}",
        "-C",
        "tests",
        "CFLAGS=-O0 -I../src",
        "CXXFLAGS=-O0 -I../src -I../src-cpp",
        "build",
    ],
]

TOOL = """#!/bin/sh
exec java -XX:TieredStopAtLevel=1 -Xshare:auto -cp "$CLASSPATH:{jars}/*" {main} "$@"
"""
"""Kafka's shell scripts, as far as the tests call them."""

TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-run-class.sh": "",
}

LEFT_OUT: dict[str, str] = {
    "0097": "wants a hierarchy of certificates in five encodings",
    "0126": "wants an OpenID authority, and a librdkafka with curl",
    "0139": "runs on librdkafka's mock broker",
    "0150": "runs on librdkafka's mock broker",
    "0190": "wants a plugin that writes the clients' metrics to a topic",
}

NO_AUTO_CREATE = ["0045", "0107", "0111"]
"""They have tests of a scenario of their own, on brokers that create no topics."""

ADMIN = """
unclean_destroy CreateTopics DeleteTopics CreatePartitions CreateAcls DescribeAcls DeleteAcls AlterConfigs
IncrementalAlterConfigs DescribeConfigs DescribeConfigs_groups DeleteRecords ListConsumerGroups
DescribeConsumerGroups DescribeTopics DescribeCluster DescribeConsumerGroups_with_authorized_ops DeleteGroups
DeleteConsumerGroupOffsets ListOffsets AlterConsumerGroupOffsets ListConsumerGroupOffsets
UserScramCredentials
"""
CONSUME = """
single_consumer multiple_consumers high_volume many rapid empty sparse poll concurrent headers fetch record
consumer_close partition zero
"""
"""The parts of 0171 by their first words, without the one that compresses with zstd."""
CONCURRENCY = """
1p_1c 1p_4c 4p_1c 4p_4c 2p_2c 1p_8c 2p_6c explicit staggered high_volume 8p_2c 2p_8c complex max_concurrent
slow chaos
"""
PARTS: dict[str, list[str]] = {
    "0081": [f"do_test_{name}:" for name in ADMIN.split()],
    "0135": ["do_test:"],
    "0171": [f"do_test_{name}" for name in CONSUME.split()],
    "0174": [f"do_test_{name}" for name in CONCURRENCY.split()],
    "0142": [f"do_test_{name}:" for name in ("producer", "consumer", "txn_producer", "reauth_failure")],
}
"""A test ends at its first failure; these are run part by part.  Other parts need what this build lacks."""
PARTS_BY_TOKEN = {"0142": ["do_test_oauthbearer:"]}
"""Run again where clients log in by OAUTHBEARER."""

SASL = ["0135", "0142"]
"""They log in."""

LONG = [
    "0113",
    "0174",
    "0172",
    "0170",
    "0173",
    "0184",
    "0177",
    "0098",
    "0178",
    "0176",
    "0179",
    "0181",
    "0185",
]
LONG += ["0089", "0103", "0033", "0076", "0137", "0026"]
"""A minute to ten each; they are begun first."""

DECLARED = re.compile(r"_TEST\((\d{4})_\w+,\s*([^,)]+)")


def built() -> Path:
    """The built sources; raises SystemExit with the reason where they cannot be had."""
    folder = cache_folder() / f"librdkafka-{VERSION}-{SHA256[:8]}"
    if not folder.exists():
        print(f"building librdkafka {VERSION} (about three minutes, once)", flush=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
            unfinished = Path(scratch) / "librdkafka"
            _unpack(_archive(), unfinished)
            for step in STEPS:
                _run(step, unfinished, BUILD_TIMEOUT)
            unfinished.rename(folder)
    return folder


def broker_tests(sources: Path) -> list[str]:
    """Numbers of the tests that need a broker, without known issues, manual ones and LEFT_OUT."""
    text = (sources / "tests" / "test.c").read_text(errors="replace")
    not_ours = ("TEST_F_LOCAL", "TEST_F_MANUAL", "TEST_F_KNOWN_ISSUE")
    numbers = {
        number
        for number, flags in DECLARED.findall(text)
        if number not in LEFT_OUT and not any(re.search(rf"{flag}\b", flags) for flag in not_ours)
    }
    return sorted(numbers)


def kafka_path(folder: Path, jars: KafkaJars) -> Path:
    """A folder that the tests take for an installation of Kafka: shell scripts they call, and its jars."""
    (folder / "bin").mkdir(parents=True)
    (folder / "libs").symlink_to(jars.current)
    for name, main in TOOLS.items():
        script = folder / "bin" / name
        script.write_text(TOOL.format(jars=jars.current, main=main))
        script.chmod(0o755)
    return folder


def _archive() -> Path:
    archive = cache_folder() / ARCHIVE
    if not archive.exists():
        if shutil.which("npm") is None:
            raise SystemExit("librdkafka's sources come with an npm package, and there is no npm on PATH")
        command = ["npm", "pack", "--silent", "--pack-destination", str(archive.parent), PACKAGE]
        _run(command, archive.parent, DOWNLOAD_TIMEOUT)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{archive.name} has SHA-256 {found}, pinned is {SHA256}")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            if member.name.startswith(SOURCES):
                member.name = member.name.removeprefix(SOURCES)
                tar.extract(member, folder, filter="data")


def _run(command: list[str], folder: Path, timeout: float) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=timeout,
    )
    if done.returncode:
        tail = done.stdout.decode(errors="replace")[-3000:]
        raise SystemExit(f"{' '.join(command)} failed with {done.returncode}:\n{tail}")
