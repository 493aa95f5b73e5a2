"""Batches that kafka-clients 4.3.1 wrote, kept as bytes: we read them, and write them alike where we can."""

from __future__ import annotations

import pytest

from pykafka2.records.batch import batches
from pykafka2.records.control import ControlMarker, build_end_marker, read_marker
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import BatchBuilder

NOW = 1_700_000_000_000
RECORDS = [
    (1000, NOW, b"key", b"a value, a value, a value", [("h", None), ("é", b"x")]),
    (1001, NOW - 10, None, b"", []),
    (1002, NOW + 10_000, b"", None, []),
]

WRITTEN_BY_JAVA = {
    "none": (
        "00000000000003e80000006c00000003029efcfe320010000000020000018bcfe568000000018bcfe58f100000000000"
        "0000050001000000070000000354000000066b657932612076616c75652c20612076616c75652c20612076616c756504"
        "02680104c3a902780c0013020100001000a09c0104000100"
    ),
    "gzip": (
        "00000000000003e8000000720000000302251d47550011000000020000018bcfe568000000018bcfe58f100000000000"
        "000005000100000007000000031f8b08000000000000ff0b61606060cb4ead344a54284bcc294dd5514067b0306530b2"
        "1c5ec954c1c320ccc4c8c020c0b0600e230b03230300cb3065323b000000"
    ),
    "snappy": (
        "00000000000003e8000000760000000302751919c90012000000020000018bcfe568000000018bcfe58f100000000000"
        "0000050001000000070000000382534e41505059000000000100000001000000313b4454000000066b65793261207661"
        "6c75652c203e0900600402680104c3a902780c0013020100001000a09c0104000100"
    ),
    "lz4": (
        "00000000000003e8000000710000000302f3b0edea0013000000020000018bcfe568000000018bcfe58f100000000000"
        "0000050001000000070000000304224d1860408231000000fc0354000000066b657932612076616c75652c200900f00a"
        "0402680104c3a902780c0013020100001000a09c010400010000000000"
    ),
    "zstd": (
        "00000000000003e80000006f0000000302c20767ba0014000000020000018bcfe568000000018bcfe58f100000000000"
        "0000050001000000070000000328b52ffd0058940100b40254000000066b657932612076616c75652c200402680104c3"
        "a902780c0013020100001000a09c01040001000100889430010000"
    ),
}
MARKER_OF_JAVA = (
    "0000000000000063000000420000000302f801ea650030000000000000018bcfe568000000018bcfe568000000000000"
    "0000070002ffffffff000000012000000008000000010c00000000000400"
)


@pytest.mark.parametrize("codec", WRITTEN_BY_JAVA)
def test_batches_of_java_are_read(codec: str) -> None:
    [batch] = batches(bytes.fromhex(WRITTEN_BY_JAVA[codec]))
    assert list(decode_tuples(batch, read_offsets=True)) == RECORDS
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, 7)
    assert batch.partition_leader_epoch == 3
    assert batch.is_transactional


@pytest.mark.parametrize("codec", ["none", "snappy", "lz4"])
def test_batches_equal_those_of_java(codec: str) -> None:
    """gzip and zstd have freedoms (operating system, block headers) that libraries use differently."""
    builder = BatchBuilder(codec)
    for _, *record in RECORDS:
        builder.append(*record)  # type: ignore[arg-type]
    built = builder.build(1000, 5, 1, 7, is_transactional=True, partition_leader_epoch=3)
    assert built.hex() == WRITTEN_BY_JAVA[codec]


def test_the_marker_of_a_transaction_is_javas() -> None:
    built = build_end_marker(True, NOW, 7, 2, coordinator_epoch=4, base_offset=99, partition_leader_epoch=3)
    assert built.hex() == MARKER_OF_JAVA
    [batch] = batches(bytes.fromhex(MARKER_OF_JAVA))
    assert read_marker(batch) == ControlMarker(1, 4)
