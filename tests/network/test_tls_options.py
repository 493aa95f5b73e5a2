"""TLS options on loopback: revocation, renewed files, versions, client certificates; two of each kind."""

from __future__ import annotations

import datetime
import os
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from pykafka2.errors import ConfigurationError, TlsCertificateRejected, TlsError
from pykafka2.network.tls import ReloadingTlsContext, TlsContext
from tests.network.sockets import Link
from tests.network.test_tls import Certificates, certificates, client_options, make_link, near_fails

__all__ = ["certificates", "make_link"]  # fixtures

DAY = datetime.timedelta(days=1)


def revoke(authority: trustme.CA, file: Path, *revoked: trustme.LeafCert) -> str:
    """A revocation list of the authority, in a file."""
    now = datetime.datetime.now(datetime.UTC)
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    builder = x509.CertificateRevocationListBuilder(issuer.subject, now - DAY, now + DAY)
    for leaf in revoked:
        serial = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number
        entry = x509.RevokedCertificateBuilder(serial, now - DAY).build()
        builder = builder.add_revoked_certificate(entry)
    key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    file.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))  # type: ignore[arg-type]
    return str(file)


def test_each_revoked_certificate_is_refused_and_others_are_not(
    certificates: Certificates, make_link: Callable[..., Link], tmp_path: Path
) -> None:
    leaves = [certificates.authority.issue_cert("localhost") for _ in range(3)]
    crl_file = revoke(certificates.authority, tmp_path / "crl.pem", *leaves[:2])
    client = TlsContext.from_options(client_options(ssl_cafile=certificates.ca_file, ssl_crlfile=crl_file))
    verdicts = []
    for number, leaf in enumerate(leaves):
        file = tmp_path / f"broker-{number}.pem"
        leaf.private_key_and_cert_chain_pem.write_to_path(str(file))
        server = certificates.server(cert_file=str(file))
        near, _ = make_link(server=server).establish(client=client, server_name="localhost")
        verdicts.append(None if near.is_open else str(near.error))
    assert verdicts[2] is None
    assert all("revoked" in str(verdict) for verdict in verdicts[:2])


def test_a_revocation_list_leaves_the_other_checks_on(
    certificates: Certificates, make_link: Callable[..., Link], tmp_path: Path
) -> None:
    plain = TlsContext(ca_file=certificates.ca_file)._context
    crl_file = revoke(certificates.authority, tmp_path / "crl.pem")
    checked = certificates.client(crl_file=crl_file)
    assert checked._context.verify_flags & plain.verify_flags == plain.verify_flags
    other = Certificates(tmp_path)
    error = near_fails(make_link(server=other.server()), client=checked, server_name="localhost")
    assert isinstance(error, TlsCertificateRejected)


