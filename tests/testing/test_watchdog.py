"""`--kafka-watchdog`: what a test that runs too long is doing, also where it hangs in C."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import attrs
import pytest

from pykafka2.testing import KafkaCluster
from pykafka2.testing.fixtures.watchdog import Watchdog
from tests.testing.test_pytest_plugin import run

pytest_plugins = ["pytester"]


@attrs.define
class Report:
    """A watchdog and what it has written."""

    watchdog: Watchdog
    reading: int
    text: str = ""

    def read_until(self, end: str) -> str:
        """All that it has written, once `end` is in it."""
        while end not in self.text:
            self.text += os.read(self.reading, 65536).decode()
        return self.text

    def names(self) -> list[str]:
        """The tests that it has reported."""
        return re.findall(r"^(\S+) has been running for", self.text, re.MULTILINE)


@pytest.fixture
def report() -> Iterator[Report]:
    reading, writing = os.pipe()
    report = Report(Watchdog(0.05, writing), reading)
    yield report
    report.watchdog.close()
    before = report.names()
    with os.fdopen(reading) as rest:
        report.text += rest.read()
    assert report.names() == before, "each is reported once"


@pytest.mark.kafka(brokers=1, topics=["orders"])
def test_watchdog_reports_calls_and_timelines_of_a_hanging_test(
    kafka_cluster: KafkaCluster, report: Report
) -> None:
    report.watchdog.begin("test_shop.py::test_hangs", lambda: {"in_a_fixture": kafka_cluster})
    text = report.read_until(f"{'topic'}: orders created")  # as the timeline has it, and no line of code
    assert report.names() == ["test_shop.py::test_hangs"]
    assert "for 0.05 s; the main thread is in" in text
    assert "os.read(self.reading, 65536)" in text
    assert "\ntimeline of in_a_fixture\n" in text
    assert "_pytest" not in text


def test_watchdog_does_not_report_a_test_that_ends_in_time(report: Report) -> None:
    report.watchdog.begin("quick", dict)
    report.watchdog.end()
    report.watchdog.begin("slow", dict)
    report.read_until("slow")
    assert report.names() == ["slow"]


@pytest.mark.gate
@pytest.mark.slow
def test_a_hang_in_a_client_written_in_c_is_seen_past_capturing(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        from confluent_kafka import Consumer

        @pytest.mark.kafka(brokers=1, topics=["orders"])
        def test_hangs(kafka_cluster):
            kafka_cluster.controls.hold("Fetch")
            consumer = Consumer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "group.id": "g"})
            consumer.subscribe(["orders"])
            print("captured")
            assert consumer.poll(2) is None
            kafka_cluster.controls.release()
            consumer.close()
        """,
        "--kafka-watchdog=1",
    )
    result.assert_outcomes(passed=1)
    result.stderr.fnmatch_lines(
        [
            "*::test_hangs has been running for 1 s*",
            "*consumer.poll(2)*",
            "timeline of kafka_cluster",
            "*ApiVersions*",
        ]
    )
    assert "captured" not in result.stdout.str() + result.stderr.str()


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "inf"])
def test_a_time_that_is_none_is_refused(pytester: pytest.Pytester, seconds: str) -> None:
    result = run(pytester, "def test_nothing(): pass", f"--kafka-watchdog={seconds}")
    result.stderr.fnmatch_lines([f"*--kafka-watchdog: invalid * value: '{seconds}'"])
