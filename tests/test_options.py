"""Options: Kafka's names and defaults, legal values, conflicts, and the words of their errors."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any, get_args

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2 import options as options_module
from pykafka2.admin.options import ADMIN_OPTIONS, AdminConfig
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.errors import ConfigurationError, UnknownOption
from pykafka2.options import ClientOptions, IgnoredOption, OptionTable
from pykafka2.producer.options import PRODUCER_OPTIONS, Acks, PartitionerName, ProducerConfig, ProducerOptions
from pykafka2.producer.partitioning.partitioners import JAVA_CLASSES, STRATEGIES
from pykafka2.security_options import SaslMechanism, TlsVersion

CLIENT_OPTIONS = OptionTable(ClientOptions)

# Kafka 4.3's defaults, as its documentation prints them.  send.buffer.bytes and receive.buffer.bytes (131072
# and 32768 there) are -1 here on purpose, key.serializer and value.serializer have no default there.
KAFKA_DEFAULTS: dict[str, Any] = {
    "acks": "all",
    "batch.size": 16384,
    "buffer.memory": 33554432,
    "client.dns.lookup": "use_all_dns_ips",
    "compression.gzip.level": -1,
    "compression.lz4.level": 9,
    "compression.type": "none",
    "compression.zstd.level": 3,
    "connections.max.idle.ms": 540000,
    "delivery.timeout.ms": 120000,
    "enable.idempotence": True,
    "linger.ms": 5,
    "max.block.ms": 60000,
    "max.in.flight.requests.per.connection": 5,
    "max.request.size": 1048576,
    "metadata.max.age.ms": 300000,
    "metadata.max.idle.ms": 300000,
    "metadata.recovery.rebootstrap.trigger.ms": 300000,
    "metadata.recovery.strategy": "rebootstrap",
    "partitioner.adaptive.partitioning.enable": True,
    "partitioner.availability.timeout.ms": 0,
    "partitioner.ignore.keys": False,
    "reconnect.backoff.max.ms": 1000,
    "reconnect.backoff.ms": 50,
    "request.timeout.ms": 30000,
    "retries": 2147483647,
    "retry.backoff.max.ms": 1000,
    "retry.backoff.ms": 100,
    "security.protocol": "PLAINTEXT",
    "socket.connection.setup.timeout.max.ms": 30000,
    "socket.connection.setup.timeout.ms": 10000,
}

# Everything else that Kafka 4.3's producer and kafka-python 3's know.
OTHERS = """
    bootstrap.servers client.id config.providers enable.metrics.push interceptor.classes
    key.serializer metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms partitioner.class receive.buffer.bytes
    sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
    sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms
    sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.mechanism sasl.oauthbearer.token.endpoint.url security.providers send.buffer.bytes
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
    ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
    ssl.truststore.password ssl.truststore.type transaction.timeout.ms
    transaction.two.phase.commit.enable transactional.id value.serializer bootstrap_timeout_ms
    api_version selector kafka_client socket_options metrics_enabled proxy_url socks5_proxy
    ssl_context ssl_check_hostname ssl_cafile ssl_certfile ssl_keyfile ssl_crlfile ssl_password
    ssl_ciphers sasl_plain_username sasl_plain_password sasl_kerberos_name sasl_kerberos_domain_name
    sasl_oauth_token_provider allow_auto_create_topics receive_message_max_bytes partitioner
