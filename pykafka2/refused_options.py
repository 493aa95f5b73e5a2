"""Options of Kafka and of other Python clients that are not supported: refused with a reason, or ignored.

Pure data, read by `options.OptionTable`; a client's own option of the same name takes precedence.
"""

from __future__ import annotations

from pykafka2.slotted import slotted


@slotted(frozen=True)
class Refused:
    """An unsupported option of Kafka: the reason, and the values that have no effect and are accepted."""

    reason: str
    harmless: tuple[object, ...] = ()


_KERBEROS = Refused("Kerberos needs a C library and is not offered")
_PROVIDER = Refused("Java classes cannot be loaded; set a callable as sasl_oauth_token_provider")
_REFRESH = Refused("tokens are requested for each connection and after four fifths of their lifetime")
_ASSERTION = Refused("assertions are not signed here; give a sasl_oauth_token_provider that does it")
_BROKERS = Refused("only brokers validate tokens")
_JAVA_SECURITY = Refused("it configures Java's security providers; pykafka2 uses OpenSSL")
_PEM_ONLY = Refused(
    "Java key stores are not supported; set ssl_cafile, ssl_certfile and ssl_keyfile to PEM files"
)
_METRICS = Refused("there are no reporters; read metrics with metrics()", harmless=([], ()))

COMMON_REFUSED: dict[str, Refused] = {
    **dict.fromkeys(
        (
            "sasl_kerberos_domain_name",
            "sasl_kerberos_kinit_cmd",
            "sasl_kerberos_min_time_before_relogin",
            "sasl_kerberos_name",
            "sasl_kerberos_ticket_renew_jitter",
            "sasl_kerberos_ticket_renew_window_factor",
        ),
        _KERBEROS,
    ),
    **dict.fromkeys(
        (
            "sasl_client_callback_handler_class",
            "sasl_login_callback_handler_class",
            "sasl_login_class",
            "sasl_oauthbearer_jwt_retriever_class",
        ),
        _PROVIDER,
    ),
    **dict.fromkeys(
        (
            "sasl_login_connect_timeout_ms",
            "sasl_login_refresh_buffer_seconds",
            "sasl_login_refresh_min_period_seconds",
            "sasl_login_refresh_window_factor",
            "sasl_login_refresh_window_jitter",
            "sasl_login_retry_backoff_max_ms",
            "sasl_login_retry_backoff_ms",
            "sasl_oauthbearer_header_urlencode",
        ),
        _REFRESH,
    ),
    **dict.fromkeys(
        (
            "sasl_oauthbearer_assertion_algorithm",
            "sasl_oauthbearer_assertion_claim_aud",
            "sasl_oauthbearer_assertion_claim_exp_seconds",
            "sasl_oauthbearer_assertion_claim_iss",
            "sasl_oauthbearer_assertion_claim_jti_include",
            "sasl_oauthbearer_assertion_claim_nbf_seconds",
            "sasl_oauthbearer_assertion_claim_sub",
            "sasl_oauthbearer_assertion_file",
            "sasl_oauthbearer_assertion_private_key_file",
            "sasl_oauthbearer_assertion_private_key_passphrase",
            "sasl_oauthbearer_assertion_template_file",
        ),
        _ASSERTION,
    ),
    **dict.fromkeys(
        (
            "sasl_oauthbearer_allow_unverified_audience",
            "sasl_oauthbearer_allow_unverified_issuer",
            "sasl_oauthbearer_clock_skew_seconds",
            "sasl_oauthbearer_expected_audience",
            "sasl_oauthbearer_expected_issuer",
            "sasl_oauthbearer_jwks_endpoint_refresh_ms",
            "sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms",
            "sasl_oauthbearer_jwks_endpoint_retry_backoff_ms",
            "sasl_oauthbearer_jwks_endpoint_url",
            "sasl_oauthbearer_jwt_validator_class",
            "sasl_oauthbearer_scope_claim_name",
            "sasl_oauthbearer_sub_claim_name",
        ),
        _BROKERS,
    ),
    "sasl_kerberos_service_name": Refused(_KERBEROS.reason, harmless=("kafka",)),
    "ssl_cipher_suites": Refused("write OpenSSL's names in ssl_ciphers", harmless=([], ())),
    **dict.fromkeys(
        (
            "security_providers",
            "ssl_engine_factory_class",
            "ssl_keymanager_algorithm",
            "ssl_provider",
            "ssl_secure_random_implementation",
            "ssl_trustmanager_algorithm",
        ),
        _JAVA_SECURITY,
    ),
    **dict.fromkeys(
        (
            "ssl_keystore_location",
            "ssl_keystore_password",
            "ssl_keystore_type",
            "ssl_truststore_location",
            "ssl_truststore_password",
            "ssl_truststore_type",
        ),
        _PEM_ONLY,
    ),
    "ssl_endpoint_identification_algorithm": Refused(
        "host names are verified unless ssl_check_hostname is False", harmless=("https",)
    ),
    "metric_reporters": _METRICS,
    "config_providers": Refused(
        "values are used as they are; fetch secrets before you create a client", harmless=([], ())
    ),
    "proxy_url": Refused("proxies are not implemented"),
    "socks5_proxy": Refused("proxies are not implemented"),
}

COMMON_IGNORED: dict[str, str] = {
    "api_version": "versions are negotiated with each broker",
    "api_version_auto_timeout_ms": "versions are negotiated with each broker",
    "bootstrap_timeout_ms": "the constructor does not connect; max_block_ms and timeouts limit the calls",
    "kafka_client": "there is one network client",
    "metric_group_prefix": "metrics have Kafka's names",
    "metrics_enabled": "metrics have no cost per record and are always on",
    "metrics_num_samples": "metrics keep totals, not windows",
    "metrics_recording_level": "metrics have one level",
    "metrics_sample_window_ms": "metrics keep totals, not windows",
    "selector": "the system's best selector is used",
    "sock_chunk_bytes": "sockets are read in large chunks",
    "socket_options": "TCP_NODELAY is always set",
}
"""Options of other clients that have no effect here: accepted, with one warning each."""
