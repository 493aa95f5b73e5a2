"""`pykafka2 consume` as typed, on the bundled broker: positions, formats, groups, pipes and terminals."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import time
from typing import Any, ClassVar

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.cli.common.output import Output
from pykafka2.cli.main import build_parser
from pykafka2.cli.records.consume import POLL_MS, RECORDS_PER_POLL, Reading
from pykafka2.cli.records.record_formats import json_lines
from tests.cli.conftest import NewTopicOf
from tests.cli.typed import COMMAND, Terminal, pykafka2, started
from tests.gate import rest_in_gate

pytestmark = pytest.mark.slow
TEN = [(b"k%d" % n, b"v%d" % n) for n in range(10)]


def consume(servers: str, *words: str) -> list[str]:
    """The lines of stdout; the process ended with 0 and printed nothing else."""
    done = pykafka2("consume", "-b", servers, *words)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode().splitlines()


def produce(servers: str, topic: str, *values: bytes) -> None:
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value)


def committed(servers: str, group: str, topic: str) -> int | None:
    with KafkaConsumer(bootstrap_servers=servers, group_id=group) as consumer:
        return consumer.committed(TopicPartition(topic, 0))


@pytest.mark.gate
@pytest.mark.parametrize(
    ("words", "first", "last"),
    rest_in_gate(
        [
            (["--until", "end"], 0, 9),
            (["-e", "--offset", "-3"], 7, 9),
            (["-e", "--offset", "+3"], 3, 9),
            (["-e", "--offset", "4"], 4, 9),
            (["-e", "--offset=@1006"], 6, 9),
            (["--until", "4"], 0, 3),
            (["--until", "-4"], 0, 5),
            (["--until", "@1002", "-o", "earliest"], 0, 1),
            (["--until", "@2026-01-01", "-o", "-50"], 0, 9),
            (["--count", "3"], 0, 2),
            (["-c", "2", "-o", "5"], 5, 6),
        ]
    ),
)
def test_positions_bound_the_printed_records(
    words: list[str], first: int, last: int, servers: str, new_topic: NewTopicOf
) -> None:
    topic = new_topic(TEN)
    assert consume(servers, topic, *words) == [f"v{n}" for n in range(first, last + 1)]


@pytest.mark.gate
@pytest.mark.parametrize(
    "words", rest_in_gate([["-o", "latest", "-e"], ["-o", "5", "-u", "5"], ["-u", "+0"]])
)
def test_empty_range_ends_at_once(words: list[str], servers: str, new_topic: NewTopicOf) -> None:
    assert consume(servers, new_topic(TEN), *words) == []


@pytest.mark.gate
def test_partitions_are_chosen_and_empty_ones_do_not_block_the_end(
    servers: str, new_topic: NewTopicOf
) -> None:
    topic = new_topic(TEN[:2], partitions=4)
    assert sorted(consume(servers, topic, "-e")) == ["v0", "v1"]
    assert consume(servers, topic, "-e", "-p", "1-3", "-f", r"%p:%v\n") == ["1:v1"]


@pytest.mark.gate
def test_repeated_partitions_add_up(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic(TEN[:4], partitions=4)
    assert sorted(consume(servers, topic, "-e", "-p", "3", "-p", "0,1", "-p", "0")) == ["v0", "v1", "v3"]


@pytest.mark.gate
def test_end_behind_the_marker_of_a_transaction_is_reached(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    with KafkaProducer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for value, is_committed in [(b"a", True), (b"b", False)]:
            producer.begin_transaction()
            producer.send(topic, value)
            producer.flush()
            producer.commit_transaction() if is_committed else producer.abort_transaction()
    assert consume(servers, topic, "-e") == ["a", "b"]
    assert consume(servers, topic, "-e", "--isolation-level", "read_committed") == ["a"]


@pytest.mark.gate
def test_format_has_the_letters_of_kcat_and_rpk(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(
            topic, b"\xff\n", key=b"k", headers=[("a", b"1"), ("b", None)], timestamp_ms=1_700_000_000_123
        )
        producer.send(topic, None, timestamp_ms=0)
    shown = consume(
        servers,
        topic,
        "-e",
        "--null",
        "NULL",
        "-f",
        r"%t %p %o %k %K %V %S %h %H %T %d{iso} %i %% \x41|%v{hex}\n",
    )
    assert shown == [
        f"{topic} 0 0 k 1 2 2 a=1,b=NULL 2 1700000000123 2023-11-14T22:13:20.123Z 1 % A|ff0a",
        f"{topic} 0 1 NULL -1 -1 -1  0 0 1970-01-01T00:00:00.000Z 2 % A|NULL",
    ]


@pytest.mark.gate
def test_json_has_one_object_per_record_and_keeps_every_byte(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    with KafkaProducer(bootstrap_servers=servers) as producer:
        headers = [("a", b"1"), ("b", None), ("c", b"\xff")]
        producer.send(topic, 'é"\n'.encode(), key=b"\xff", headers=headers, timestamp_ms=5)
        producer.send(topic, None, timestamp_ms=6)
    first, second = (json.loads(line) for line in consume(servers, topic, "-e", "--json"))
    assert first == {
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": 5,
        "timestamp_type": "create_time",
        "key_base64": "/w==",
        "value": 'é"\n',
        "headers": [
            {"name": "a", "value": "1"},
            {"name": "b", "value": None},
            {"name": "c", "value_base64": "/w=="},
        ],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, [])


@pytest.mark.gate
def test_null_value_prints_an_empty_line(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic([(None, b"a"), (None, None), (None, b"")])
    assert consume(servers, topic, "-e") == ["a", "", ""]


@pytest.mark.gate
def test_grep_matches_keys_and_values_and_count_counts_matches(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic([(b"red", b"1"), (None, b"2"), (b"blue", None), (b"x", b"red"), (b"red", b"5")])
    assert consume(servers, topic, "-e", "--grep", "^red$") == ["1", "red", "5"]
    assert consume(servers, topic, "--count", "2", "--grep", "^red$", "-f", "%o ") == ["0 3 "]


@pytest.mark.gate
def test_group_continues_after_the_printed_records(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic(TEN)
    group = f"{topic}-group"
    assert consume(servers, topic, "-g", group, "-c", "4") == ["v0", "v1", "v2", "v3"]
    assert committed(servers, group, topic) == 4
    assert consume(servers, topic, "-g", group, "-e") == [f"v{n}" for n in range(4, 10)]
    assert committed(servers, group, topic) == 10


@pytest.mark.gate
def test_ctrl_c_ends_a_group_member_after_committing(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic(TEN)
    terminal = Terminal("consume", "-b", servers, topic, "-g", f"{topic}-group")
    terminal.wait_for("v9")
    terminal.type("\x03")
    code, shown = terminal.end()
    assert code == 130
    assert "Traceback" not in shown
    assert committed(servers, f"{topic}-group", topic) == 10


@pytest.mark.gate
def test_time_in_the_future_ends_following(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic(TEN[:2])
    started_at = time.time()
    ends_at_ms = int(started_at * 1000) + 6000
    process = started("consume", "-b", servers, topic, "--until", f"@{ends_at_ms}")
    with process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"v0\n", b"v1\n"]
        produce(servers, topic, b"in time")
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert out == b"in time\n"
    assert time.time() * 1000 >= ends_at_ms


@pytest.mark.gate
def test_new_records_are_followed_in_a_terminal_until_ctrl_c(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic(TEN[:1])
    terminal = Terminal("consume", "-b", servers, topic)
    terminal.wait_for("v0")
    produce(servers, topic, b"later")
    terminal.wait_for("later")
    terminal.type("\x03")
    code, shown = terminal.end()
    assert code == 130
    assert shown.splitlines() == ["v0", "later", "^C"]


@pytest.mark.gate
def test_closed_pipe_ends_following_even_without_new_records(servers: str, new_topic: NewTopicOf) -> None:
    process = started("consume", "-b", servers, new_topic(TEN[:1]))
    assert process.stdout is not None
    assert process.stdout.readline() == b"v0\n"
    process.stdout.close()
    assert process.wait(timeout=30) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    for stream in (process.stdin, process.stderr):
        assert stream is not None
        stream.close()


@pytest.mark.gate
def test_closed_pipe_ends_following_while_no_record_matches(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic(TEN[:1])
    process = started("consume", "-b", servers, topic, "--grep", "v0")
    with process, KafkaProducer(bootstrap_servers=servers) as producer:
        assert process.stdout is not None
        assert process.stdout.readline() == b"v0\n"
        process.stdout.close()
        deadline = time.monotonic() + 30
        while process.poll() is None:
            assert time.monotonic() < deadline
            producer.send(topic, b"other").result(10)
            time.sleep(0.02)
    assert process.returncode == 0


class PollsOnce:
    """A consumer that notes the arguments of a poll and ends it as Ctrl-C does."""

    polls: ClassVar[list[tuple[float, int]]] = []

    def poll_columns(self, timeout_ms: float, max_records: int) -> None:
        self.polls.append((timeout_ms, max_records))
        raise KeyboardInterrupt


def poll_of(*words: str, ends_in_ms: int | None = None) -> tuple[float, int]:
    """Return timeout and limit of the first poll."""
    arguments = build_parser(["consume"]).parse_args(["consume", "t", *words])
    ends_at_ms = None if ends_in_ms is None else int(time.time() * 1000) + ends_in_ms
    pattern = None if arguments.grep is None else re.compile(b"")
    out: Any = io.BytesIO()
    reading = Reading(arguments, Output("consume"), json_lines(), pattern, ends_at_ms=ends_at_ms, out=out)
    client: Any = PollsOnce()
    with pytest.raises(KeyboardInterrupt):
        reading.read(client)
    return PollsOnce.polls.pop()


def test_poll_ends_at_the_time_after_which_nothing_is_printed() -> None:
    assert poll_of(ends_in_ms=100)[0] <= 100
    assert poll_of(ends_in_ms=60_000)[0] == poll_of()[0] == POLL_MS


def test_count_limits_polls_only_if_every_record_is_printed() -> None:
    assert poll_of("--count", "5")[1] == 5
    assert poll_of("--count", "5", "--grep", "x")[1] == RECORDS_PER_POLL


@pytest.mark.gate
def test_sigterm_ends_with_143(servers: str, new_topic: NewTopicOf) -> None:
    process = started("consume", "-b", servers, new_topic(TEN[:1]))
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (143, b"", b"")


@pytest.mark.gate
def test_bounds_outside_the_log_are_reported(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic(TEN[:2])
    done = pykafka2("consume", "-b", servers, topic, "-o", "70", "-e")
    assert (done.returncode, done.stdout) == (0, b"")
    assert f"{topic}-0: offset 70 is not in the log; reading from 2" in done.stderr.decode()


@pytest.mark.gate
@pytest.mark.parametrize(
    ("words", "code", "message"),
    rest_in_gate(
        [
            (["TOPIC", "-o", "sometime"], 2, "argument -o/--offset: 'sometime' is not valid; use earliest"),
            (["TOPIC", "-u", "ennd"], 2, "did you mean end?"),
            (["TOPIC", "-u", "earliest"], 2, "argument -u/--until: 'earliest' is not valid"),
            (["TOPIC", "-o", "@yesterday"], 2, "'yesterday' is not a time; use 2026-"),
            (["TOPIC", "-c", "0"], 2, "argument -c/--count: '0' is not valid; use a whole number"),
            (["TOPIC", "-p", "a"], 2, "argument -p/--partition: 'a' is not valid"),
            (["TOPIC", "-p", "7"], 2, "--partition 7: topic 'TOPIC' has the partitions 0 to 0"),
            (["TOPIC", "-f", "%z"], 2, "--format %z: %z is unknown; use %t topic"),
            (["TOPIC", "-f", "%v{rot13}"], 2, "{rot13} is unknown; use one of hex, base64, json"),
            (["TOPIC", "--null", r"\q"], 2, r"--null \q: \q is unknown"),
            (["TOPIC", "--grep", "("], 2, "--grep (: not a regular expression"),
            (["TOPIC", "--json", "-f", "%v"], 2, "--format %v cannot be combined with --json"),
            (["TOPIC", "-g", "g", "-o", "5"], 2, "--offset 5 cannot be combined with --group"),
            (["TOPIC", "-X", "group.id=g"], 2, "-X group.id: name the group with --group"),
            (["TOPIC", "-g", "g", "-p", "0"], 2, "--partition cannot be combined with --group"),
            (["TOPIC", "-X", "fetch.min.byte=1"], 2, "the nearest is 'fetch.min.bytes'"),
            (["TOPIC", "-X", "sasl.password"], 2, "-X sasl.password: write name=value"),
            (["xTOPIC"], 1, "topic 'xTOPIC' does not exist; did you mean 'TOPIC'?"),
            ([], 2, "the following arguments are required: TOPIC"),
        ]
    ),
)
def test_bad_argument_is_named_with_its_value_and_the_valid_ones(
    words: list[str], code: int, message: str, servers: str, new_topic: NewTopicOf
) -> None:
    topic = new_topic()
    done = pykafka2("consume", "-b", servers, *(word.replace("TOPIC", topic) for word in words))
    assert done.returncode == code
    assert message.replace("TOPIC", topic) in done.stderr.decode() or "TOPIC" in message
    assert message.split("TOPIC")[0] in done.stderr.decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.gate
def test_broker_that_cannot_be_reached_is_named(servers: str) -> None:
    done = pykafka2("consume", "-b", "127.0.0.1:1", "t", "-X", "default.api.timeout.ms=300")
    assert done.returncode == 1
    assert b"127.0.0.1:1" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.gate
def test_full_device_is_reported(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic([(None, b"x" * 100_000)])
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "consume", "-b", servers, topic, "-e"], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.gate
def test_ctrl_c_in_a_batch_commits_exactly_the_printed_records(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic([(None, b"%05d%s" % (n, b"x" * 95)) for n in range(5000)])
    group = f"{topic}-group"
    process = started("consume", "-b", servers, topic, "-g", group)
    assert process.stdout is not None
    first = os.read(process.stdout.fileno(), 1000)  # the rest of the batch does not fit into the pipe
    process.send_signal(signal.SIGINT)
    lines = (first + process.communicate(timeout=60)[0]).split(b"\n")
    assert process.returncode == 130
    assert lines.pop() == b""
    assert committed(servers, group, topic) == len(lines)


@pytest.mark.gate
def test_ctrl_c_does_not_wait_for_a_reader_that_reads_nothing(servers: str, new_topic: NewTopicOf) -> None:
    topic = new_topic([(None, b"x" * 1000)] * 2000)
    process = started("consume", "-b", servers, topic, "-g", f"{topic}-group")
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    process.communicate()
    assert committed(servers, f"{topic}-group", topic) is None
