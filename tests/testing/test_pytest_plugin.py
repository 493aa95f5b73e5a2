"""The plugin, in pytest runs of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader

import pytest

from pykafka2.testing import Simulation
from pykafka2.testing.fixtures.clusters import clusters_of
from pykafka2.testing.pytest_plugin import AsInstalled, pytest_keyboard_interrupt

pytest_plugins = ["pytester"]


# Each run starts a Python of its own: what it does not need stays out.
QUICK = tuple(
    word for name in ("randomly", "cacheprovider", "hypothesispytest") for word in ("-p", f"no:{name}")
)


def run(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess(*QUICK, *options)


@pytest.mark.gate
@pytest.mark.slow
def test_clusters_come_by_themselves_are_kept_and_emptied_between_tests(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        from pykafka2 import KafkaProducer

        seen = []

        @pytest.mark.kafka(brokers=1, topics={"orders": 2})
        def test_first(kafka_cluster):
            seen.append(kafka_cluster)
            kafka_cluster.create_topic("mine")
            assert kafka_cluster.controls.hold("Produce").id == 1
            kafka_cluster.controls.cut_client("no-such-client")
            with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
                producer.partitions_for("orders")
            assert kafka_cluster.metrics().api("Metadata").count

        @pytest.mark.kafka(brokers=1)
        def test_second(kafka_cluster):
            assert kafka_cluster is seen[0]
            assert kafka_cluster.topics() == []
            assert kafka_cluster.controls.rules() == []
            assert not kafka_cluster.faults.is_active
            assert len(kafka_cluster.history) == 0
            assert "Metadata" not in kafka_cluster.metrics().names
            assert len(kafka_cluster.timeline()) == 0
            assert kafka_cluster.controls.hold("Produce").id == 1
            kafka_cluster.controls.crash_broker(0)

        @pytest.mark.kafka(brokers=1)
        def test_third(kafka_cluster):
            assert kafka_cluster is not seen[0]
            assert kafka_cluster.brokers[0].is_running
            assert not kafka_cluster.events.events("broker")
            # What a restarted broker opens is not the test's.
            kafka_cluster.controls.restart_broker(0)
            kafka_cluster.open_admin_port()

        @pytest.mark.kafka(brokers=1, config={"num.partitions": 3, "group.min.session.timeout.ms": 6000})
        def test_another(kafka_cluster):
            config = kafka_cluster.config
            assert config.int("num.partitions") == 3
            assert config.int("group.initial.rebalance.delay.ms") == 0  # tests do not wait
            assert config.int("group.min.session.timeout.ms") == 6000

        @pytest.mark.kafka(brokers=1)
        def test_fresh(fresh_kafka_cluster, kafka_cluster):
            assert fresh_kafka_cluster is not kafka_cluster

        def test_default(kafka_cluster):
            assert len(kafka_cluster.brokers) == 3

        @pytest.mark.kafka(brokers=2)
        class TestClass:
            def test_in_the_class(self, kafka_cluster):
                assert len(kafka_cluster.brokers) == 2

            @pytest.mark.kafka(brokers=1)
            def test_nearer(self, kafka_cluster):
                assert len(kafka_cluster.brokers) == 1
        """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=8)


