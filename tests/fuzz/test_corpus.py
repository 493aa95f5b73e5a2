"""The same frames each time: the first of seed 0 for every parser, and those that were read wrongly once."""

from __future__ import annotations

from functools import partial

import pytest
from attrs import evolve

from pykafka2.errors import CorruptData
from tests.fuzz.run import main
from tests.fuzz.targets import MOST_DECOMPRESSED_BYTES, TARGETS, Made
from tests.fuzz.trying import Tally, try_frame, watched

FRAMES = 300

FOUND = [
    # Columns of a batch that ends before its number of records.
    (
        "fetched",
        "0000000000000000000000b9ffffffff0232109e6b0000000000030000018bcfe567f70000018bcfe56808ffffffffffffffff"
        "ffffffffffff0000000416000000000aaae7fbfb0900e60100160200b401d008ea8822385b27ff59f5d0422ed27e371fc80733"
        "c826337d452e3ba367ff18cd253c47d9bd313652de224844109cb778c9780a8061780be3d1a117f7a8c6a715986ab3e5416bc4"
        "c04c6d33b50b03110e166a69bf5317c6f7d406086e616d6500086e616d6500086e616d65000c002204010000",
    ),
]


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_frames_end_in_a_value_or_in_an_error_that_was_promised(name: str) -> None:
    target, tally = TARGETS[name], Tally()
    for index in range(FRAMES):
        made = target.frame(0, index)
        watched(partial(try_frame, target, index, made, tally, weigh=index % 50 == 0))
    assert tally.findings == []
    assert tally.frames == FRAMES


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_corpus_frames_raise_no_finding(name: str, data: str) -> None:
    tally = Tally()
    try_frame(TARGETS[name], 0, Made(bytes.fromhex(data)), tally, weigh=True)
    assert tally.findings == []


def test_frame_is_reproduced_from_its_seed_and_number() -> None:
    for target in TARGETS.values():
        assert target.frame(7, 41) == target.frame(7, 41)
        assert any(target.frame(7, index).data != target.frame(8, index).data for index in range(20))


def test_an_error_that_was_not_promised_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    def read(made: Made) -> None:
        raise CorruptData if made.data else IndexError("gone wrong")

    target, tally = evolve(TARGETS["data"], read=read), Tally()
    try_frame(target, 1, Made(b"x"), tally)
    try_frame(target, 2, Made(b""), tally)
    try_frame(
        evolve(target, read=lambda made: bytes(MOST_DECOMPRESSED_BYTES * 40)),
        3,
        Made(b"x"),
        tally,
        weigh=True,
    )
    assert [one.index for one in tally.findings] == [2, 3]
    assert "gone wrong" in tally.findings[0].what
    assert "bytes of memory" in tally.findings[1].what
    assert main(["--again", "scram-final", "0", "3"]) == 0
    assert "refused" in capsys.readouterr().out
