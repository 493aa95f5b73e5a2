"""`pykafka2 demo` as a user types it: the proof, the crash, the damage that it must notice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pykafka2.cli.main import main
from pykafka2.testing import KafkaCluster
from tests.gate import rest_in_gate

SMALL = ["--records", "6000", "--no-progress"]


def row(out: str, name: str) -> str:
    """The value of one row of the closing table."""
    return next(line[len(name) :].strip() for line in out.splitlines() if line.startswith(name + "  "))


@pytest.mark.gate
@pytest.mark.slow
def test_a_crash_half_way_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *SMALL]) == 0
    out = capsys.readouterr().out
    assert row(out, "verdict") == "every record came back once, in order, unchanged"
    in_flight, dropped = row(out, "in flight at the crash").split(", ")
    assert int(in_flight.removesuffix("s").removesuffix(" produce request")) >= 1
    assert not dropped.startswith("0 ")
    assert int(row(out, "records retried").replace(",", "")) >= 1
    before, after = row(out, "leader epoch").split(" -> ")
    assert int(after) > int(before)
    assert "back in sync" in row(out, "crash")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "finding"),
    rest_in_gate(
        [
            ("lose", "lost 1:"),
            ("duplicate", "duplicated 1:"),
            ("reorder", "out of order"),
            ("corrupt", "corrupted 1:"),
        ]
    ),
)
def test_damage_below_the_client_is_noticed_and_named(
    kind: str, finding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *SMALL, "--sabotage", kind]) == 1
    captured = capsys.readouterr()
    assert "NOT what was sent" in captured.out
    line = next(line for line in captured.err.splitlines() if line.startswith(finding))
    assert "record " in line
    assert "key customer-" in line


@pytest.mark.gate
@pytest.mark.slow
def test_the_lines_of_a_file_are_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "access.log"
    file.write_bytes(b"".join(b"host-%d GET /%d\n" % (number % 7, number) for number in range(3000)))
    assert main(["demo", "--input", str(file), "--no-progress", "--brokers", "2", "--partitions", "3"]) == 0
    out = capsys.readouterr().out
    assert row(out, "read back").startswith("3,000 records")
    assert row(out, "cluster") == "2 brokers, 3 partitions x 2 replicas"


@pytest.mark.gate
@pytest.mark.slow
def test_a_cluster_of_yours_is_used_and_not_crashed(
    kafka_cluster: KafkaCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = kafka_cluster.bootstrap_servers
    assert main(["demo", *SMALL, "--bootstrap-servers", servers]) == 0
    assert row(capsys.readouterr().out, "crash").startswith("none")
    assert all(broker.is_running for broker in kafka_cluster.brokers)


@pytest.mark.gate
@pytest.mark.slow
def test_crash_of_a_single_broker_has_no_takeover_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--records", "2000", "--brokers", "1", "--no-progress"]) == 0
    assert row(capsys.readouterr().out, "crash").startswith("none")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "/no/such/file"], "No such file"),
        (
            ["--sabotage", "lose", "--bootstrap-servers", "localhost:1"],
            "--sabotage needs the demo's own cluster",
        ),
    ],
)
def test_bad_input_prints_a_one_line_error(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *words]) == 2
    assert message in capsys.readouterr().err


def test_an_empty_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    assert main(["demo", "--input", str(empty)]) == 2
    assert "no lines" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--partitions", "0"], ["--records", "x"], ["--sabotage", "burn"]])
def test_a_wrong_command_line_exits_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["demo", *words])
    assert caught.value.code == 2
    assert f"argument {words[0]}: " in (shown := capsys.readouterr().err)
    assert "invalid _" not in shown


@pytest.mark.gate
@pytest.mark.slow
def test_findings_show_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "lines"
    lines.write_text("\x1b[2Jkey value\n" * 20)
    assert main(["demo", "--input", str(lines), "--sabotage", "lose", "--no-progress"]) == 1
    errors = capsys.readouterr().err
    assert "key \\x1b[2Jkey" in errors
    assert "\x1b" not in errors


@pytest.mark.gate
@pytest.mark.slow
def test_the_installed_command_teaches() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "pykafka2.cli", "demo", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for word in (
        "--input",
        "--sabotage",
        "--bootstrap-servers",
        "--brokers",
        "--partitions",
        "--records",
        "examples",
    ):
        assert word in shown
