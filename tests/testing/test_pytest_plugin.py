"""The plugin, in pytest runs of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]


def run(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider", *options)


@pytest.mark.slow
def test_the_fixture_is_there_without_an_import(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        def test_default(kafka_cluster):
            assert len(kafka_cluster.brokers) == 3

        @pytest.mark.kafka(brokers=1, topics={"orders": 2}, config={"num.partitions": 4})
        def test_marked(kafka_cluster):
            assert len(kafka_cluster.brokers) == 1
            assert kafka_cluster.topics() == ["orders"]

        @pytest.mark.kafka(brokers=2)
        class TestClass:
            def test_of_the_class(self, kafka_cluster):
                assert len(kafka_cluster.brokers) == 2

            @pytest.mark.kafka(brokers=1)
            def test_nearer(self, kafka_cluster):
                assert len(kafka_cluster.brokers) == 1
        """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=4)


@pytest.mark.slow
def test_a_client_left_open_fails_its_test_and_only_it(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import socket, threading

        kept = []

        def test_socket(kafka_cluster):
            kept.append(socket.create_connection(("127.0.0.1", kafka_cluster.brokers[0].port)))

        def test_thread(kafka_cluster):
            stop = threading.Event()
            kept.append(stop)
            threading.Thread(target=stop.wait, name="stray", daemon=True).start()

        def test_clean(kafka_cluster):
            with socket.create_connection(("127.0.0.1", kafka_cluster.brokers[0].port)):
                pass

        def test_without_the_fixture():
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        """,
    )
    result.assert_outcomes(passed=4, errors=2)
    result.stdout.fnmatch_lines(["*the test left behind: *socket*close every client*"])
    result.stdout.fnmatch_lines(["*the test left behind: *thread 'stray'*"])


@pytest.mark.slow
def test_misspelt_marker_arguments_fail_by_name(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.kafka(broker=1)
        def test_misspelt(kafka_cluster): pass

        @pytest.mark.kafka(1)
        def test_positional(kafka_cluster): pass

        @pytest.mark.kafka(config={"num.partition": 1})
        def test_config(kafka_cluster): pass
        """,
    )
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*has no argument 'broker'*"])
    result.stdout.fnmatch_lines(["*named arguments*"])
    result.stdout.fnmatch_lines(["*did you mean 'num.partitions'*"])


def test_the_plugin_imports_nothing_but_pytest() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import pykafka2.testing.pytest_plugin; "
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('pykafka2')), "
        "sorted(name for name in set(sys.modules) - before if name.startswith('pykafka2')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['pykafka2', 'pykafka2.testing', 'pykafka2.testing.pytest_plugin']"
