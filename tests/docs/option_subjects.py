"""Data of the option pages beside the option tables: subject, importance, origin, when to change an option.

The consumer's own options have them in a string below their field, which costs nothing at run time; those of
the other clients are here. The importance is that of Apache Kafka 4.4.0's documentation; options that its
clients do not have got one of the same meaning. A page fails to build without an entry for each option, and
with an entry for none.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from pykafka2.admin.options import AdminOptions
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.producer.options import ProducerOptions
from pykafka2.share.options import ShareConsumerOptions

HIGH, MEDIUM, LOW = "high", "medium", "low"
IMPORTANCE = (HIGH, MEDIUM, LOW)
"""In the order of a page."""

OURS = "pykafka2"
LIBRDKAFKA = "librdkafka"
CONFLUENT = "confluent-kafka"
KAFKA_PYTHON = "kafka-python"


@attrs.frozen
class Advice:
    """When to change an option. `origin` is the client that an option comes from if Java's does not have it.

    `java` is the name in Java's clients if it is not the option's name with dots.
    """

    importance: str
    text: str
    origin: str = ""
    java: str = ""


Subject = Mapping[str, Advice]
"""Advice by the name of the option, as written in a program."""


ADVICE: Final = re.compile(
    r"(?P<subject>.+?), (?P<importance>\w+)(?:, from (?P<origin>[\w-]+))?: (?P<text>.+)"
)
"""The string below a field: `Group, medium, from librdkafka: Set it to the name of the instance.`"""


def with_declared(subjects: Mapping[str, Subject], options_class: type) -> dict[str, dict[str, Advice]]:
    """Return the subjects with the advice that stands below the fields of this class of options."""
    found = {title: {**subject} for title, subject in subjects.items()}
    (declared,) = ast.parse(inspect.getsource(options_class)).body
    assert isinstance(declared, ast.ClassDef)
    for field, below in zip(declared.body, declared.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr)):
            continue
        assert isinstance(field.value, ast.Call)
        name: Any = ast.literal_eval(field.value.args[0])
        parts = ADVICE.fullmatch(" ".join(ast.literal_eval(below.value).split()))
        if parts is None or parts["subject"] not in found or parts["importance"] not in IMPORTANCE:
            raise SystemExit(
                f"write the string below {name} as 'SUBJECT, IMPORTANCE: when to change it'; a subject is "
                f"one of {', '.join(found)}, and an importance one of {', '.join(IMPORTANCE)}"
            )
        found[parts["subject"]][name] = Advice(parts["importance"], parts["text"], parts["origin"] or "")
    return found


def in_order(subject: Subject) -> list[str]:
    """Return the names of a subject by importance; equally important ones as written."""
    return sorted(subject, key=lambda name: IMPORTANCE.index(subject[name].importance))


# ---------------------------------------------------------------------------------------------------
# All clients
# ---------------------------------------------------------------------------------------------------

CONNECTION: Subject = {
    "bootstrap_servers": Advice(
        HIGH,
        "Name two or three brokers, so that a client can start while one of them is down. The list needs no "
        "change when the cluster grows.",
    ),
    "bootstrap_resolve_timeout_ms": Advice(
        HIGH,
        "Keep it. A client starts before DNS works, and calls raise `NoBrokersAvailable` after their own "
        "timeouts. Set it if DNS that fails for so long should end the program.",
    ),
    "client_id": Advice(
        MEDIUM,
        "Set it to the name of your service. Brokers write it to their logs, and "
        "[quotas](../guides/administration.md#quotas) can be set for it.",
    ),
    "request_timeout_ms": Advice(
        MEDIUM, "Raise it if brokers take longer to respond, for example while many leaders move."
    ),
    "client_dns_lookup": Advice(
        MEDIUM,
        "Keep it. The other value is for clusters behind one alias whose certificates have the canonical "
        "names.",
    ),
    "connections_max_idle_ms": Advice(
        MEDIUM,
        "Lower it below the idle timeout of a firewall or load balancer that drops connections silently.",
    ),
    "socket_connection_setup_timeout_ms": Advice(
        MEDIUM, "Lower it to try the next address of a broker sooner; raise it for brokers that are far away."
    ),
    "socket_connection_setup_timeout_max_ms": Advice(
        MEDIUM, "Raise it together with socket_connection_setup_timeout_ms."
    ),
    "send_buffer_bytes": Advice(
        MEDIUM, "Set it only if you have measured that the kernel's own tuning is too small for a long link."
    ),
    "receive_buffer_bytes": Advice(
        MEDIUM, "Set it only if you have measured that the kernel's own tuning is too small for a long link."
    ),
    "receive_message_max_bytes": Advice(
        LOW,
        "Raise it for larger fetches, or for the metadata of very many topics. It limits the memory that a "
        "damaged or foreign response can take.",
        LIBRDKAFKA,
    ),
    "reconnect_backoff_ms": Advice(LOW, "Raise it if many clients reconnect to a restarted broker at once."),
    "reconnect_backoff_max_ms": Advice(
        LOW,
        "The wait doubles with each failure up to this value. Raise it to try a missing broker less often.",
    ),
}

RETRIES: Subject = {
    "retry_backoff_ms": Advice(LOW, "Raise it if retries add load to a cluster in trouble."),
    "retry_backoff_max_ms": Advice(
        LOW, "The wait doubles from retry_backoff_ms up to this value. Raise it for long outages."
    ),
}

METADATA: Subject = {
    "allow_auto_create_topics": Advice(
        MEDIUM,
        "Set `False`, so that brokers with `auto.create.topics.enable=true` do not create a topic from a "
        "misspelt name.",
    ),
    "metadata_max_age_ms": Advice(
        LOW,
        "Lower it if new partitions, or new topics that match a pattern, must be found sooner. Each refresh "
        "is one request.",
    ),
    "metadata_recovery_strategy": Advice(
        LOW, "Keep it. With `none` a client is lost when all brokers that it knows have been replaced."
    ),
    "metadata_recovery_rebootstrap_trigger_ms": Advice(
        LOW, "Lower it if the addresses of all brokers can change at once, as in a container platform."
    ),
    "enable_metrics_push": Advice(
        LOW,
        "It costs nothing if the brokers do not subscribe to metrics. Set `False` if the "
        "operators of the brokers must not see what the client does. "
        "[Client telemetry](../guides/observability.md#client-telemetry) describes it.",
    ),
    "metadata_cluster_check_enable": Advice(
        LOW,
        "Keep it. Set `False` behind a proxy that changes the ids of brokers or of the cluster. Brokers "
        "before 4.4 do not check, and connections to them need one more round trip. "
        '`metadata_recovery_strategy="none"` switches it off, too.',
    ),
}

TLS: Subject = {
    "ssl_cafile": Advice(
        HIGH,
        "Set it if the brokers' certificates come from a private authority, such as that of your company or "
        "of a managed service.",
        KAFKA_PYTHON,
    ),
    "ssl_ca_pem": Advice(
        HIGH,
        "Use it instead of ssl_cafile if the certificates come from a secret store.",
        "",
        "ssl.truststore.certificates",
    ),
    "ssl_certfile": Advice(
        HIGH,
        "Set it, with ssl_keyfile, if the brokers require a client certificate (mutual TLS).",
        KAFKA_PYTHON,
    ),
    "ssl_certificate_pem": Advice(
        HIGH,
        "Use it instead of ssl_certfile if the certificate comes from a secret store.",
        "",
        "ssl.keystore.certificate.chain",
    ),
    "ssl_keyfile": Advice(
        HIGH, "Set it with ssl_certfile, unless that file contains the key as well.", KAFKA_PYTHON
    ),
    "ssl_key_pem": Advice(
        HIGH,
        "Set it with ssl_certificate_pem. Logs and `repr` never show it.",
        "",
        "ssl.keystore.key",
    ),
    "ssl_password": Advice(
        HIGH, "Set it if the private key is encrypted. Logs and `repr` never show it.", "", "ssl.key.password"
    ),
    "security_protocol": Advice(
        MEDIUM,
        "Set `SSL` or `SASL_SSL` outside of tests. `PLAINTEXT` and `SASL_PLAINTEXT` do not encrypt. "
        "[Security](../guides/security.md) has an example of each.",
    ),
    "ssl_context": Advice(MEDIUM, "Use it for settings of OpenSSL that have no option here.", KAFKA_PYTHON),
    "ssl_check_hostname": Advice(
        MEDIUM,
        "Keep it. Without the check, each holder of a certificate of the same authority can pose as the "
        "broker.",
        KAFKA_PYTHON,
    ),
    "ssl_enabled_protocols": Advice(MEDIUM, "Set `TLSv1.3` alone if a policy forbids TLS 1.2."),
    "ssl_protocol": Advice(MEDIUM, "Prefer ssl_enabled_protocols; this one is for Java's property files."),
    "ssl_ciphers": Advice(
        LOW, "Set it only if a policy prescribes ciphers. It does not change those of TLS 1.3.", KAFKA_PYTHON
    ),
    "ssl_crlfile": Advice(
        LOW, "Set it if your authority publishes a list of revoked certificates.", KAFKA_PYTHON
    ),
}

SASL: Subject = {
    "sasl_username": Advice(HIGH, "Set it for PLAIN and SCRAM, together with sasl_password.", LIBRDKAFKA),
    "sasl_password": Advice(
        HIGH, "Read it from the environment or a secret store. Logs and `repr` never show it.", LIBRDKAFKA
    ),
    "sasl_mechanism": Advice(
        MEDIUM,
        "`SCRAM-SHA-512` for users with passwords, `OAUTHBEARER` for tokens. `PLAIN` sends the password, so "
        "use it only with `SASL_SSL`.",
    ),
    "sasl_jaas_config": Advice(MEDIUM, "Use it to keep the property file of a Java client as it is."),
    "sasl_delegation_token": Advice(
        LOW, "Set `True` for a token of the admin client's create_delegation_token().", OURS
    ),
}

OAUTH: Subject = {
    "sasl_oauth_token_provider": Advice(
        HIGH,
        "Use it for tokens of a cloud's own library, such as Amazon MSK's; "
        "[managed services](../guides/managed-services.md) has examples.",
        KAFKA_PYTHON,
    ),
    "sasl_oauthbearer_token_endpoint_url": Advice(
        MEDIUM, "Set it, with client id and secret, if the client itself is to request the tokens."
    ),
    "sasl_oauthbearer_client_id": Advice(
        MEDIUM,
        "Set it with sasl_oauthbearer_token_endpoint_url.",
        "",
        "sasl.oauthbearer.client.credentials.client.id",
    ),
    "sasl_oauthbearer_client_secret": Advice(
        MEDIUM,
        "Set it with sasl_oauthbearer_token_endpoint_url. Logs and `repr` never show it.",
        "",
        "sasl.oauthbearer.client.credentials.client.secret",
    ),
    "sasl_oauthbearer_scope": Advice(
        MEDIUM, "The provider's documentation names the scope, if it needs one."
    ),
    "sasl_login_read_timeout_ms": Advice(LOW, "Raise it if the token endpoint is slow."),
    "sasl_oauthbearer_extensions": Advice(
        LOW, "Confluent Cloud, for example, expects `logicalCluster` and `identityPoolId`.", LIBRDKAFKA
    ),
    "https_ca_location": Advice(
        LOW, "Set it if the token endpoint has a certificate of a private authority.", LIBRDKAFKA
    ),
    "oauth_cb": Advice(LOW, "For programs written for confluent-kafka.", CONFLUENT),
    "sasl_oauthbearer_config": Advice(LOW, "For programs written for confluent-kafka.", LIBRDKAFKA),
    "sasl_oauthbearer_method": Advice(LOW, "No need to set it; librdkafka's files contain it.", LIBRDKAFKA),
}

SECURITY: Mapping[str, Subject] = {"TLS": TLS, "SASL: users and passwords": SASL, "SASL: OAuth tokens": OAUTH}


# ---------------------------------------------------------------------------------------------------
# Producer
# ---------------------------------------------------------------------------------------------------

OF_PRODUCER: Mapping[str, Subject] = {
    "Connection": {
        **CONNECTION,
        "request_timeout_ms": Advice(
            MEDIUM,
            "Raise it if brokers take longer to respond, for example while many leaders move. linger_ms and "
            "this timeout together must not exceed delivery_timeout_ms.",
        ),
    },
    "Delivery": {
        "retries": Advice(
            HIGH, "Leave it, and limit the time with delivery_timeout_ms. 0 disables idempotence."
        ),
        "delivery_timeout_ms": Advice(
            MEDIUM,
            "Raise it to survive longer outages; lower it if a late record is worthless. After it the "
            "delivery fails with [`DeliveryTimeout`](errors.md#deliverytimeout).",
        ),
        "acks": Advice(
            LOW,
            "Keep `all`. With `1`, records are lost with a leader that fails; with `0`, failures are not "
            "even reported. Both disable idempotence. "
            "[Order](../guides/producing.md#order-and-which-partition) compares them.",
        ),
        "enable_idempotence": Advice(
            LOW,
            "Keep it. Set `True` to get an error if `acks` or `retries` contradict it; unset, it gives way "
            "to them.",
        ),
        "max_in_flight_requests_per_connection": Advice(
            LOW,
            "With idempotence 5 is the maximum. Without it, a value above 1 can reorder records when a "
            "batch is retried.",
        ),
        **RETRIES,
    },
    "Batching and memory": {
        "buffer_memory": Advice(
            HIGH,
            "When it is full, send() waits. Raise it if "
            "[`bufferpool-wait-ratio`](metrics.md#producer-metrics) is above 0 although the "
            "brokers keep up, or to absorb longer outages.",
        ),
        "linger_ms": Advice(
            MEDIUM,
            "Set 0 if the program waits for each record, and 10 to 50 for fewer, larger requests. "
            "[Tuning](../guides/tuning.md#linger_ms) shows the measured effect.",
        ),
        "batch_size": Advice(
            MEDIUM,
            "64 to 256 KiB raise the throughput of a busy producer. It does not delay records, as linger_ms "
            "ends the wait. [Tuning](../guides/tuning.md#batch_size) shows the measured effect.",
        ),
        "max_request_size": Advice(
            MEDIUM, "Raise it, together with the topic's `max.message.bytes`, for records above 1 MiB."
        ),
        "max_block_ms": Advice(
            MEDIUM,
            "Lower it in a service that must respond quickly. Afterwards send() raises "
            "[`BufferExhausted`](errors.md#bufferexhausted) or the error of the metadata.",
        ),
        "bulk_batch_size": Advice(
            MEDIUM, "Lower it if send_many writes to many partitions and memory is scarce.", OURS
        ),
    },
    "Compression": {
        "compression_type": Advice(
            HIGH,
            "`lz4` costs little processor time, `zstd` compresses best. Larger batches compress better. "
            "[Tuning](../guides/tuning.md#compression_type) compares them.",
        ),
        "compression_gzip_level": Advice(MEDIUM, "Lower it to save processor time."),
        "compression_lz4_level": Advice(MEDIUM, "Keep it, unless size matters more than speed."),
        "compression_zstd_level": Advice(MEDIUM, "Raise it if the network or the disk is the limit."),
    },
    "Serialization": {
        "key_serializer": Advice(
            HIGH, "Set it to send keys that are not bytes; [serializers](serializers.md) lists ready ones."
        ),
        "value_serializer": Advice(
            HIGH, "Set it to send values that are not bytes; [serializers](serializers.md) lists ready ones."
        ),
        "interceptors": Advice(
            LOW,
            "Use them for tracing and auditing; [Hooks](../guides/hooks.md) has examples. on_send and "
            "on_acknowledgement run for each record, so they cost throughput.",
            "",
            "interceptor.classes",
        ),
    },
    "Partitioning": {
        "partitioner": Advice(
            MEDIUM,
            "Set `consistent_random` if producers with librdkafka write the same keys to the topic. All "
            "names are in [the list below](#partitioners-by-name).",
            "",
            "partitioner.class",
        ),
        "partitioner_ignore_keys": Advice(
            MEDIUM, "Set `True` if keys are only data, and order per key does not matter."
        ),
        "partitioner_adaptive_partitioning_enable": Advice(
            LOW, "Set `False` to spread records evenly even if a broker is slow."
        ),
        "partitioner_availability_timeout_ms": Advice(
            LOW, "Set a few seconds to avoid a broker that does not respond."
        ),
        "partitioner_rack_aware": Advice(
            LOW,
            "Set `True`, and client_rack, to save traffic between zones; see "
            "[Racks](../guides/nearest-replica.md#producers). Records with a key keep their partition.",
        ),
        "client_rack": Advice(
            LOW, "Set it to the availability zone. It has no effect without partitioner_rack_aware."
        ),
    },
    "Transactions": {
        "transactional_id": Advice(
            LOW,
            "Choose a name that an instance keeps across restarts and shares with no other: a new producer "
            "with the same id fences the old one. [Transactions](../guides/transactions.md) explains.",
        ),
        "transaction_timeout_ms": Advice(
            LOW,
            "Raise it for longer transactions. Brokers reject more than `transaction.max.timeout.ms` (15 "
            "minutes by default).",
        ),
    },
    "Metadata": {
        **METADATA,
        "allow_auto_create_topics": Advice(MEDIUM, METADATA["allow_auto_create_topics"].text, KAFKA_PYTHON),
        "metadata_max_idle_ms": Advice(
            LOW,
            "Raise it for topics that are written rarely, so that send() does not wait for metadata each "
            "time.",
        ),
    },
    **SECURITY,
}
PRODUCER: Final = with_declared(OF_PRODUCER, ProducerOptions)


# ---------------------------------------------------------------------------------------------------
# Consumer
# ---------------------------------------------------------------------------------------------------

OF_CONSUMER: Mapping[str, Subject] = {
    "Connection": {**CONNECTION, "client_id": Advice(LOW, CONNECTION["client_id"].text)},
    "Group": {},
    "Offsets and commits": {},
    "Fetching": {},
    "Polling and deserialization": {
        "interceptors": Advice(
            LOW,
            "Use them for tracing and auditing; [Hooks](../guides/hooks.md) has examples. poll_columns() and "
            "read_range() call on_columns instead of on_consume.",
            "",
            "interceptor.classes",
        ),
    },
    "Metadata and retries": {
        **METADATA,
        **RETRIES,
    },
    **SECURITY,
}
CONSUMER: Final = with_declared(OF_CONSUMER, ConsumerOptions)


# ---------------------------------------------------------------------------------------------------
# Admin client
# ---------------------------------------------------------------------------------------------------

OF_ADMIN: Mapping[str, Subject] = {
    "Connection": CONNECTION,
    "Timeouts and retries": {
        "default_api_timeout_ms": Advice(
            MEDIUM,
            "Each call also has `timeout_ms`. Raise the default for clusters with very many partitions.",
        ),
        **RETRIES,
    },
    "Metadata": {
        **METADATA,
        "allow_auto_create_topics": Advice(
            LOW, "Keep it: waiting for a misspelt topic must not create it.", OURS
        ),
    },
    "Hooks": {
        "interceptors": Advice(
            LOW,
            "Use them to watch requests and connections; [Hooks](../guides/hooks.md) has an example.",
            OURS,
        ),
    },
    **SECURITY,
}
ADMIN: Final = with_declared(OF_ADMIN, AdminOptions)


# ---------------------------------------------------------------------------------------------------
# Share consumer
# ---------------------------------------------------------------------------------------------------

OF_SHARE_CONSUMER: Mapping[str, Subject] = {
    "Connection": CONNECTION,
    "Group": {},
    "Acknowledgement": {},
    "Fetching": {},
    "Polling and deserialization": {
        "interceptors": Advice(
            LOW,
            "Use them to watch requests and connections; [Hooks](../guides/hooks.md) has examples.",
            OURS,
        ),
    },
    "Metadata and retries": {
        **METADATA,
        **RETRIES,
    },
    **SECURITY,
}
SHARE_CONSUMER: Final = with_declared(OF_SHARE_CONSUMER, ShareConsumerOptions)


OPTION_PAGES: Mapping[str, str] = {
    name: page
    for page, subjects in (("consumer-options.md", CONSUMER), ("producer-options.md", PRODUCER))
    for subject in subjects.values()
    for name in subject
}
"""The page that defines an option; the producer's for options of several clients."""
