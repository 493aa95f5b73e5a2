"""Options of the clients from -X, properties files, the environment and profiles."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykafka2.cli.common import connection
from pykafka2.cli.common.connection import Kind, client_options
from pykafka2.cli.common.parsing import Parser, UsageError
from pykafka2.cli.common.profiles import profiles_path
from pykafka2.cli.common.properties import parse_properties, read_properties
from pykafka2.cli.common.secrets import first_line
from pykafka2.cli.main import main
from tests.cli.typed import pykafka2

SECRET = "s3cr3t"


def options_of(
    *words: str, kind: Kind = "consumer", environment: dict[str, str] | None = None
) -> dict[str, object]:
    parser = Parser()
    connection.add_options(parser)
    options = client_options(parser.parse_args(list(words)), kind, environment or {})
    assert options.pop("client_id") == "pykafka2"
    return options


@pytest.fixture
def profiles(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "profiles.toml"
    path.write_text(
        "[local]\nbootstrap.servers = 'here:1'\n"
        "[production]\nbootstrap.servers = 'there:1'\nsasl.password.command = 'echo word'\nacks = 'all'\n"
    )
    return {"PYKAFKA2_PROFILES": str(path)}


def test_dotted_names_of_x_become_options() -> None:
    assert options_of("-X", "fetch.min.bytes=5", "-X", "group_id=g=h") == {
        "fetch_min_bytes": "5",
        "group_id": "g=h",
    }


def test_stronger_sources_take_precedence(tmp_path: Path, profiles: dict[str, str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\n")
    environment = {**profiles, "PYKAFKA2_PROFILE": "local", "PYKAFKA2_BOOTSTRAP_SERVERS": "variable:1"}
    typed: list[str] = []
    for words, server in [
        ([], "variable:1"),
        (["--profile", "production"], "there:1"),
        (["--config", str(file)], "file:1"),
        (["-X", "bootstrap.servers=x:1"], "x:1"),
        (["-b", "b:1"], "b:1"),
    ]:
        typed += words
        assert options_of(*typed, environment=environment)["bootstrap_servers"] == server
    del environment["PYKAFKA2_BOOTSTRAP_SERVERS"]
    assert options_of(environment=environment) == {"bootstrap_servers": "here:1"}


def test_options_of_other_clients_in_a_profile_are_left_out(profiles: dict[str, str]) -> None:
    assert options_of("--profile", "production", environment=profiles) == {
        "bootstrap_servers": "there:1",
        "sasl_password": "word",
    }
    assert options_of("--profile", "production", kind="producer", environment=profiles)["acks"] == "all"


def test_unknown_option_of_a_file_reaches_the_client_which_rejects_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("fetch.min.byte=5\nkey.deserializer=org.apache.kafka.common.StringDeserializer\n")
    assert options_of("--config", str(file)) == {"fetch_min_byte": "5"}


CONFLUENT_CLOUD = """
# Required connection configs for Kafka producer, consumer, and admin
bootstrap.servers=pkc-1.confluent.cloud:9092
security.protocol=SASL_SSL
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username='KEY' password='s3cr3t';
sasl.mechanism=PLAIN
client.dns.lookup=use_all_dns_ips
session.timeout.ms=45000
acks=all
ssl.protocol=TLSv1.3
key.serializer=org.apache.kafka.common.serialization.StringSerializer
value.deserializer=io.confluent.kafka.serializers.KafkaAvroDeserializer
value.deserializer.encoding=UTF-8
# Required connection configs for Confluent Cloud Schema Registry
schema.registry.url=https://psrc-1.confluent.cloud
basic.auth.credentials.source=USER_INFO
basic.auth.user.info=KEY:s3cr3t
schema.registry.ssl.truststore.password=s3cr3t
bearer.auth.token=s3cr3t
auto.register.schemas=false
specific.avro.reader=true
value.subject.name.strategy=TopicNameStrategy
use.latest.version=true
latest.compatibility.strict=false
proxy.host=proxy.example.org
proxy.port=3128
json.value.type=Order
interceptor.classes=io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor
confluent.monitoring.interceptor.timeout.ms=3000
"""


@pytest.fixture
def notes(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    connection.named_settings.clear()
    yield lambda: capsys.readouterr().err
    connection.named_settings.clear()


@pytest.mark.parametrize("source", ["file", "profile", "variables"])
@pytest.mark.parametrize("kind", ["admin", "consumer", "producer"])
def test_settings_of_javas_serializers_are_ignored_and_named_once(
    source: str, kind: Kind, tmp_path: Path, notes: Callable[[], str]
) -> None:
    words: list[str] = []
    environment: dict[str, str] = {}
    properties = parse_properties(CONFLUENT_CLOUD)
    if source == "file":
        (tmp_path / "client.properties").write_text(CONFLUENT_CLOUD)
        words = ["--config", str(tmp_path / "client.properties")]
    elif source == "profile":
        lines = [f"{name} = {json.dumps(value)}" for name, value in properties.items()]
        (tmp_path / "profiles.toml").write_text(
            "[cloud]\n" + "\n".join(line for line in lines if not line.startswith("value.deserializer.enc"))
        )
        words = ["--profile", "cloud"]
        environment = {"PYKAFKA2_PROFILES": str(tmp_path / "profiles.toml")}
    else:
        environment = {
            "PYKAFKA2_" + name.upper().replace(".", "_"): value for name, value in properties.items()
        }
    found = options_of(*words, kind=kind, environment=environment)
    assert found.pop("bootstrap_servers") == "pkc-1.confluent.cloud:9092"
    options = connection.option_table(kind).parse(None, found)  # raises if a setting is left
    assert (options.sasl_username, options.ssl_enabled_protocols) == ("KEY", ("TLSv1.3",))
    note = notes()
    assert note.count("\n") == 1
    for name in ("schema.registry.url", "basic.auth.user.info", "key.serializer", "json.value.type"):
        assert name in note.replace("_", ".")
    assert SECRET not in note
    options_of(*words, kind="admin", environment=environment)  # a verb can create several clients
    assert notes() == ""


@pytest.mark.parametrize("name", ["schema.registry.url", "basic.auth.user.info", "auto.register.schemas"])
def test_settings_of_javas_serializers_are_errors_with_x(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(["topics", "list", "-b", "localhost:1", "-X", f"{name}={SECRET}"]) == 2
    shown = capsys.readouterr().err
    assert f"there is no option '{name}'" in shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("some.option", "there is no option 'some.option'; the nearest is 'socket.options'"),
        ("some_option", "there is no option 'some_option'; the nearest is 'socket_options'"),
        ("linger.ms", "there is no option 'linger.ms'; linger_ms is an option of KafkaProducer"),
    ],
)
def test_unknown_option_is_reported_as_it_was_typed(
    capsys: pytest.CaptureFixture[str], typed: str, message: str
) -> None:
    assert main(["topics", "list", "-b", "localhost:1", "-X", f"{typed}=1"]) == 2
    assert capsys.readouterr().err == f"pykafka2 topics: {message}\n"


def test_identity_of_an_application_in_a_file_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "group.id=app\ngroup.instance.id=1\ntransactional.id=app\nenable.auto.commit=false\n"
        "auto.offset.reset=latest\nsession.timeout.ms=6000\nfetch.min.bytes=2\n"
    )
    words = ["--config", str(file)]
    assert options_of(*words) == {"fetch_min_bytes": "2"}
    assert options_of(*words, kind="producer") == {}
    assert options_of(*words, "-X", "group.id=g") == {
        "fetch_min_bytes": "2",
        "session_timeout_ms": "6000",
        "group_id": "g",
    }


def test_option_that_an_argument_sets_takes_precedence_over_every_source(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("isolation.level=read_uncommitted\n")
    parser = Parser()
    connection.add_options(parser)
    arguments = parser.parse_args(["--config", str(file), "-X", "isolation.level=x"])
    options = client_options(
        arguments, "consumer", {}, typed={"isolation_level": "read_committed"}, isolation_level="y"
    )
    assert options["isolation_level"] == "read_committed"


def test_misspelt_variable_is_rejected_and_an_unrelated_one_is_not() -> None:
    with pytest.raises(UsageError, match=r"PYKAFKA2_SASL_PASSWROD .* did you mean PYKAFKA2_SASL_PASSWORD"):
        options_of(environment={"PYKAFKA2_SASL_PASSWROD": SECRET})
    assert options_of(environment={"PYKAFKA2_REQUIRE_KCAT": "1"}) == {}
    of_broker = {f"PYKAFKA2_BROKER_{name}": "x" for name in ("USERS", "TOKEN_KEY", "ADMIN_TOKEN")}
    assert options_of(environment=of_broker) == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-X", f"sasl.password:{SECRET}"], "-X sasl.password: write name=value"),
        (["-X", f"={SECRET}"], "-X : write name=value"),
        (["--config", "/nowhere/at.all"], "--config /nowhere/at.all: No such file"),
        (
            ["--config", "retention.ms=1"],
            "--config retention.ms: name a file of client options",
        ),
        (["--profile", "prod"], "profile 'prod'"),
    ],
)
def test_bad_source_names_the_argument_and_no_secret(
    words: list[str], message: str, profiles: dict[str, str]
) -> None:
    with pytest.raises(UsageError) as raised:
        options_of(*words, environment=profiles)
    assert message in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "text", [f"[a]\nsasl.password = {SECRET}", f"[a]\nb = 1\nb = '{SECRET}'", f"{SECRET}"]
)
def test_error_in_profiles_shows_no_value(text: str, tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        options_of("--profile", "a", environment={"PYKAFKA2_PROFILES": str(path)})
    assert "is not valid TOML at " in str(raised.value)
    assert SECRET not in str(raised.value)


def test_failing_command_of_a_profile_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text("[a]\nsasl.password.command = 'false'\n")
    with pytest.raises(UsageError, match=r"sasl\.password\.command ended with status 1"):
        options_of("--profile", "a", environment={"PYKAFKA2_PROFILES": str(path)})


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (f"sh -c 'echo {SECRET}; exit 3'", "ended with status 3 and printed 1 lines"),
        (f"{SECRET} --print", "failed: FileNotFoundError"),
        (f'echo "{SECRET}', "failed: ValueError"),
        ("true", "ended with status 0 and printed 0 lines"),
    ],
)
def test_failing_command_of_a_profile_shows_no_secret(command: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(f"[a]\nsasl.password.command = {json.dumps(command)}\n")
    with pytest.raises(UsageError) as raised:
        options_of("--profile", "a", environment={"PYKAFKA2_PROFILES": str(path)})
    assert words in str(raised.value)
    assert SECRET not in str(raised.value)


def test_value_of_a_command_is_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text("[a]\nsasl.password.command = 'printf \"one two \\ntwo\\n\"'\n")
    found = options_of("--profile", "a", environment={"PYKAFKA2_PROFILES": str(path)})
    assert found == {"sasl_password": "one two "}


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"sasl.password=\xff" + SECRET.encode(), "not UTF-8"), (f"a=1\nb=\\u{SECRET}".encode(), "line 2: ")],
)
def test_properties_that_cannot_be_read_are_named_without_their_text(
    content: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        options_of("--config", str(path))
    assert f"--config {path}" in str(raised.value)
    assert words in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            f"client.id=a\nssl.key.pem=-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
            "line 2: PEM",
        ),
        (
            f"ssl.key.pem=\\\n  -----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
            "line 1: PEM",
        ),
        (f"ssl.key.pem=\n-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----", "line 2: PEM"),
        (
            f"client.id=a\n\nMIIEvQIBADAN{SECRET.replace('-', '')}BgkqhkiG9w0BAQEFAASCBKcwgg==",
            "line 3: this is no",
        ),
        (f"client.id=a\nMIIE/{SECRET}+\n", "line 2: this is no"),
    ],
)
def test_lines_of_a_private_key_are_named_by_number_and_not_shown(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    assert main(["topics", "list", "--config", str(path)]) == 2
    err = capsys.readouterr().err
    assert f"--config {path}, {words}" in err
    assert SECRET not in err
    assert SECRET.replace("-", "") not in err


def test_private_key_on_continued_lines_is_read() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", "MIIEvQ", "-----END PRIVATE KEY-----"]
    text = "ssl.key.pem=" + "\\n\\\n  ".join(lines) + "\nclient.id=a"
    assert parse_properties(text) == {"ssl.key.pem": "\n".join(lines), "client.id": "a"}


def test_misspelt_variable_shows_no_secret() -> None:
    with pytest.raises(UsageError) as raised:
        options_of(environment={"PYKAFKA2_SASL_PASSWROD": SECRET})
    assert SECRET not in str(raised.value)


def test_properties_are_read_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("bootstrap.servers=typed:1\n"))
    assert options_of("--config", "-") == {"bootstrap_servers": "typed:1"}


def test_profiles_are_in_the_folder_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path("pykafka2") / "profiles.toml"
    assert profiles_path({"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / file
    assert profiles_path({"XDG_CONFIG_HOME": "/x", "PYKAFKA2_PROFILES": "/own.toml"}) == Path("/own.toml")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profiles_path({}) == tmp_path / ".config" / file


@pytest.mark.parametrize(
    ("words", "timeout_ms"), [([], 10_000), (["-X", "default.api.timeout.ms=300"], None)]
)
def test_first_connection_has_a_short_timeout_unless_one_is_typed(
    words: list[str], timeout_ms: float | None
) -> None:
    parser = Parser()
    connection.add_options(parser)
    assert connection.connect_timeout_ms(parser.parse_args(words)) == timeout_ms


def test_properties_are_read_as_java_reads_them() -> None:
    text = (
        "# comment\n! comment\n\na=1\nb : two words \nc\\ d three\ne=x\\\n   y\\\\\nf\n"
        "g=\\u00e9\\t\\q\nh=a=b:c\na=2\r\n"
    )
    assert parse_properties(text) == {
        "a": "2",
        "b": "two words ",
        "c d": "three",
        "e": "xy\\",
        "f": "",
        "g": "é\tq",
        "h": "a=b:c",
    }
    with pytest.raises(ValueError, match="line 2"):
        parse_properties("a=1\nb=\\u12")


def test_wrong_broker_option_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--port", "0", "-c", "no.such.option=1"]) == 2
    assert "no.such.option" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", ["topics list", "groups list", "cluster brokers", "acls list", "perf consume t", "perf latency t"]
)
def test_verb_waits_for_the_first_broker_as_long_as_consume(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pykafka2.cli.common.connection.CONNECT_TIMEOUT_MS", 300)
    assert main([*line.split(), "-b", "127.0.0.1:1"]) == 1
    assert "NoBrokersAvailable: within 0.3 s no broker could be reached" in capsys.readouterr().err


@pytest.mark.gate
@pytest.mark.slow
def test_version_needs_no_cluster_and_no_profile() -> None:
    done = pykafka2("--version", env={"PYKAFKA2_PROFILES": "/nowhere", "PYKAFKA2_PROFILE": "x"})
    assert done.returncode == 0


def test_properties_of_a_closed_stdin_are_a_wrong_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="--config -: stdin is closed"):
        read_properties("-")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_endless_properties_are_a_wrong_argument() -> None:
    with pytest.raises(UsageError, match="--config /dev/zero: more than"):
        read_properties("/dev/zero")


def test_byte_order_mark_of_editors_on_windows_is_no_part_of_the_first_option(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(b"\xef\xbb\xbfclient.id=a\r\nacks=all\r\n")
    assert read_properties(str(path)) == {"client.id": "a", "acks": "all"}
    (tmp_path / "token").write_bytes(b"\xef\xbb\xbfsecret\r\n")
    assert first_line("--admin-token-file", str(tmp_path / "token")) == "secret"