"""
OTHER_NAMES = OTHERS.split()


SASL = {"security_protocol": "SASL_PLAINTEXT"}


class TokenProvider:
    def token(self) -> str:
        return "token"


def parse(**settings: Any) -> ProducerOptions:
    return PRODUCER_OPTIONS.parse(None, settings)


@pytest.mark.parametrize("name", KAFKA_DEFAULTS)
def test_an_option_has_the_default_of_kafka(name: str) -> None:
    option = PRODUCER_OPTIONS.options[PRODUCER_OPTIONS.fields[name.replace(".", "_")]]
    assert option.default == KAFKA_DEFAULTS[name]
    assert name in (option.dotted, *(alias.replace("_", ".") for alias in option.aliases))


@pytest.mark.parametrize("name", [*KAFKA_DEFAULTS, *OTHER_NAMES])
def test_every_name_of_kafka_and_kafka_python_is_offered_refused_or_ignored(name: str) -> None:
    underscored = name.replace(".", "_")
    homes = [{*PRODUCER_OPTIONS.fields}, {*PRODUCER_OPTIONS.refused}, {*PRODUCER_OPTIONS.ignored}]
    assert sum(underscored in home for home in homes) == 1


def test_the_typed_keywords_are_those_of_the_table() -> None:
    assert ProducerConfig.__annotations__.keys() == PRODUCER_OPTIONS.fields.keys()
    assert AdminConfig.__annotations__.keys() == ADMIN_OPTIONS.fields.keys()


def test_literal_types_name_the_values_that_the_clients_accept() -> None:
    assert {*get_args(PartitionerName)} == {*STRATEGIES, *JAVA_CLASSES}
    for name, type_ in (
        ("acks", Acks),
        ("sasl_mechanism", SaslMechanism),
        ("ssl_enabled_protocols", TlsVersion),
    ):
        for value in get_args(type_):
            PRODUCER_OPTIONS.options[name].read(value)


@pytest.mark.parametrize(
    ("settings", "versions"),
    [
        ({"ssl.protocol": "TLS"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.protocol": "TLSv1.1"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.protocol": "TLSv1.2"}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl.protocol": "tlsv1.3"}, ("TLSv1.3",)),
        ({"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.2,TLSv1.3"}, ("TLSv1.3",)),
        ({"ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1.3",)),
    ],
)
def test_ssl_protocol_of_java_sets_the_lowest_version_of_tls(
    settings: dict[str, str], versions: tuple[str, ...]
) -> None:
    for table in (PRODUCER_OPTIONS, CONSUMER_OPTIONS, ADMIN_OPTIONS):
        assert table.parse(settings, {}).ssl_enabled_protocols == versions


def test_ssl_protocol_that_contradicts_the_enabled_versions_raises() -> None:
    with pytest.raises(ConfigurationError, match="remove one of the two"):
        parse(ssl_protocol="TLSv1.3", ssl_enabled_protocols="TLSv1.2")
    with pytest.raises(ConfigurationError, match="ssl_protocol='SSLv3' is not valid"):
        parse(ssl_protocol="SSLv3")


def test_durations_are_milliseconds_outside_and_seconds_inside() -> None:
    assert parse(linger_ms=250).linger == 0.25
    assert parse(max_block_ms="1500").max_block == 1.5


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({"linger_ms": "5"}, {"linger_ms": 5}),
        ({"linger.ms": "0.5"}, {"linger_ms": 0.5}),
        ({"batch_size": "100"}, {"batch_size": 100}),
        ({"enable_idempotence": "false"}, {"enable_idempotence": False}),
        ({"acks": "1"}, {"acks": 1}),
    ],
)
def test_numbers_may_be_text_as_in_property_files(settings: dict[str, Any], same: dict[str, Any]) -> None:
    assert PRODUCER_OPTIONS.parse(settings, {}) == parse(**same)


def test_dotted_and_underscored_names_mean_the_same() -> None:
    config = {"linger.ms": 7, "batch_size": 100, "bootstrap.servers": ["a:1", "b:2"]}
    options = PRODUCER_OPTIONS.parse(config, {"acks": 1})
    assert (options.linger, options.batch_size, options.acks) == (0.007, 100, 1)
    assert options.bootstrap_servers == (("a", 1), ("b", 2))


def test_option_set_twice_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"'linger_ms' is set twice \(also as 'linger.ms'\)"):
        PRODUCER_OPTIONS.parse({"linger.ms": 7}, {"linger_ms": 8})


def test_none_counts_as_unset() -> None:
    assert parse(send_buffer_bytes=None, compression_type=None, client_id=None) == parse()


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UnknownOption, match=r"no option 'linger'; the nearest is 'linger_ms'"):
        parse(linger=5)
    with pytest.raises(UnknownOption, match="the nearest is 'batch_size'"):
        parse(batch_sise=5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"linger_ms": -1}, "linger_ms=-1 is not valid; use a number of milliseconds, at least 0"),
        ({"linger_ms": "soon"}, "linger_ms='soon'"),
        ({"linger_ms": True}, "linger_ms=True"),
        ({"linger_ms": float("nan")}, "linger_ms=nan"),
        ({"acks": 2}, "acks=2 is not valid; use 0, 1, -1 or 'all'"),
        ({"acks": True}, "acks=True"),
        ({"batch_size": 1.5}, "batch_size=1.5 is not valid; use an integer from 0"),
        ({"batch_size": 2**31}, "batch_size=2147483648"),
        ({"compression_type": "brotli"}, "use one of 'none', 'gzip'"),
        ({"compression_gzip_level": 0}, "compression_gzip_level=0"),
        ({"compression_lz4_level": 18}, "compression_lz4_level=18"),
        ({"enable_idempotence": 1}, "enable_idempotence=1 is not valid; use True or False"),
        ({"client_id": 7}, "client_id=7 is not valid; use a string"),
        (
            {"client_id": "\ud800"},
            r"client_id='\\ud800' is not valid; use a string \(it is not valid Unicode text",
        ),
        ({"client_id": "x" * 40_000}, r"client_id='x+\.\.\. is not valid; use a string \(it has 40000 bytes"),
        ({"transactional_id": "\ud800"}, r"transactional_id=.* \(it is not valid Unicode text"),
        ({"bootstrap_servers": ""}, "it is empty"),
        ({"bootstrap_servers": "host:port"}, "'host:port' has no port between 1 and 65535"),
        ({"bootstrap_servers": "host:0"}, "no port between"),
        ({"bootstrap_servers": ":9092"}, "has no legal host"),
        ({"bootstrap_servers": "http://host:9092"}, "is a URL; write host:port"),
        ({"bootstrap_servers": 9092}, "bootstrap_servers=9092"),
        ({"bootstrap_servers": "::1"}, r"write an IPv6 address in brackets"),
        ({"security_protocol": "TLS"}, "use one of 'PLAINTEXT', 'SSL'"),
        (
            {"security_protocol": "SASL_SSL"},
            "security_protocol='SASL_SSL' needs sasl_mechanism: one of PLAIN",
        ),
        ({"sasl_mechanism": "GSSAPI"}, "Kerberos needs a C library, so pykafka2 does not offer it"),
        ({"sasl_mechanism": "AWS_MSK_IAM"}, "a token provider that signs for MSK"),
        ({**SASL, "sasl_mechanism": "PLAIN"}, "sasl_mechanism='PLAIN' needs sasl_username"),
        (
            {**SASL, "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "ann"},
            "sasl_mechanism='SCRAM-SHA-256' needs sasl_password",
        ),
        ({**SASL, "sasl_mechanism": "OAUTHBEARER"}, "needs one source of tokens: .*; set: none"),
        (
            {**SASL, "sasl_mechanism": "OAUTHBEARER", "oauth_cb": print, "sasl_oauth_token_provider": print},
            "set: sasl_oauth_token_provider, oauth_cb",
        ),
        (
            {**SASL, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": "a.Class"},
            "write an import path as module:function",
        ),
        (
            {
                **SASL,
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": "https://a/token",
            },
            "sasl_oauthbearer_token_endpoint_url needs sasl_oauthbearer_client_id",
        ),
        (
            {
                **SASL,
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": "file:///etc/passwd",
            },
            "must begin with https://",
        ),
        ({"sasl_kerberos_service_name": "other"}, "Kerberos needs a C library"),
        ({"ssl_cafile": "ca.pem", "ssl_ca_pem": "-----"}, "ssl_cafile and ssl_ca_pem exclude each other"),
        ({"ssl_key_pem": "-----"}, "ssl_key_pem is set without ssl_certificate_pem"),
        ({"transactional_id": ""}, "transactional_id='' is not valid; use a string that is not empty"),
        ({"transactional_id": "t", "enable_idempotence": False}, "enable_idempotence=False contradicts"),
        ({"transactional_id": "t", "acks": 1}, "acks=1 contradicts transactional_id"),
        ({"transactional_id": "t", "retries": 0}, "retries=0 contradicts transactional_id"),
        ({"transactional_id": "t", "max_in_flight_requests_per_connection": 6}, "at most 5"),
        ({"transaction_timeout_ms": 0}, "transaction_timeout_ms=0"),
        (
            {"transaction_two_phase_commit_enable": True},
            "transaction_two_phase_commit_enable is not supported",
        ),
        ({"ssl_keystore_location": "x.jks"}, "to PEM files"),
        ({"ssl_keyfile": "k.pem"}, "ssl_keyfile is set without ssl_certfile"),
        ({"ssl_enabled_protocols": ["TLSv1.1"]}, "ssl_enabled_protocols"),
        ({"metadata_max_idle_ms": 4999}, "at least 5000"),
        ({"interceptors": "x.Y"}, "interceptors='x.Y' is not valid; use a list of objects"),
        (
            {"interceptors": [print]},
            r"use a list of objects \(<built-in function print> has none of the methods on_se",
        ),
        (
            {**SASL, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": TokenProvider},
            r"a method token\(\); pass an object: TokenProvider\(\)",
        ),
    ],
)
def test_illegal_value_is_rejected_with_name_value_and_legal_values(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        parse(**settings)


def test_refused_options_accept_the_values_that_ask_for_nothing() -> None:
    assert parse(sasl_mechanism=None, metric_reporters=[], sasl_kerberos_service_name="kafka") == parse()


def test_an_option_without_meaning_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options_module, "_warned", set())
    with pytest.warns(IgnoredOption, match="api_version is ignored: versions"):
        parse(api_version=(2, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(api_version=(2, 0))


@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer, KafkaAdminClient])
@pytest.mark.parametrize("option", ["api_version", "ssl_cafile"])
def test_the_warning_points_at_the_line_that_makes_the_client(
    monkeypatch: pytest.MonkeyPatch, client: Callable[..., Any], option: str
) -> None:
    monkeypatch.setattr(options_module, "_warned", set())
    with pytest.warns(IgnoredOption) as caught:
        client(**{option: "2.0"}).close()
    assert [warning.filename for warning in caught] == [__file__]


def test_tls_options_without_tls_warn() -> None:
    # Otherwise a user who forgot security_protocol believes that the connection is encrypted.
    with pytest.warns(IgnoredOption, match="ssl_cafile is ignored: .* does not encrypt") as caught:
        parse(ssl_cafile="ca.pem")
    assert len(caught) == 1
    assert parse(security_protocol="SSL", ssl_cafile="ca.pem").ssl_cafile == "ca.pem"


def test_secrets_are_never_shown() -> None:
    options = parse(security_protocol="SSL", ssl_keyfile="k", ssl_certfile="c", ssl_password="hunter2")
    assert "hunter2" not in repr(options)
    assert "ssl_password='[hidden]'" in repr(options)
    with pytest.raises(ConfigurationError) as raised:
        parse(ssl_password=b"hunter2")
    assert "hunter2" not in str(raised.value)


def test_infinite_retries_of_kafka_python_are_the_largest_number() -> None:
    assert parse(retries=float("inf")).retries == 2**31 - 1


def test_the_level_is_that_of_the_codec() -> None:
    assert parse(compression_type="zstd", compression_zstd_level=7).compression_level == 7
    assert parse(compression_type="snappy").compression_level is None


class TestConflicts:
    """The same conflicts as in Java 4.3.1."""

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"acks": 1}, "acks=1 contradicts enable_idempotence"),
            ({"acks": 0}, "acks=0 contradicts enable_idempotence"),
            ({"retries": 0}, "retries=0 contradicts enable_idempotence"),
            (
                {"max_in_flight_requests_per_connection": 6},
                "max_in_flight_requests_per_connection=6 contradicts enable_idempotence",
            ),
        ],
    )
    def test_explicit_idempotence_with_a_conflicting_option_raises(
        self, settings: dict[str, Any], words: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=words):
            parse(enable_idempotence=True, **settings)

    @pytest.mark.parametrize("settings", [{"acks": 1}, {"acks": "0"}, {"retries": 0}])
    def test_default_idempotence_is_disabled_by_a_conflicting_option_with_a_log_line(
        self, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO, "pykafka2"):
            assert not parse(**settings).enable_idempotence
        assert [record.levelname for record in caplog.records] == ["INFO"]

    def test_too_many_in_flight_requests_raise_with_default_idempotence(self) -> None:
        with pytest.raises(ConfigurationError, match="enable_idempotence=False"):
            parse(max_in_flight_requests_per_connection=6)
        assert parse(max_in_flight_requests_per_connection=6, enable_idempotence=False).max_in_flight == 6

    def test_one_retry_is_enough(self) -> None:
        assert parse(retries=1, enable_idempotence=True).enable_idempotence

    def test_a_delivery_timeout_below_linger_and_request_timeout_raises(self) -> None:
        with pytest.raises(ConfigurationError, match=r"linger_ms \+ request_timeout_ms = 30005"):
            parse(delivery_timeout_ms=30_004)
        assert parse(delivery_timeout_ms=30_005).delivery_timeout == 30.005

    def test_default_delivery_timeout_is_raised_with_a_log_line(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING, "pykafka2"):
            assert parse(request_timeout_ms=200_000).delivery_timeout == 200.005
        assert "delivery_timeout_ms raised" in caplog.text


def test_a_producers_blocking_calls_are_bounded_by_max_block_ms() -> None:
    assert parse(max_block_ms=1234).default_api_timeout == 1.234
    assert CLIENT_OPTIONS.parse(None, {}).default_api_timeout == 60.0


def test_a_number_may_come_as_text_as_property_files_have_it() -> None:
    assert PRODUCER_OPTIONS.parse({"linger.ms": "5"}, {}).linger == 0.005
    with pytest.raises(
        ConfigurationError, match="linger_ms='5ms' is not valid; use a number of milliseconds"
    ):
        PRODUCER_OPTIONS.parse(None, {"linger_ms": "5ms"})


@pytest.mark.parametrize("interceptor", ["tracing", object])
def test_interceptors_are_objects(interceptor: object) -> None:
    with pytest.raises(ConfigurationError, match=r"interceptors=.* pass an object"):
        PRODUCER_OPTIONS.parse(None, {"interceptors": [interceptor]})
