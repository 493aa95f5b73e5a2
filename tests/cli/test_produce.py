"""`pykafka2 produce` as typed, on the bundled broker: input, failed records, interrupts, pipes, terminals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, NewTopic, TopicPartition
from pykafka2.admin import ConfigResource
from pykafka2.cli.main import main
from pykafka2.cli.records.produce_input import JsonReader
from pykafka2.protocol.messages.transaction import EndTxnRequest
from pykafka2.testing import KafkaCluster
from pykafka2.text import counted
from tests.cli.conftest import NewTopicOf
from tests.cli.typed import COMMAND, Terminal, environment, pykafka2, started
from tests.gate import rest_in_gate

pytestmark = pytest.mark.slow
Record = tuple[bytes | None, bytes | None]


def records_of(servers: str, topic: str, isolation: str = "read_uncommitted") -> list[Record]:
    with KafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level=isolation
    ) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[Record] = []
        while any(consumer.position(one) < ends[one] for one in partitions):
            for polled in consumer.poll(500).values():
                found += [(record.key, record.value) for record in polled]
        return found


def produce(servers: str, topic: str, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return pykafka2("produce", "-b", servers, topic, *words, stdin=stdin)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("words", "stdin", "records"),
    rest_in_gate(
        [
            ([], b"a\n\nb\r\nc", [(None, b"a"), (None, b""), (None, b"b\r"), (None, b"c")]),
            ([], b"", []),
            (["-K", ":"], b"k:v:w\nno key\n:x\n", [(b"k", b"v:w"), (None, b"no key"), (b"", b"x")]),
            (["-K", r"\t", "--null"], b"k\t\n\tv\n", [(b"k", None), (None, b"v")]),
            (["-k", "key"], b"a\nb\n", [(b"key", b"a"), (b"key", b"b")]),
            (["-D", r"\0"], b"a\nb\0c", [(None, b"a\nb"), (None, b"c")]),
            (["--delimiter", "::"], b"a::b\n::", [(None, b"a"), (None, b"b\n")]),
            (["--whole"], b"a\nb\n", [(None, b"a\nb\n")]),
            (["-z", "zstd", "-a", "1", "-p", "0"], b"a\n", [(None, b"a")]),
            (["-X", "linger.ms=0", "--rate", "100"], b"a\nb\n", [(None, b"a"), (None, b"b")]),
        ]
    ),
)
def test_stdin_becomes_records(
    words: list[str], stdin: bytes, records: list[Record], servers: str, new_topic: NewTopicOf
) -> None:
    topic = new_topic()
    done = produce(servers, topic, *words, stdin=stdin)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert records_of(servers, topic) == records


@pytest.mark.gate
def test_lines_longer_than_one_read_stay_whole(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    lines = [b"x" * 700_000, b"y" * 700_000, b"z"]
    assert produce(servers, topic, stdin=b"\n".join(lines)).returncode == 0
    assert [value for _, value in records_of(servers, topic)] == lines


@pytest.mark.gate
def test_files_are_read_in_order_and_as_whole_records(
    servers: str, new_topic: NewTopicOf, tmp_path: Path
) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"a\nb\n")
    second.write_bytes(b"c")
    topic, whole = new_topic(), new_topic()
    assert produce(servers, topic, str(first), "-", str(second), stdin=b"s\n").returncode == 0
    assert [value for _, value in records_of(servers, topic)] == [b"a", b"b", b"s", b"c"]
    assert produce(servers, whole, "--whole", str(first), str(second)).returncode == 0
    assert [value for _, value in records_of(servers, whole)] == [b"a\nb\n", b"c"]


@pytest.mark.gate
def test_json_of_consume_makes_the_same_records(servers: str, new_topic: NewTopicOf) -> None:
    source, copy = new_topic(partitions=2), new_topic(partitions=2)
    lines = [
        {"value": "é", "key": "k", "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}]},
        {"value_base64": "/wA=", "key_base64": "/w==", "partition": 1, "timestamp": 5},
        {"value": None, "headers": {"h": "v"}},
        {"value": {"a": [1, None]}},
    ]
    done = produce(servers, source, "--json", stdin=b"\n\n".join(json.dumps(line).encode() for line in lines))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert {**result, "seconds": 0} == {
        "topic": source,
        "delivered": 4,
        "failed": 0,
        "not_sent": 0,
        "seconds": 0,
    }
    dumped = pykafka2("consume", "-b", servers, source, "--json", "-e").stdout
    assert produce(servers, copy, "--json", stdin=dumped).returncode == 0
    copied = pykafka2("consume", "-b", servers, copy, "--json", "-e").stdout
    assert sorted(copied.replace(copy.encode(), source.encode()).splitlines()) == sorted(dumped.splitlines())
    assert b'"value":"{\\"a\\":[1,null]}"' in copied


@pytest.mark.gate
def test_headers_of_the_command_line_are_added(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    assert produce(servers, topic, "-H", "a=1=2", "-H", "b=", stdin=b"x\n").returncode == 0
    line = json.dumps({"value": "y", "headers": {"own": "h"}}).encode()
    assert produce(servers, topic, "-H", "a=1", "--json", stdin=line).returncode == 0
    shown = pykafka2("consume", "-b", servers, topic, "-e", "-f", r"%v %h\n").stdout
    assert shown == b"x a=1=2,b=\ny a=1,own=h\n"


@pytest.mark.gate
def test_bad_lines_are_reported_and_the_others_are_delivered(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    lines = [
        b'{"value": "first"}',
        b'{"valu": 1}',
        b"{",
        b"[1]",
        b"{}",
        b'{"value": 1, "partition": 9}',
        b'{"value": 1, "timestamp": "now"}',
        b'{"value_base64": "?"}',
        b'{"value": 1, "headers": [1]}',
        b'{"value": "last"}',
    ]
    done = produce(servers, topic, "--json", stdin=b"\n".join(lines))
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        f"pykafka2 produce: stdin:{number}: {message}"
        for number, message in [
            (2, "field 'valu' is unknown; did you mean 'value'?"),
            (3, "not JSON: Expecting property name enclosed in double quotes"),
            (4, "a record must be a JSON object, not a list"),
            (5, "field 'value' is missing; null is a tombstone"),
            (7, "field 'timestamp' must be a whole number, at least 0, not a string"),
            (8, "field 'value_base64' is not base64"),
            (9, "field 'headers' must be a list of objects with name and value, or an object"),
            (6, f"partition 9 does not exist; topic {topic!r} has the partitions 0 to 0"),
        ]
    ]
    result = json.loads(done.stdout)
    assert (result["delivered"], result["failed"], result["not_sent"]) == (2, 8, 0)
    assert [value for _, value in records_of(servers, topic)] == [b"first", b"last"]


@pytest.mark.gate
def test_record_that_is_too_large_is_reported_with_its_line(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    lines = [b"a", b"b", b"x" * 3000, b"c"]
    done = produce(servers, topic, "-X", "max.request.size=2000", stdin=b"\n".join(lines))
    assert done.returncode == 1
    assert b"stdin:3: RecordTooLarge" in done.stderr
    assert b"3 records delivered" in done.stderr
    assert b"1 failed" in done.stderr
    assert [value for _, value in records_of(servers, topic)] == [b"a", b"b", b"c"]


@pytest.mark.gate
def test_record_that_the_broker_rejects_is_reported_with_its_line(
    servers: str, new_topic: NewTopicOf
) -> None:
    topic = new_topic()
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.alter_configs([ConfigResource("TOPIC", topic, {"max.message.bytes": "1000"})])
    lines = [b"a", b"x" * 2000, b"b"]
    done = produce(servers, topic, stdin=b"\n".join(lines))
    assert done.returncode == 1
    assert b"stdin:2: MessageTooLarge" in done.stderr
    assert [value for _, value in records_of(servers, topic)] == [b"a", b"b"]


@pytest.mark.gate
def test_typed_lines_are_sent_at_once_in_a_terminal(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    terminal = Terminal("produce", "-b", servers, topic)
    terminal.type("typed\n")
    deadline = time.monotonic() + 30
    while not (found := records_of(servers, topic)):
        assert time.monotonic() < deadline
    assert found == [(None, b"typed")]
    terminal.type("last\n\x04")
    code, shown = terminal.end()
    assert code == 0
    assert f"2 records delivered to {topic}" in shown


@pytest.mark.gate
def test_ctrl_c_delivers_the_read_records_and_reports_them(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    terminal = Terminal("produce", "-b", servers, topic, "-X", "linger.ms=2000")
    terminal.type("one\n")
    deadline = time.monotonic() + 30
    while not records_of(servers, topic):
        assert time.monotonic() < deadline
    terminal.type("two\n")
    time.sleep(1.5)  # it lingers for longer
    terminal.type("\x03")
    code, shown = terminal.end()
    assert code == 130
    assert f"2 records delivered to {topic}" in shown
    assert "Traceback" not in shown
    assert records_of(servers, topic) == [(None, b"one"), (None, b"two")]


@pytest.mark.gate
def test_interrupted_rate_reports_the_unsent_records(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    process = started("produce", "-b", servers, topic, "--rate", "20")
    with process:
        assert process.stdin is not None
        process.stdin.write(b"line\n" * 1000)
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while not records_of(servers, topic):
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    delivered = len(records_of(servers, topic))
    assert 0 < delivered < 1000
    assert f"{counted(delivered, 'record')} delivered to {topic}".encode() in err
    assert f"{1000 - delivered} read and not delivered".encode() in err


@pytest.mark.gate
def test_rate_limits_records_per_second(servers: str, new_topic: NewTopicOf) -> None:
    started_at = time.monotonic()
    assert produce(servers, new_topic(), "--rate", "50", stdin=b"x\n" * 51).returncode == 0
    assert time.monotonic() - started_at >= 0.9


@pytest.mark.gate
@pytest.mark.parametrize("is_good", rest_in_gate([True, False]))
def test_transaction_is_committed_only_if_every_record_was_delivered(
    is_good: bool, servers: str, new_topic: NewTopicOf
) -> None:
    topic = new_topic()
    words = ["--json", "-X", f"transactional.id={topic}"]
    done = produce(servers, topic, *words, stdin=b'{"value":"a"}\n' + (b"" if is_good else b"{"))
    assert done.returncode == (0 if is_good else 1), done.stderr
    assert records_of(servers, topic, "read_committed") == ([(None, b"a")] if is_good else [])
    assert json.loads(done.stdout)["delivered"] == (1 if is_good else 0)


@pytest.mark.gate
def test_commit_without_response_has_an_unknown_outcome() -> None:
    with KafkaCluster(brokers=1) as cluster:
        cluster.controls.hold(EndTxnRequest)
        words = ["-X", "transactional.id=t", "-X", "max.block.ms=1500"]
        done = produce(cluster.bootstrap_servers, "t", *words, stdin=b"a\n")
    assert done.returncode == 1
    assert b"its outcome is unknown" in done.stderr
    assert b"aborted:" in done.stderr
    assert b"transaction was aborted" not in done.stderr


@pytest.mark.gate
def test_ctrl_c_during_the_commit_waits_for_it() -> None:
    with KafkaCluster(brokers=1) as cluster:
        rule = cluster.controls.hold(EndTxnRequest)
        process = started("produce", "-b", cluster.bootstrap_servers, "t", "-X", "transactional.id=t")
        with process:
            assert process.stdin is not None
            process.stdin.write(b"a\n")
            process.stdin.close()
            process.stdin = None
            deadline = time.monotonic() + 30
            while not cluster.controls.held(EndTxnRequest):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            time.sleep(1.5)  # the signal arrives before the response
            cluster.controls.remove_rule(rule)
            _, err = process.communicate(timeout=60)
        assert records_of(cluster.bootstrap_servers, "t", "read_committed") == [(None, b"a")]
    assert process.returncode == 130
    assert b"1 record delivered" in err
    assert b"the transaction was committed" in err


@pytest.mark.gate
def test_records_before_an_unreadable_file_are_reported(
    servers: str, new_topic: NewTopicOf, tmp_path: Path
) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    os.mkfifo(first)
    second.write_bytes(b"b\n")
    process = started("produce", "-b", servers, new_topic(), str(first), str(second))
    with process:
        with open(first, "wb") as pipe:  # waits until the command reads it
            pipe.write(b"a\n")
            second.unlink()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"2: No such file or directory" in err
    assert b"1 record delivered" in err


@pytest.mark.gate
def test_lost_brokers_end_the_command_with_the_undelivered_records(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"line\n" * 10)
    with KafkaCluster(brokers=1) as cluster:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1, 1)], wait_for_metadata=True)
        words = ["-X", "delivery.timeout.ms=1500", "-X", "request.timeout.ms=1000", "-X", "linger.ms=0"]
        process = started("produce", "-b", cluster.bootstrap_servers, "t", *words)
        with process:
            assert process.stdin is not None
            process.stdin.write(b"first\n")
            process.stdin.flush()
            deadline = time.monotonic() + 30
            while not records_of(cluster.bootstrap_servers, "t"):
                assert time.monotonic() < deadline
            cluster.controls.stop_broker(0)
            _, err = process.communicate(b"second\nthird\n", timeout=60)
    assert process.returncode == 1
    assert b"stdin:2: DeliveryTimeout" in err
    assert b"1 record delivered to t" in err
    assert b"2 failed" in err
    assert b"Traceback" not in err


@pytest.mark.gate
@pytest.mark.parametrize(
    ("words", "code", "message"),
    rest_in_gate(
        [
            (["-p", "7"], 2, "--partition 7: topic 'TOPIC' has the partitions 0 to 0"),
            (["-p", "-1"], 2, "argument -p/--partition: '-1' is not valid; use a whole number, at least 0"),
            (["-H", "a"], 2, "--header a: write name=value"),
            (["-K", ""], 2, "--key-separator '': use at least one character"),
            (["-K", r"\q"], 2, r"--key-separator \q: \q is unknown; use \n"),
            (["--rate", "0"], 2, "argument --rate: '0' is not valid; use a number above 0"),
            (["-z", "zst"], 2, "did you mean zstd?"),
            (["-a", "2"], 2, "argument -a/--acks: invalid choice: '2'"),
            (["--json", "--whole"], 2, "--whole cannot be combined with --json"),
            (["--whole", "-K", ":"], 2, "--whole cannot be combined with --key-separator"),
            (["/nowhere/at.all"], 2, "argument FILE: /nowhere/at.all: No such file or directory"),
            (["/tmp"], 2, "argument FILE: /tmp: Is a directory"),
            (["-X", "lingr.ms=1"], 2, "the nearest is 'linger.ms'"),
            (["-X", "linger.ms=x"], 2, "linger_ms='x' is not valid"),
        ]
    ),
)
def test_bad_argument_is_named_with_its_value_and_the_valid_ones(
    words: list[str], code: int, message: str, servers: str, new_topic: NewTopicOf
) -> None:
    topic = new_topic()
    done = produce(servers, topic, *words, stdin=b"x\n")
    assert done.returncode == code
    assert message.replace("TOPIC", topic) in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert records_of(servers, topic) == []


@pytest.mark.gate
def test_missing_topic_is_reported(servers: str) -> None:
    done = produce(servers, "nowhere", "-X", "max.block.ms=500", stdin=b"x\n")
    assert done.returncode == 1
    assert b"topic 'nowhere' does not exist" in done.stderr


@pytest.mark.gate
def test_secret_is_not_echoed() -> None:
    words = ["-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN"]
    done = produce("127.0.0.1:1", "t", *words, "-X", "sasl.password=s3cr3t", "-vv", "-X", "max.block.ms=300")
    assert done.returncode != 0
    assert b"s3cr3t" not in done.stderr + done.stdout


@pytest.mark.gate
def test_bar_is_shown_for_a_file_if_stderr_is_a_terminal(
    servers: str, new_topic: NewTopicOf, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"line\n" * 10)
    topic = new_topic()
    code, shown = Terminal("produce", "-b", servers, topic, str(file)).end()
    assert code == 0
    assert "read:" in shown
    assert "/50.0" in shown
    assert f"10 records delivered to {topic}" in shown


@pytest.mark.gate
def test_missing_stdin_is_no_crash(servers: str, new_topic: NewTopicOf) -> None:
    words = " ".join(COMMAND)
    done = subprocess.run(
        ["sh", "-c", f"{words} produce -b {servers} {new_topic()} <&-"],
        capture_output=True,
        env=environment(),
    )
    assert done.returncode == 2
    assert b"argument FILE: -: Bad file descriptor" in done.stderr


def test_file_with_the_name_stdin_is_a_file(
    servers: str, new_topic: NewTopicOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    (tmp_path / "stdin").write_bytes(b"from the file\n")
    monkeypatch.chdir(tmp_path)
    assert main(["produce", topic, "stdin", "-b", servers]) == 0
    assert records_of(servers, topic) == [(None, b"from the file")]


def test_input_that_cannot_be_read_is_reported_with_the_delivered_records(
    servers: str, new_topic: NewTopicOf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic()
    good = tmp_path / "good"
    good.write_bytes(b"a\nb\n")
    assert main(["produce", topic, str(good), "/proc/self/mem", "-b", servers, "--json", "-z", "none"]) == 1
    shown = capsys.readouterr()
    assert "the rest was not read" in shown.err
    result = json.loads(shown.out)
    assert (result["delivered"] + result["failed"], result["not_sent"]) == (2, 0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"value": NaN}', "not JSON: NaN"),
        ('{"value": 1e999}', "a number is too large; send it as a string"),
        (
            '{"value": "x", "headers": [{"name": "a", "valeu": "b"}]}',
            "field 'valeu' of a header is unknown; use name, value, value_base64",
        ),
    ],
)
def test_json_that_would_be_sent_otherwise_than_written_is_a_bad_record(line: str, reason: str) -> None:
    assert JsonReader().rows("stdin", 1, [line.encode()]).bad == [(1, reason)]


def test_options_and_records_cannot_both_be_read_from_stdin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["produce", "topic", "--config", "-"]) == 2
    assert "--config - cannot be combined with records from stdin" in capsys.readouterr().err