@pytest.mark.parametrize("changed", ["ca", "cert", "key", "crl"])
def test_a_change_of_any_of_the_files_is_noticed_once(
    certificates: Certificates,
    make_link: Callable[..., Link],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    changed: str,
) -> None:
    leaf = certificates.authority.issue_cert("client@example.org")
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key", "crl")}
    certificates.authority.cert_pem.write_to_path(str(files["ca"]))
    leaf.cert_chain_pems[0].write_to_path(str(files["cert"]))
    leaf.private_key_pem.write_to_path(str(files["key"]))
    revoke(certificates.authority, files["crl"])
    tls = ReloadingTlsContext(
        client_options(
            ssl_cafile=str(files["ca"]),
            ssl_certfile=str(files["cert"]),
            ssl_keyfile=str(files["key"]),
            ssl_crlfile=str(files["crl"]),
        )
    )
    link = make_link(server=certificates.server(ca_file=certificates.ca_file, verify=True))

    def connect() -> int:
        near, _ = link.establish(client=tls, server_name="localhost")
        assert near.is_open, near.error
        return caplog.text.count("reloaded the TLS certificates")

    caplog.set_level("INFO")
    assert [connect(), connect()] == [0, 0]
    files[changed].write_bytes(files[changed].read_bytes() + b"\n")
    assert [connect(), connect()] == [1, 1]
    before = files[changed].stat()
    os.utime(files[changed], ns=(before.st_atime_ns, before.st_mtime_ns // 10**9 * 10**9 + 1))
    assert [connect(), connect()] == [2, 2]
    os.utime(files[changed], ns=(before.st_atime_ns, before.st_mtime_ns // 10**9 * 10**9 + 2))
    assert [connect(), connect()] == [3, 3], "of the same size and second"


def test_reload_reads_revocations_and_keeps_later_settings(
    certificates: Certificates, make_link: Callable[..., Link], tmp_path: Path
) -> None:
    leaf = certificates.authority.issue_cert("client@example.org")
    client_file = tmp_path / "client.pem"
    leaf.private_key_and_cert_chain_pem.write_to_path(client_file)
    crl_file = revoke(certificates.authority, tmp_path / "crl.pem")
    server = certificates.server(ca_file=certificates.ca_file, crl_file=crl_file, verify=True)
    server.accept_no_certificate()
    server.limit_versions(["TLSv1.2"])

    def refusal(cert_file: str | None) -> Exception | None:
        client = certificates.client(cert_file=cert_file)
        near, far = make_link(server=server).establish(client=client, server_name="localhost")
        if near.is_open:
            assert near.transport._tls.version() == "TLSv1.2"  # type: ignore[attr-defined]
        return far.error

    assert (refusal(str(client_file)), refusal(None)) == (None, None)
    revoke(certificates.authority, tmp_path / "crl.pem", leaf)
    server.reload()
    assert "revoked" in str(refusal(str(client_file)))
    assert (refusal(certificates.client_file), refusal(None)) == (None, None)


def test_a_server_can_take_clients_with_and_without_a_certificate(
    certificates: Certificates, make_link: Callable[..., Link], tmp_path: Path
) -> None:
    server = certificates.server(ca_file=certificates.ca_file, verify=True)
    server.accept_no_certificate()
    assert server.asks_for_certificate
    foreign = Certificates(tmp_path)
    for client_file, is_let_in in (
        (None, True),
        (certificates.client_file, True),
        (foreign.client_file, False),
    ):
        client = certificates.client(cert_file=client_file)
        _, far = make_link(server=server).establish(client=client, server_name="localhost")
        assert far.is_open is is_let_in
        assert isinstance(far.error, TlsError) is not is_let_in


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [
        (["TLSv1.3"], ["TLSv1.2"], None),
        (["TLSv1.2"], ["TLSv1.3"], None),
        (["TLSv1.3", "TLSv1.2"], ["TLSv1.2"], "TLSv1.2"),
        (["TLSv1.2", "TLSv1.3"], ["TLSv1.3"], "TLSv1.3"),
    ],
)
def test_only_enabled_tls_versions_are_negotiated(
    certificates: Certificates,
    make_link: Callable[..., Link],
    ours: list[str],
    theirs: list[str],
    agreed: str | None,
) -> None:
    server, client = certificates.server(), certificates.client()
    server.limit_versions(theirs)
    client.limit_versions(ours)
    near, _ = make_link(server=server).establish(client=client, server_name="localhost")
    version = near.transport._tls.version() if near.is_open else None  # type: ignore[attr-defined]
    assert version == agreed


def test_a_context_of_ones_own_keeps_its_versions(certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=certificates.ca_file)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    TlsContext.from_options(client_options(ssl_context=context, ssl_enabled_protocols=["TLSv1.2"]))
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3


def test_defaults_of_openssl_stay_with_renegotiation_off(certificates: Certificates) -> None:
    for tls, protocol in (
        (certificates.client(), ssl.PROTOCOL_TLS_CLIENT),
        (certificates.server(), ssl.PROTOCOL_TLS_SERVER),
    ):
        defaults = ssl.SSLContext(protocol).options
        assert tls._context.options & defaults == defaults
        assert tls._context.options & ssl.OP_NO_RENEGOTIATION


def test_temporary_files_of_certificate_text_are_removed(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    TlsContext(cert_pem=Path(certificates.client_file).read_text(encoding="utf-8"))
    with pytest.raises(ConfigurationError):
        TlsContext(cert_pem="none", key_pem="none")
    assert list(tmp_path.iterdir()) == []


def test_context_without_certificate_files_cannot_be_reloaded() -> None:
    with pytest.raises(ConfigurationError, match="no certificate was loaded from a file"):
        TlsContext(verify=False).reload()


@pytest.mark.parametrize(
    ("is_server", "words"),
    [(True, r"for servers, .*Purpose\.CLIENT_AUTH"), (False, r"for clients, .*Purpose\.SERVER_AUTH")],
)
def test_a_context_of_the_other_side_is_refused_with_the_right_one(is_server: bool, words: str) -> None:
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if is_server else ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(ConfigurationError, match=words):
        TlsContext(context=other, server_side=is_server)


def locked(leaf: trustme.LeafCert, password: bytes) -> str:
    """A certificate's key as PEM, encrypted."""
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    encryption = serialization.BestAvailableEncryption(password)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    ).decode()


def test_a_renewed_certificate_is_shown_after_each_reload(
    certificates: Certificates, make_link: Callable[..., Link], tmp_path: Path
) -> None:
    file, key_file = tmp_path / "broker.pem", tmp_path / "key.pem"
    leaves = [certificates.authority.issue_cert("localhost") for _ in range(3)]
    shown = []
    server: TlsContext | None = None
    for leaf in leaves:
        leaf.cert_chain_pems[0].write_to_path(str(file))
        key_file.write_text(locked(leaf, b"secret"), encoding="utf-8")
        if server is None:
            server = certificates.server(cert_file=str(file), key_file=str(key_file), key_password="secret")
        else:
            server.reload()
        near, _ = make_link(server=server).establish(client=certificates.client(), server_name="localhost")
        shown.append(near.transport._tls.getpeercert(binary_form=True))  # type: ignore[attr-defined]
    pems = [ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode()) for leaf in leaves]
    assert shown == pems


@pytest.mark.gate
def test_key_as_pem_text_requires_its_password(certificates: Certificates) -> None:
    leaf = certificates.authority.issue_cert("client@example.org")
    text = {"cert_pem": leaf.cert_chain_pems[0].bytes().decode(), "key_pem": locked(leaf, b"secret")}
    TlsContext(**text, key_password="secret")  # type: ignore[arg-type]
    for wrong in (None, "wrong"):
        with pytest.raises(ConfigurationError, match="password"):
            TlsContext(**text, key_password=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("named", [None, "ca_file", "ca_data"])
def test_the_machines_authorities_are_trusted_unless_others_are_named(
    certificates: Certificates,
    make_link: Callable[..., Link],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: str | None,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificates.ca_file)
    other = Certificates(tmp_path).authority.cert_pem.bytes().decode()
    values = {"ca_file": str(tmp_path / "ca.pem"), "ca_data": other}
    client = TlsContext(**({} if named is None else {named: values[named]}))  # type: ignore[arg-type]
    near, _ = make_link(server=certificates.server()).establish(client=client, server_name="localhost")
    assert near.is_open is (named is None)


NO_TERMINAL = """
import sys
from pathlib import Path
from pykafka2.errors import ConfigurationError
from pykafka2.network.tls import TlsContext

cert, key, plain = (Path(name) for name in sys.argv[1:])
shown = Path(plain.parent, "shown.pem")
shown.write_text(plain.read_text())
server = TlsContext(cert_file=str(cert), key_file=str(shown), server_side=True, verify=False)
shown.write_text(key.read_text())
for attempt in (
    lambda: TlsContext(cert_file=str(cert), key_file=str(key)),
    lambda: TlsContext(cert_pem=cert.read_text(), key_pem=key.read_text()),
    server.reload,
):
    try:
        attempt()
    except ConfigurationError:
        print("refused")
    else:
        print("read from stdin")
"""


@pytest.mark.gate
def test_missing_key_password_does_not_prompt_on_the_terminal(
    certificates: Certificates, tmp_path: Path
) -> None:
    """OpenSSL would: a service without one would read its password from standard input, or wait there."""
    leaf = certificates.authority.issue_cert("localhost")
    files = [tmp_path / f"{name}.pem" for name in ("cert", "key", "plain")]
    texts = [
        leaf.cert_chain_pems[0].bytes().decode(),
        locked(leaf, b"secret"),
        leaf.private_key_pem.bytes().decode(),
    ]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", NO_TERMINAL, *map(str, files)],
        input="secret\n" * 6,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        start_new_session=True,  # so that there is no terminal, and stdin is read instead
    )
    assert done.stdout.split("\n") == ["refused", "refused", "refused", ""]
    assert "pass phrase" not in done.stderr
