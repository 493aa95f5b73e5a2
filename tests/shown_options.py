"""The tests that show the effect of options that all clients share; the check that each option has a test."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pykafka2.testing.cluster import KafkaCluster

ROOT = Path(__file__).parents[1]
ROUTER = "tests/cluster/test_router.py"
REBOOTSTRAP = (ROUTER, "test_brokers_without_metadata_responses_cause_a_rebootstrap")
SOCKET = (
    "tests/network/test_tcp.py",
    "test_socket_options_reach_the_socket_and_minus_1_leaves_it_to_the_kernel",
)
TLS = "tests/network/test_tls.py"
CHOSEN = "tests/network/sasl/test_chosen.py"
AUTHORITY = "test_the_credentials_of_a_client_are_for_the_authority"
PROVIDERS = "test_tokens_of_any_provider"
SPELLINGS = "test_user_and_password_in_any_spelling"

SECURITY_SHOWN_BY = {
    "https_ca_location": (CHOSEN, AUTHORITY),
    "oauth_cb": (CHOSEN, PROVIDERS),
    "sasl_delegation_token": (CHOSEN, "test_scram_begins_with_the_user_and_a_nonce"),
    "sasl_jaas_config": (CHOSEN, SPELLINGS),
    "sasl_login_read_timeout_ms": (CHOSEN, AUTHORITY),
    "sasl_mechanism": (CHOSEN, "test_scram_begins_with_the_user_and_a_nonce"),
    "sasl_oauth_token_provider": (CHOSEN, PROVIDERS),
    "sasl_oauthbearer_client_id": (CHOSEN, AUTHORITY),
    "sasl_oauthbearer_client_secret": (CHOSEN, AUTHORITY),
    "sasl_oauthbearer_config": (CHOSEN, PROVIDERS),
    "sasl_oauthbearer_extensions": (CHOSEN, PROVIDERS),
    "sasl_oauthbearer_method": (CHOSEN, AUTHORITY),
    "sasl_oauthbearer_scope": (CHOSEN, AUTHORITY),
    "sasl_oauthbearer_token_endpoint_url": (CHOSEN, AUTHORITY),
    "sasl_password": (CHOSEN, SPELLINGS),
    "sasl_username": (CHOSEN, SPELLINGS),
    "security_protocol": (
        "tests/producer/test_producer_on_sockets.py",
        "test_tls_delivers_and_plaintext_to_a_tls_port_raises_tls_error",
    ),
    "ssl_ca_pem": (TLS, "test_certificates_as_pem_text_are_loaded"),
    "ssl_cafile": (TLS, "test_unknown_certificate_authority_error_recommends_ssl_cafile"),
    "ssl_certfile": (TLS, "test_client_certificate_is_accepted_and_a_missing_one_rejected"),
    "ssl_certificate_pem": (TLS, "test_certificates_as_pem_text_are_loaded"),
    "ssl_check_hostname": (TLS, "test_a_wrong_host_name_is_refused_and_may_be_allowed"),
    "ssl_ciphers": (TLS, "test_a_context_is_made_from_a_clients_options"),
    "ssl_context": (TLS, "test_a_context_is_made_from_a_clients_options"),
    "ssl_crlfile": (TLS, "test_options_that_cannot_be_used_are_named"),
    "ssl_enabled_protocols": (TLS, "test_tls_1_2_and_1_3_are_negotiated"),
    "ssl_protocol": (
        "tests/test_options.py",
        "test_ssl_protocol_of_java_sets_the_lowest_version_of_tls",
    ),
    "ssl_key_pem": (TLS, "test_certificates_as_pem_text_are_loaded"),
    "ssl_keyfile": (TLS, "test_client_certificate_is_accepted_and_a_missing_one_rejected"),
    "ssl_password": (TLS, "test_an_encrypted_key_needs_its_password"),
}

SHARED_SHOWN_BY = {
    "enable_metrics_push": ("tests/cluster/test_telemetry.py", "test_telemetry_can_be_switched_off"),
    "bootstrap_resolve_timeout_ms": (
        "tests/cluster/test_bootstrap.py",
        "test_names_that_never_resolve_fail_calls_after_the_resolve_timeout",
    ),
    "bootstrap_servers": ("tests/cluster/test_bootstrap.py", "test_bootstrap_continues_in_the_background"),
    "client_dns_lookup": (ROUTER, "test_bootstrap_names_alone_are_made_canonical"),
    "metadata_cluster_check_enable": (
        "tests/cluster/test_misrouted_connections.py",
        "test_nothing_is_checked_without_the_option_or_without_rebootstrap",
    ),
    "metadata_recovery_rebootstrap_trigger_ms": REBOOTSTRAP,
    "metadata_recovery_strategy": REBOOTSTRAP,
    "receive_buffer_bytes": SOCKET,
    "send_buffer_bytes": SOCKET,
    **SECURITY_SHOWN_BY,
}


def assert_shown(shown_by: Mapping[str, tuple[str, str]], options: Iterable[str]) -> None:
    """Assert that each option has an entry, and that the tests of the entries exist."""
    assert sorted(shown_by) == sorted(options)
    missing = {
        name
        for name, (path, test) in shown_by.items()
        if not re.search(rf"def {test}\(", (ROOT / path).read_text(encoding="utf-8"))
    }
    assert missing == set()


def connections_to(cluster: KafkaCluster, broker: int) -> set[str]:
    """Return the connections on which a broker has received requests."""
    return {entry.peer for entry in cluster.history.entries(broker=broker)}
