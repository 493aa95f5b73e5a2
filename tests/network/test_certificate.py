"""Names and dates of certificates, read from DER as `ssl` and OpenSSL read them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

import pytest

from pykafka2.errors import CorruptData
from pykafka2.network.certificate import Certificate, read_certificate

trustme = pytest.importorskip("trustme")


def der_of(*names: str, **options: object) -> bytes:
    issued = trustme.CA(organization_name="Example").issue_cert(*names, **options)
    return ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())


def test_names_and_dates_are_read() -> None:
    found = read_certificate(
        der_of(
            "localhost",
            "127.0.0.1",
            "::1",
            "*.example.com",
            common_name="broker",
            not_before=datetime(1999, 1, 2, 3, 4, 5, tzinfo=UTC),
            not_after=datetime(2055, 6, 7, 8, 9, 10, tzinfo=UTC),
        )
    )
    assert found.names == ("localhost", "127.0.0.1", "::1", "*.example.com")
    assert found.not_before == datetime(1999, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert found.not_after == datetime(2055, 6, 7, 8, 9, 10, tzinfo=UTC)
    assert "CN=broker" in found.subject
    assert found.issuer.startswith("O=Example")


@pytest.mark.parametrize("cut", [0, 1, 10, 200, 400])
def test_truncated_certificate_is_rejected(cut: int) -> None:
    with pytest.raises(CorruptData, match="not a certificate"):
        read_certificate(der_of("localhost")[:cut])


def test_any_damaged_byte_is_read_or_rejected() -> None:
    der = der_of("localhost")
    for place in range(len(der)):
        damaged = der[:place] + bytes([der[place] ^ 0xFF]) + der[place + 1 :]
        try:
            assert isinstance(read_certificate(damaged), Certificate)
        except CorruptData:
            continue
