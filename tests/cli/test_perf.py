"""`pykafka2 perf` as typed: produce, consume, latency; in pipes, in a pseudo-terminal, and with Ctrl-C."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, TopicPartition
from pykafka2.cli.perf.measurements import Samples, percentile, rates
from pykafka2.testing import QUICK, KafkaCluster
from tests.cli.typed import ROOT, Terminal, in_terminal, pykafka2, started
from tests.gate import rest_in_gate


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    topics = {"load": 2, "latency": 1, "read": 2, "empty": 1, "ended": 1}
    with KafkaCluster(brokers=2, topics=topics, config=QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def servers(cluster: KafkaCluster) -> str:
    return cluster.bootstrap_servers


def produced(cluster: KafkaCluster) -> int:
    """The number of records in the topic `t`."""
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        return consumer.end_offsets([TopicPartition("t", 0)])[TopicPartition("t", 0)]


def perf(servers: str, *words: str) -> tuple[int, Any, str]:
    """The exit code, the printed JSON and stderr."""
    ended = pykafka2("perf", *words, "-b", servers, "--json")
    printed = ended.stdout.decode()
    return ended.returncode, json.loads(printed) if printed else None, ended.stderr.decode()


# ---------------------------------------------------------------------- produce


@pytest.mark.gate
def test_produce_sends_the_records_and_measures(cluster: KafkaCluster, servers: str) -> None:
    before = sum(len(cluster.log("load", number).values()) for number in range(2))
    code, result, errors = perf(servers, "produce", "load", "--records", "3000", "--size", "50")
    after = sum(len(cluster.log("load", number).values()) for number in range(2))
    assert (code, errors) == (0, "")
    assert after - before == 3000
    assert (result["records"], result["failed"], result["bytes"]) == (3000, 0, 150_000)
    assert result["interrupted"] is False
    assert result["records_per_second"] == pytest.approx(3000 / result["seconds"], rel=0.05)
    latency = result["latency_ms"]
    assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["p99_9"] <= latency["max"]


@pytest.mark.gate
def test_produce_at_a_rate_for_a_duration(servers: str) -> None:
    code, result, _ = perf(servers, "produce", "load", "--rate", "200", "--duration", "1")
    assert code == 0
    assert 1 <= result["records"] <= 201
    assert result["seconds"] >= 1


@pytest.mark.gate
def test_produce_for_people_has_a_line_for_each_figure(servers: str) -> None:
    ended = pykafka2("perf", "produce", "load", "--records", "1000", "-b", servers)
    shown = ended.stdout.decode()
    assert ended.returncode == 0
    for name in ("records per second", "mib per second", "latency ms", "p99.9"):
        assert name in shown
    assert ended.stderr == b""  # no bar in a pipe


@pytest.mark.gate
def test_produce_in_a_terminal_shows_a_bar(servers: str) -> None:
    code, shown = in_terminal("perf", "produce", "load", "--rate", "1000", "--records", "800", "-b", servers)
    assert code == 0
    assert "produce load:" in shown
    assert "records per second" in shown


@pytest.mark.gate
def test_ctrl_c_prints_the_measurement_so_far(servers: str) -> None:
    terminal = Terminal("perf", "produce", "load", "--duration", "60", "--rate", "500", "-b", servers)
    terminal.wait_for("produce load:")
    time.sleep(0.5)
    terminal.type("\x03")
    code, shown = terminal.end()
    assert code == 130
    assert "interrupted         yes" in shown
    assert "records per second" in shown


@pytest.mark.gate
def test_sigterm_prints_the_measurement_so_far(cluster: KafkaCluster, servers: str) -> None:
    words = ["perf", "produce", "ended", "--duration", "60", "--rate", "500", "-b", servers, "--json"]
    running = started(*words)
    cluster.wait_until(lambda: len(cluster.log("ended", 0).values()) > 10, timeout=60)
    running.send_signal(signal.SIGTERM)
    printed, _ = running.communicate(timeout=30)
    assert running.returncode == 143
    assert json.loads(printed)["interrupted"] is True


def test_records_that_are_too_large_fail(servers: str) -> None:
    code, result, errors = perf(servers, "produce", "load", "--records", "5", "--size", "3000000")
    assert code == 1
    assert result["records"] == 0
    assert "RecordTooLarge" in errors


@pytest.mark.gate
def test_records_that_the_broker_rejects_fail(servers: str) -> None:
    code, result, errors = perf(
        servers, "produce", "load", "--records", "5", "--size", "2000000", "-X", "max.request.size=9000000"
    )
    assert code == 1
    assert (result["records"], result["failed"]) == (0, 5)
    assert "5 records failed" in errors


# ---------------------------------------------------------------------- consume


@pytest.fixture(scope="module")
def read(servers: str) -> int:
    code, _, _ = perf(servers, "produce", "read", "--records", "2000", "--size", "10")
    assert code == 0
    return 2000


@pytest.mark.gate
def test_consume_reads_the_topic_to_its_end(servers: str, read: int) -> None:
    code, result, errors = perf(servers, "consume", "read")
    assert (code, errors) == (0, "")
    assert (result["records"], result["bytes"]) == (read, read * 10)
    assert result["records_per_second"] > 0
    assert result["first_record_ms"] > 0


@pytest.mark.gate
def test_consume_stops_at_a_number_of_records(servers: str, read: int) -> None:
    code, result, _ = perf(servers, "consume", "read", "--records", "300")
    assert (code, result["records"]) == (0, 300)


@pytest.mark.gate
def test_consume_with_a_group_commits(cluster: KafkaCluster, servers: str, read: int) -> None:
    code, result, _ = perf(servers, "consume", "read", "--group", "loadtest")
    assert (code, result["records"]) == (0, read)
    assert sum(cluster.group("loadtest").offsets.values()) == read
    code, result, _ = perf(servers, "consume", "read", "--group", "loadtest")
    assert (code, result["records"]) == (0, 0)  # nothing is left


@pytest.mark.gate
def test_consume_of_an_empty_topic_measures_nothing(servers: str) -> None:
    code, result, _ = perf(servers, "consume", "empty")
    assert (code, result["records"], result["records_per_second"]) == (0, 0, 0.0)


@pytest.mark.gate
def test_consume_of_more_records_than_there_are_fails_after_the_timeout(servers: str, read: int) -> None:
    code, result, errors = perf(servers, "consume", "read", "--records", "5000", "--timeout", "0.5")
    assert (code, result["records"]) == (1, read)
    assert "no record arrived for 0.5 s" in errors


@pytest.mark.gate
def test_consume_in_a_terminal_ends_with_ctrl_c(servers: str, read: int) -> None:
    terminal = Terminal("perf", "consume", "read", "--records", "5000", "--timeout", "60", "-b", servers)
    terminal.wait_for("consume read:")
    time.sleep(2.5)  # the bar does not show the last records, which take a tenth of a second
    terminal.type("\x03")
    code, shown = terminal.end()
    assert code == 130
    assert "2,000" in shown


# ---------------------------------------------------------------------- latency


@pytest.mark.gate
def test_latency_one_record_at_a_time(cluster: KafkaCluster, servers: str) -> None:
    code, result, errors = perf(servers, "latency", "latency", "--records", "50", "--warmup", "3")
    assert (code, errors) == (0, "")
    assert (result["records"], result["mode"]) == (50, "one at a time")
    assert result["acknowledged_ms"]["p50"] > 0
    assert result["end_to_end_ms"]["p50"] <= result["end_to_end_ms"]["max"]
    assert len(cluster.log("latency", 0).values()) >= 53


@pytest.mark.gate
def test_latency_at_a_rate(servers: str) -> None:
    code, result, _ = perf(servers, "latency", "latency", "--records", "100", "--rate", "300")
    assert (code, result["records"], result["mode"]) == (0, 100, "300 records per second")


@pytest.mark.gate
def test_latency_without_a_consumed_record_fails_after_the_timeout() -> None:
    with KafkaCluster(brokers=1, topics={"latency": 1}) as own:
        own.controls.rule(api="Fetch", then="error:NOT_LEADER_OR_FOLLOWER")
        code, result, errors = perf(own.bootstrap_servers, "latency", "latency", "--timeout", "1")
    assert code == 1
    assert result["records"] == 0
    assert "record 0 of 1010 did not arrive within 1 s" in errors


# ---------------------------------------------------------------------- the guide


@pytest.mark.gate
@pytest.mark.parametrize(
    "words", [["latency", "--rate", "50", "--timeout", "1"], ["produce", "--rate", "50"]]
)
@pytest.mark.parametrize("is_interrupted", [True, False])
def test_lost_broker_does_not_hold_up_the_end(words: list[str], is_interrupted: bool) -> None:
    action, *more = words
    if action == "produce" and not is_interrupted:
        more += ["-X", "delivery.timeout.ms=1500", "-X", "request.timeout.ms=1000", "--records", "200"]
    with KafkaCluster(brokers=1, topics={"t": 1}, config=QUICK) as one:
        process = started("perf", action, "t", *more, "--json", "-b", one.bootstrap_servers)
        deadline = time.monotonic() + 30
        while not produced(one):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        one.controls.stop_broker(0)
        time.sleep(0.2)  # records wait in the producer now
        if is_interrupted:
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)  # the producer's close() alone would wait for two minutes
    assert process.returncode == (130 if is_interrupted else 1)
    assert json.loads(out)["topic"] == "t"


@pytest.mark.gate
def test_guide_names_each_field_of_the_json(servers: str, read: int) -> None:
    guide = (ROOT / "docs" / "guides" / "operating.md").read_text(encoding="utf-8")
    for words in (
        ["produce", "load", "--records", "10"],
        ["consume", "read"],
        ["latency", "latency", "--records", "5"],
    ):
        _, result, _ = perf(servers, *words)
        nested = [key for value in result.values() if isinstance(value, dict) for key in value]
        assert [name for name in (*result, *nested) if f"`{name}`" not in guide] == []


# ---------------------------------------------------------------------- wrong arguments


@pytest.mark.gate
@pytest.mark.parametrize(
    ("words", "named"),
    rest_in_gate(
        [
            (["produce"], "TOPIC"),
            (["produce", "load", "--records", "0"], "--records"),
            (["produce", "load", "--records", "1", "--duration", "1"], "--duration"),
            (["produce", "load", "--rate", "fast"], "--rate"),
            (["latency", "load", "--size", "5"], "--size 5"),
            (["latency", "load", "--partition", "9"], "--partition 9"),
            (["latncy", "load"], "latency"),
            (["consume", "load", "--groop", "g"], "--group"),
            (["produce", "load", "-X", "acks=most"], "acks"),
        ]
    ),
)
def test_wrong_argument_has_exit_code_2(servers: str, words: list[str], named: str) -> None:
    ended = pykafka2("perf", *words, *(["-b", servers] if len(words) > 1 else []))
    assert ended.returncode == 2
    assert named in ended.stderr.decode()


@pytest.mark.gate
@pytest.mark.parametrize("action", ["consume", "latency"])
def test_missing_topic_fails_by_name_and_is_not_created(servers: str, action: str) -> None:
    code, result, errors = perf(servers, action, f"missing-{action}")
    assert (code, result) == (1, None)
    assert f"topic 'missing-{action}' does not exist; create it with topics create" in errors
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        assert f"missing-{action}" not in admin.list_topics()


# ---------------------------------------------------------------------- measurements


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [percentile(values, share) for share in (50, 95, 99, 99.9, 100)] == [50, 95, 99, 100, 100]
    assert percentile([7.0], 50) == 7.0


def test_samples_stay_below_their_limit_at_equal_distances() -> None:
    samples = Samples(limit=100)
    for number in range(1000):
        if not number % samples.stride:
            samples.add(number / 1000)
    assert 50 <= len(samples) < 100
    assert samples.stride == 16
    found = samples.in_ms()
    assert found is not None
    assert found["p50"] == pytest.approx(500, rel=0.1)


def test_rates_are_per_second_in_records_and_mib() -> None:
    assert rates(10, 3 << 20, 2.0) == {
        "records": 10,
        "bytes": 3 << 20,
        "seconds": 2.0,
        "records_per_second": 5.0,
        "mib_per_second": 1.5,
    }


def test_no_sample_has_no_percentiles() -> None:
    assert Samples().in_ms() is None
    assert rates(0, 0, 0.0)["records_per_second"] == 0