@pytest.mark.gate
@pytest.mark.slow
def test_failures_are_reported_with_leaks_and_timelines(pytester: pytest.Pytester) -> None:
    """Leaks by name, misspelt arguments by the nearest, a missing package; timelines beside failures."""
    pytester.makepyfile(trustme="raise ImportError('not here')")
    result = run(
        pytester,
        """
        import _thread, socket, threading
        import pytest
        from pykafka2 import KafkaProducer
        from pykafka2.protocol.framing import encode_request
        from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
        from pykafka2.testing import KafkaCluster

        kept = []
        one = pytest.mark.kafka(brokers=1, topics={"t": 1})
        tolerant = pytest.mark.kafka(brokers=1, topics={"t": 1}, allow=("clients", "sockets", "threads"))

        def producer_for(cluster):
            return KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, client_id="left-open")

        @one
        def test_client(kafka_cluster):
            kept.append(producer_for(kafka_cluster))
            kept[-1].send("t", b"x").result(10)

        @tolerant
        def test_allowed(kafka_cluster):
            kept.append(producer_for(kafka_cluster))

        @one
        def test_sockets(kafka_cluster):
            kept.append(socket.create_connection(("127.0.0.1", kafka_cluster.brokers[0].port)))
            kept.append(socket.create_server(("127.0.0.1", 0)))
            kept.append(socket.create_connection(("127.0.0.1", kafka_cluster.brokers[0].port)))
            request = ApiVersionsRequest(client_software_name="theirs", client_software_version="1.0")
            kept[-1].sendall(b"".join(encode_request(request, 3, 1, "their-app")))
            kept[-1].recv(1)

        @one
        def test_thread(kafka_cluster):
            threading.Thread(target=threading.Event().wait, name="stray", daemon=True).start()

        @one
        def test_thread_of_a_library_in_c(kafka_cluster):
            _thread.start_new_thread(lambda: (threading.current_thread(), threading.Event().wait(9)), ())

        @one
        def test_clean(kafka_cluster):
            kafka_cluster.controls.hold("ApiVersions")
            with socket.create_connection(("127.0.0.1", kafka_cluster.brokers[0].port)) as gone:
                gone.sendall(b"".join(encode_request(ApiVersionsRequest(), 3, 1, "gone")))
                kafka_cluster.wait_until(kafka_cluster.controls.held)
            with socket.create_connection(("127.0.0.1", kafka_cluster.brokers[0].port)):
                pass

        def test_without_a_cluster():
            threading.Thread(target=threading.Event().wait, daemon=True).start()

        @pytest.mark.kafka(allow=("client",))
        def test_misspelt_leak(kafka_cluster): pass

        @pytest.mark.kafka(broker=1)
        def test_misspelt(kafka_cluster): pass

        @pytest.mark.kafka(1)
        def test_positional(kafka_cluster): pass

        @pytest.mark.kafka(config={"num.partition": 1})
        def test_config(kafka_cluster): pass

        def test_tls(kafka_tls_cluster): pass

        @pytest.mark.kafak(brokers=1)
        def test_misspelt_marker(kafka_cluster): pass

        @one
        def test_broker(kafka_cluster):
            kafka_cluster.problems.note("handler-0-0", ZeroDivisionError("planted"))

        @one
        def test_fails(kafka_cluster):
            kafka_cluster.controls.rule(api="Produce", nth=1, then="error:NOT_LEADER_OR_FOLLOWER")
            producer = producer_for(kafka_cluster)
            kept.append(producer)
            producer.send("t", b"x").result(10)
            assert kafka_cluster.log("t", 0).values() == []  # and never closes its client

        @pytest.fixture
        def service(kafka_cluster):
            kafka_cluster.create_topic("of-the-service")
            raise RuntimeError("the service does not start")

        @one
        def test_setup_fails(service): pass

        def test_a_cluster_of_its_own_fails():
            with KafkaCluster(brokers=1) as mine:
                mine.create_topic("in-a-with-block")
                assert mine.topics() == []

        def test_end():
            for one in kept:
                one.close(timeout=0) if isinstance(one, KafkaProducer) else one.close()
        """,
        "-W",
        "ignore",
    )
    # A failed test is not charged with what it could not close any more.
    result.assert_outcomes(passed=9, failed=2, errors=11)
    for line in (
        "*the test left behind: unclosed KafkaProducer (left-open)*",
        "*the test left behind: unclosed connection without requests from 127*",
        "*; unclosed client 'their-app' (theirs 1.0), connected from 127*; socket 127*; close clients, end*",
        "*the test left behind: *thread 'stray'*",
        "*pytest.mark.kafak does not exist; did you mean 'kafka'*",
        "*has no 'client'; did you mean 'clients'*",
        "*has no argument 'broker'; did you mean 'brokers'*",
        "*only keyword arguments*",
        "*did you mean 'num.partitions'*",
        "*needs trustme. Run pip install trustme*",
        "*inside the bundled broker handler-0-0 failed: ZeroDivisionError('planted')*bug in pykafka2*",
    ):
        result.stdout.fnmatch_lines([line])
    for line in (
        "*topic: of-the-service created*",
        "*- timeline of mine -*",
        "*topic: in-a-with-block created*",
    ):
        result.stdout.fnmatch_lines([line])
    result.stdout.fnmatch_lines(
        [
            "*- timeline of kafka_cluster -*",
            "*Produce v* t-0 *ms  NOT_LEADER_OR_FOLLOWER",
            "*-- fault: rule 1 fired on Produce*",
            "*request times in ms*",
        ]
    )


