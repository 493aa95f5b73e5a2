"""Texts of `check_cluster`: findings of a step, causes of a failure, and their fixes. Pure functions."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pykafka2.errors import KafkaError, TlsHostNameMismatch
from pykafka2.protocol.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from pykafka2.network.api_versions import ApiVersions
    from pykafka2.network.certificate import Certificate

_FIXES = {
    "tls": "check that this is the TLS port of a Kafka broker, and raise the timeout if the broker is slow",
    "api_versions": (
        "check that this is the port of a Kafka broker and that security_protocol matches it, and raise the "
        "timeout if the broker is slow"
    ),
    "sasl": "check the SASL options, and the broker's log",
    "metadata": "check the broker's log, and raise the timeout if the broker is slow",
}


def fix_of_step(step: str, error: KafkaError) -> str:
    """Return what to do: the advice of the error's class, or of the step."""
    advice = type(error).what_to_do
    if error.retriable or advice is KafkaError.what_to_do:
        return _FIXES.get(step, advice)  # not "the client retries": the check has failed
    return advice.replace("`", "")


def fix_of_name(host: str, broker_id: int | None) -> str:
    """Return what to do if a name cannot be resolved; `broker_id` advertises it."""
    if broker_id is None:
        return "correct the name in bootstrap_servers, or this host's DNS"
    return (
        f"set advertised.listeners of broker {broker_id} to a name that clients can resolve, or add "
        f"{host} to DNS"
    )


def fix_of_port(address: str, broker_id: int | None) -> str:
    """Return what to do if an address does not accept connections; `broker_id` advertises it."""
    if broker_id is None:
        return "correct the port in bootstrap_servers, start the broker, or open the firewall"
    return (
        f"set advertised.listeners of broker {broker_id} to an address that clients can reach, or open the "
        f"firewall for {address}"
    )


def explained(
    certificate: Certificate, cause: KafkaError, host: str, trusted: str | None, today: datetime
) -> tuple[str, str]:
    """Return cause and fix for a rejected certificate; `trusted` is the file of the authorities."""
    shown = shown_certificate(certificate)
    if certificate.not_after < today:
        return f"the certificate has expired: {shown}", "renew the certificate on the broker"
    if certificate.not_before > today:
        since = f"{certificate.not_before:%Y-%m-%d %H:%M} UTC"
        return (
            f"the certificate is not valid before {since}: {shown}",
            "correct the clock of this host, or wait",
        )
    if isinstance(cause, TlsHostNameMismatch):
        return (
            f"the certificate is not for {host}: {shown}",
            "connect by a name in the certificate, or issue one with this name",
        )
    authorities = trusted or "the system's authorities"
    return (
        f"the certificate's authority is not trusted: {shown}; trusted are those of {authorities}",
        f"set ssl_cafile to the PEM file of the authority {certificate.issuer!r}",
    )


def shown_certificate(certificate: Certificate) -> str:
    """Return the names, dates and issuer of a certificate."""
    names = ", ".join(certificate.names) or certificate.subject
    return (
        f"certificate for {names}, from {certificate.not_before:%Y-%m-%d} to "
        f"{certificate.not_after:%Y-%m-%d}, issued by {certificate.issuer}"
    )


def shown_versions(versions: ApiVersions) -> str:
    """Return the number of a broker's APIs, its versions of Metadata, and its metadata.version."""
    low, high = versions.ranges.get(MetadataRequest.API_KEY, (0, 0))
    level = versions.finalized_features.get("metadata.version")
    more = "" if level is None else f", metadata.version {level}"
    return f"{len(versions.ranges)} APIs, Metadata {low} to {high}{more}"