@pytest.mark.gate
@pytest.mark.slow
def test_tls_and_processes_with_two_workers(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        from pykafka2 import KafkaProducer

        def test_tls(kafka_tls_cluster):
            kafka_tls_cluster.create_topic("t")
            with KafkaProducer(**kafka_tls_cluster.client_options) as producer:
                producer.send("t", b"secret").result(10)
            assert kafka_tls_cluster.log("t", 0).values() == [b"secret"]

        @pytest.mark.kafka(brokers=1, topics={"t": 1}, process=True)
        def test_process(kafka_cluster):
            assert kafka_cluster.pid
            assert kafka_cluster.topics() == ["t"]
            kafka_cluster.create_topic("mine")

        @pytest.mark.kafka(brokers=1, topics={"t": 1})
        @pytest.mark.parametrize("number", range(6))
        def test_shared(kafka_cluster, number):
            assert kafka_cluster.topics() == ["t"]
            with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
                producer.send("t", b"%d" % number).result(10)
            assert kafka_cluster.log("t", 0).values() == [b"%d" % number]
        """,
        "-n",
        "2",
    )
    result.assert_outcomes(passed=8)


@pytest.mark.gate
def test_the_plugin_imports_nothing_but_pytest() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import pykafka2.testing.pytest_plugin; "
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('pykafka2')), "
        "sorted(name for name in set(sys.modules) - before if name.startswith('pykafka2')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = "['pykafka2', 'pykafka2.testing', 'pykafka2.testing.pytest_plugin', 'pykafka2.version']"
    assert done.stdout.strip() == f"[] {own}"


def test_pykafka2_is_loaded_as_python_compiled_it() -> None:
    """pytest rewrites the asserts of whole packages that bring it a plugin: not those of this one."""
    plugin = sys.modules["pykafka2.testing.fixtures.clusters"]
    assert type(plugin.__loader__) is SourceFileLoader
    assert [type(one) for one in sys.meta_path].count(AsInstalled) == 1


@pytest.mark.slow
def test_ctrl_c_shows_the_timelines_of_the_clusters_of_a_hanging_test(
    simulation: Simulation, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = simulation.cluster(brokers=1)
    cluster.create_topic("waited-for")
    with pytest.raises(KeyboardInterrupt) as caught:
        raise KeyboardInterrupt
    pytest_keyboard_interrupt(caught)
    printed = capsys.readouterr().err
    assert "timeline of cluster" in printed
    assert "waited-for created" in printed

    class OfATestCase:
        def __init__(self) -> None:
            self.of_its_own = cluster

        def fail(self) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as failed:
        OfATestCase().fail()
    first = failed.value.__traceback__
    inner = failed.value.with_traceback(None if first is None else first.tb_next)  # without our variables
    assert clusters_of(inner, {}) == {"of_its_own": cluster}


@pytest.mark.gate
def test_cluster_with_changed_users_is_not_reused(pytester: pytest.Pytester) -> None:
    outcome = run(
        pytester,
        """
        import pytest

        seen = []

        @pytest.mark.kafka(brokers=1, listeners=["PLAINTEXT", "SASL_PLAINTEXT"], users={"ann": "x"})
        @pytest.mark.parametrize("number", range(3))
        def test_each(kafka_cluster, number):
            assert kafka_cluster.options_for("ann")["sasl_password"] == "x"
            seen.append(kafka_cluster)
            if number == 1:
                kafka_cluster.controls.add_user("ann", "y")

        def test_last():
            assert seen[0] is seen[1] is not seen[2]
        """,
    )
    outcome.assert_outcomes(passed=4)


@pytest.mark.gate
@pytest.mark.slow
def test_option_kafka_as_version_is_the_release_of_all_fixtures(pytester: pytest.Pytester) -> None:
    source = """
        import pytest

        def newest(cluster):
            return cluster.brokers[0].release.name

        def test_default(kafka_cluster):
            assert newest(kafka_cluster) == "2.8"

        @pytest.mark.kafka(brokers=1)
        def test_marked(fresh_kafka_cluster):
            assert newest(fresh_kafka_cluster) == "2.8"

        @pytest.mark.kafka(brokers=1, as_version="4.0")
        def test_own(kafka_cluster):
            assert newest(kafka_cluster) == "4.0"
    """
    run(pytester, source, "--kafka-as-version=2.8").assert_outcomes(passed=3)
    refused = run(pytester, source, "--kafka-as-version=2.7")
    refused.stderr.fnmatch_lines(["*'2.7' is not a known release; use one of '2.8', '3.0', *"])
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
