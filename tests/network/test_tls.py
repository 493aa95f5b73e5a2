"""TLS on loopback with certificates made for the test: agreement, bytes, and every way to disagree."""

from __future__ import annotations

import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from pykafka2.errors import (
    ConfigurationError,
    Disconnected,
    KafkaError,
    TlsCertificateRejected,
    TlsClientCertificateRefused,
    TlsError,
    TlsHostNameMismatch,
    TlsInterrupted,
)
from pykafka2.network.connection import Connection, ConnectionOptions
from pykafka2.network.tls import ReloadingTlsContext, TlsContext
from pykafka2.network.transport import READABLE, WRITABLE
from pykafka2.options import ClientOptions, OptionTable
from tests.network.sockets import End, Link, until
from tests.network.wire import Owner


class Certificates:
    """An authority, and files of what it issued."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.ca_file = str(folder / "ca.pem")
        self.authority.cert_pem.write_to_path(self.ca_file)
        self.broker_file = self._issue(folder / "broker.pem", "localhost", "127.0.0.1")
        self.client_file = self._issue(folder / "client.pem", "client@example.org")

    def _issue(self, file: Path, *names: str) -> str:
        self.authority.issue_cert(*names).private_key_and_cert_chain_pem.write_to_path(str(file))
        return str(file)

    def server(self, **options: Any) -> TlsContext:
        options = {"cert_file": self.broker_file, "verify": False, **options}
        return TlsContext(server_side=True, **options)

    def client(self, **options: Any) -> TlsContext:
        return TlsContext(**{"ca_file": self.ca_file, **options})


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def make_link() -> Iterator[Callable[..., Link]]:
    links: list[Link] = []

    def make(**options: Any) -> Link:
        links.append(Link(**options))
        return links[-1]

    yield make
    for link in links:
        link.close()


def both_fail(link: Link, **options: Any) -> tuple[KafkaError, KafkaError]:
    near, far = link.establish(**options)
    assert near.error is not None
    assert far.error is not None
    return near.error, far.error


def near_fails(link: Link, **options: Any) -> KafkaError:
    """The client's error; the server may have considered the handshake done (TLS 1.3)."""
    near, _ = link.establish(**options)
    assert near.error is not None
    return near.error


# ---------------------------------------------------------------------- agreement and bytes


@pytest.mark.parametrize("server_name", ["localhost", "127.0.0.1", None])
def test_handshake_succeeds_and_bytes_flow(
    certificates: Certificates, make_link: Callable[..., Link], server_name: str | None
) -> None:
    link = make_link(server=certificates.server())
    near, far = link.establish(client=certificates.client(), server_name=server_name)
    assert near.is_open
    assert far.is_open
    assert near.transport.write([b"one", memoryview(b"two")]) == 6
    assert far.read(6) == b"onetwo"
    far.transport.write([b"back"])
    assert near.read(4) == b"back"


def test_much_data_passes_whole_while_the_socket_is_full_again_and_again(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    link = make_link(server=certificates.server())
    near, far = link.establish(client=certificates.client())
    payload = bytes(range(256)) * 40_000
    parts = [payload[start : start + 100_003] for start in range(0, len(payload), 100_003)]
    unsent = memoryview(b"".join(parts))
    received = bytearray()
    buffer = memoryview(bytearray(1 << 20))
    refusals = 0

    def is_done() -> bool:
        nonlocal unsent, refusals
        if unsent:
            taken = near.transport.write([unsent[:500_000], unsent[500_000:]])
            refusals += not taken
            unsent = unsent[taken:]
        if refusals > 2 or not unsent:
            received.extend(buffer[: far.transport.read_into(buffer) or 0])
        return len(received) == len(payload)

    until(is_done)
    assert received == payload
    assert refusals > 2
    assert not unsent


def test_bytes_that_wait_decrypted_are_reported_as_readable(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    link = make_link(server=certificates.server())
    near, far = link.establish(client=certificates.client())
    link.selector.register(far.transport, READABLE, "far")
    near.transport.write([b"0123456789"])
    assert link.selector.select(10.0) == [("far", READABLE)]
    small = memoryview(bytearray(4))
    until(lambda: far.transport.read_into(small) == 4)
    # Nothing more comes from the socket: only the transport knows of the other six.
    assert link.selector.select(10.0) == [("far", READABLE)]
    link.selector.modify(far.transport, 0, "far")
    assert link.selector.select(0.01) == []
    link.selector.modify(far.transport, READABLE, "far")
    assert far.transport.read_into(memoryview(bytearray(100))) == 6
    assert link.selector.select(0.01) == []
    link.selector.unregister(far.transport)


def test_an_answer_costs_one_read_of_tls(certificates: Certificates, make_link: Callable[..., Link]) -> None:
    """Each read releases the interpreter: none is wasted on an empty socket."""
    reads = 0

    class Counted(ssl.SSLObject):
        def read(self, *wanted: Any) -> Any:
            nonlocal reads
            reads += 1
            return super().read(*wanted)

    client = certificates.client()
    client._context.sslobject_class = Counted
    link = make_link(server=certificates.server())
    near, far = link.establish(client=client)
    buffer = memoryview(bytearray(1 << 16))
    for answer in [b"the server's tickets come with this one"] + [b"an answer"] * 10:
        reads = 0
        far.transport.write([answer])
        until(lambda: near.transport.read_into(buffer) is not None)
        assert not near.transport.has_pending()  # type: ignore[attr-defined]
    assert reads == 1
    far.transport.write([bytes(40_000)])
    reads = 0
    near.read(40_000)
    assert reads <= 6, "three records, which may come in pieces"


def test_bytes_that_came_with_the_end_of_the_handshake_are_reported_as_readable(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    link = make_link(server=certificates.server())
    near, far = link.connect(client=certificates.client())
    until(lambda: near.establish() or far.transport.establish())
    assert near.is_open
    near.transport.write([b"hello"])
    until(far.establish)
    link.selector.register(far.transport, READABLE, "far")
    assert link.selector.select(10.0) == [("far", READABLE)]
    assert far.read(5) == b"hello"
    link.selector.unregister(far.transport)


def test_the_end_is_the_end_with_and_without_close_notify(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    link = make_link(server=certificates.server())
    buffer = memoryview(bytearray(10))
    for with_close_notify in (True, False):
        near, far = link.establish(client=certificates.client())
        near.transport.write([b"x"])
        assert far.read(1) == b"x"
        # A socket that is closed before it has read all (session tickets) resets the connection.
        assert near.transport.read_into(buffer) is None
        if with_close_notify:
            near.transport.close()
            near.transport.close()
        else:
            near.transport._transport.close()  # type: ignore[attr-defined]
        until(lambda far=far: far.transport.read_into(buffer) == 0)  # type: ignore[misc]


# ---------------------------------------------------------------------- disagreement


@pytest.mark.parametrize("reader", ["client", "server"])
def test_a_stream_that_breaks_is_a_connection_that_is_lost(
    certificates: Certificates, make_link: Callable[..., Link], reader: str
) -> None:
    """The client raises the same error as in Java, and retries: no other configuration would help."""
    link = make_link(server=certificates.server())
    near, far = link.establish(client=certificates.client(), server_name="localhost")
    ours, theirs = (near, far) if reader == "client" else (far, near)
    theirs.transport._transport.write([b"\x17\x03\x03\x00\x20" + bytes(32)])  # type: ignore[attr-defined]
    with pytest.raises(Disconnected, match="broken TLS stream"):
        ours.read(1)


def test_endless_tls_renegotiation_closes_the_connection(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    """OpenSSL answers each attempt with an alert of 31 bytes, which waits for the next write."""
    link = make_link(server=certificates.server())
    near, far = link.establish(client=certificates.client(), server_name="localhost")
    buffer = memoryview(bytearray(10))
    far.transport._outgoing.write(bytes(31 * 1_000))  # type: ignore[attr-defined]
    near.transport._transport.write([b"\x17\x03"])  # type: ignore[attr-defined]
    time.sleep(0.01)
    assert far.transport.read_into(buffer) is None
    far.transport._outgoing.write(bytes(31 * 100))  # type: ignore[attr-defined]
    near.transport._transport.write([b"\x03\x00"])  # type: ignore[attr-defined]
    with pytest.raises(TlsError, match="keeps requesting TLS renegotiation"):
        until(lambda: far.transport.read_into(buffer) is not None)


def test_unknown_certificate_authority_error_recommends_ssl_cafile(
    certificates: Certificates, make_link: Callable[..., Link], tmp_path: Path
) -> None:
    other = Certificates(tmp_path)
    link = make_link(server=certificates.server())
    error, server_error = both_fail(link, client=other.client(), server_name="localhost")
    assert isinstance(error, TlsCertificateRejected)
    assert not error.retriable
    assert f"localhost:{link.endpoint.port}" in str(error)
    assert "ssl_cafile" in str(error)
    assert isinstance(server_error, TlsError)


def test_the_machines_authorities_do_not_know_a_test_authority(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    link = make_link(server=certificates.server())
    error = near_fails(link, client=TlsContext(), server_name="localhost")
    assert "ssl_cafile" in str(error)


def test_a_wrong_host_name_is_refused_and_may_be_allowed(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    link = make_link(server=certificates.server())
    error = near_fails(link, client=certificates.client(), server_name="kafka.example.org")
    assert isinstance(error, TlsHostNameMismatch)
    assert "kafka.example.org" in str(error)
    assert "the certificate is for another host name" in str(error)
    near, _ = link.establish(
        client=certificates.client(check_hostname=False), server_name="kafka.example.org"
    )
    assert near.is_open


def test_a_wrong_ip_address_is_refused(certificates: Certificates, make_link: Callable[..., Link]) -> None:
    link = make_link(server=certificates.server())
    error = near_fails(link, client=certificates.client(), server_name="127.0.0.9")
    assert isinstance(error, TlsHostNameMismatch)
    assert "IP address" in str(error)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "responds in HTTP: this is the port of a web server, not of Kafka"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "speaks SSH: this is not a port of Kafka"),
        (b"\0\0\0\6\0\0\0\1\0\43", "does not speak TLS (its first bytes are b'\\x00\\x00\\x00\\x06"),
        (b"220 mail", "set security_protocol=PLAINTEXT or use the broker's TLS port"),
    ],
)
def test_tls_to_a_port_without_tls_is_named(
    certificates: Certificates, make_link: Callable[..., Link], response: bytes, text: str
) -> None:
    link = make_link()
    near, far = link.connect(client=certificates.client())
    far.establish()
    far.transport.write([response])
    until(near.establish)
    assert isinstance(near.error, TlsError)
    assert not near.error.retriable
    assert text in str(near.error)


def test_short_response_is_quoted_without_bytes_of_other_streams(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    """Data for TLS passes through a buffer that all streams of a thread share."""
    make_link(server=certificates.server()).establish(client=certificates.client(), server_name="localhost")
    near, far = make_link().connect(client=certificates.client())
    far.establish()
    far.transport.write([b"no"])
    until(lambda: near.establish() or near.transport._first_bytes)  # type: ignore[attr-defined]
    far.transport.write([b"thing but text"])
    until(near.establish)
    assert "(its first bytes are b'no')" in str(near.error)


@pytest.mark.parametrize("reset", [True, False])
def test_tls_to_a_plaintext_port_that_hangs_up_is_named_and_may_be_tried_again(
    certificates: Certificates, make_link: Callable[..., Link], reset: bool
) -> None:
    link = make_link()
    near, far = link.connect(client=certificates.client())
    far.establish()
    until(lambda: near.establish() or bool(far.transport.read_into(memoryview(bytearray(10)))))
    far.transport.close(reset=reset)
    until(near.establish)
    assert isinstance(near.error, TlsInterrupted)
    assert near.error.retriable
    assert "security_protocol=PLAINTEXT" in str(near.error)


def test_plaintext_to_a_tls_port_is_named_on_both_sides(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    """A whole client connection against a TLS port: the alert is recognised where a length is expected."""
    link = make_link(server=certificates.server())
    near, far = link.connect()
    until(near.establish)
    owner = Owner()
    connection = Connection(
        "node 1", 0.0, ConnectionOptions(), on_ready=owner.on_ready, on_closed=owner.on_closed
    )
    connection.pipe = near.transport  # type: ignore[assignment]
    connection.on_open(0.0)

    def is_answered() -> bool:
        far.establish()
        count = near.transport.read_into(connection.buffer())
        if count:
            connection.on_received(count, 0.0)
        return False

    with pytest.raises(TlsError, match="security_protocol=SSL"):
        until(is_answered)
    assert isinstance(far.error, TlsError)
    assert "speaks plaintext to this TLS port" in str(far.error)
    connection.close(0.0)


def speak_only(version: ssl.TLSVersion, certificates: Certificates, *, server_side: bool) -> TlsContext:
    """A context of the application's, which uses an old version."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    if server_side:
        context.load_cert_chain(certificates.broker_file)
    else:
        context.load_verify_locations(certificates.ca_file)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = version
    return TlsContext(context=context, server_side=server_side)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize("ours", ["client", "server"])
def test_tls_1_1_is_refused(certificates: Certificates, make_link: Callable[..., Link], ours: str) -> None:
    old = ssl.TLSVersion.TLSv1_1
    if ours == "client":
        link = make_link(server=speak_only(old, certificates, server_side=True))
        near, far = link.establish(client=certificates.client(), server_name="localhost")
    else:
        link = make_link(server=certificates.server())
        near, far = link.establish(
            client=speak_only(old, certificates, server_side=False), server_name="localhost"
        )
    assert isinstance(near.error, TlsError)
    assert isinstance(far.error, TlsError)
    if ours == "client":
        assert "the two sides share no TLS version" in str(near.error)
    else:
        assert "does not support TLS 1.2 or later" in str(far.error)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_tls_1_2_and_1_3_are_negotiated(
    certificates: Certificates, make_link: Callable[..., Link], version: str
) -> None:
    link = make_link(server=certificates.server())
    client = certificates.client()
    client.limit_versions([version])
    near, far = link.establish(client=client, server_name="localhost")
    near.transport.write([b"x"])
    assert far.read(1) == b"x"
    assert near.transport._tls.version() == version  # type: ignore[attr-defined]


def test_client_certificate_is_accepted_and_a_missing_one_rejected(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    link = make_link(server=certificates.server(ca_file=certificates.ca_file, verify=True))
    near, far = link.establish(
        client=certificates.client(cert_file=certificates.client_file), server_name="localhost"
    )
    near.transport.write([b"x"])
    assert far.read(1) == b"x"

    # In TLS 1.3 the client thinks that it is done before the server has looked for the certificate.
    near, far = link.establish(client=certificates.client(), server_name="localhost")
    assert isinstance(far.error, TlsError)
    buffer = memoryview(bytearray(10))
    with pytest.raises(TlsClientCertificateRefused, match="ssl_certfile"):
        until(lambda: near.transport.read_into(buffer) is not None)


def test_handshake_waits_for_readable_or_writable(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    link = make_link(server=certificates.server())
    near, far = link.connect(client=certificates.client())
    assert near.transport.interest() == WRITABLE
    until(lambda: near.establish() or near.transport.interest() == READABLE)
    assert not near.is_open
    assert far.transport.interest() == READABLE
    assert far.transport.has_pending() is False  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ca_file": "/no/such/ca.pem"}, "/no/such/ca.pem"),
        ({"cert_file": "/no/such/cert.pem"}, "/no/such/cert.pem"),
        ({"ciphers": "NO-SUCH-CIPHER"}, "NO-SUCH-CIPHER"),
        ({"ca_data": "not PEM"}, "ssl_"),
    ],
)
def test_options_that_cannot_be_used_are_named(options: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        TlsContext(**options)  # type: ignore[arg-type]


def test_a_context_is_made_from_a_clients_options(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    options = OptionTable(ClientOptions).parse(
        {
            "bootstrap.servers": "localhost:9093",
            "security.protocol": "SSL",
            "ssl_cafile": certificates.ca_file,
            "ssl_certfile": certificates.client_file,
            "ssl_enabled_protocols": ["TLSv1.2"],
        },
        {},
    )
    link = make_link(server=certificates.server(ca_file=certificates.ca_file, verify=True))
    near, far = link.establish(client=TlsContext.from_options(options), server_name="localhost")
    near.transport.write([b"x"])
    assert far.read(1) == b"x"
    assert near.transport._tls.version() == "TLSv1.2"  # type: ignore[attr-defined]
    error = near_fails(link, client=TlsContext.from_options(options), server_name="other.example.org")
    assert "another host name" in str(error)


def test_an_encrypted_key_needs_its_password(certificates: Certificates, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    issued = certificates.authority.issue_cert("localhost")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    key_file = tmp_path / "key.pem"
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    cert_file = tmp_path / "cert.pem"
    issued.cert_chain_pems[0].write_to_path(str(cert_file))
    files = {"cert_file": str(cert_file), "key_file": str(key_file)}
    TlsContext(server_side=True, verify=False, key_password="secret", **files)  # type: ignore[arg-type]
    for wrong in (None, "wrong"):
        with pytest.raises(ConfigurationError, match="password") as caught:
            TlsContext(server_side=True, verify=False, key_password=wrong, **files)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)


def client_options(**options: Any) -> ClientOptions:
    return OptionTable(ClientOptions).parse({"security_protocol": "SSL"}, options)


def test_certificates_as_pem_text_are_loaded(
    certificates: Certificates, make_link: Callable[..., Link]
) -> None:
    """PEM texts as Java has them in ssl.keystore.certificate.chain, ssl.keystore.key,
    ssl.truststore.certificates.
    """
    text = Path(certificates.client_file).read_text(encoding="utf-8")
    key, certificate, rest = text.partition("-----BEGIN CERTIFICATE")
    options = client_options(
        ssl_ca_pem=Path(certificates.ca_file).read_text(encoding="utf-8"),
        ssl_certificate_pem=certificate + rest,
        ssl_key_pem=key,
    )
    assert key.splitlines()[1] not in repr(options)
    link = make_link(server=certificates.server(verify=True, ca_file=certificates.ca_file))
    near, far = link.establish(client=TlsContext.from_options(options), server_name="localhost")
    assert near.is_open
    assert far.is_open


def test_invalid_certificate_text_is_rejected_without_quoting_it() -> None:
    with pytest.raises(ConfigurationError, match="the TLS options cannot be used") as refused:
        TlsContext.from_options(client_options(ssl_certificate_pem="hush", ssl_key_pem="hush"))
    assert "hush" not in str(refused.value)


def test_files_that_change_are_read_again_by_the_next_connection(
    certificates: Certificates,
    make_link: Callable[..., Link],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A service outlives its certificates: they are renewed on disk, half of them first."""
    other = Certificates(tmp_path)
    ca_file = tmp_path / "trusted.pem"
    ca_file.write_text(Path(other.ca_file).read_text(encoding="utf-8"), encoding="utf-8")
    tls = ReloadingTlsContext(client_options(ssl_cafile=str(ca_file)))
    assert isinstance(
        near_fails(make_link(server=certificates.server()), client=tls, server_name="localhost"), TlsError
    )
    ca_file.write_text("half a file", encoding="utf-8")
    near, _ = make_link(server=other.server()).establish(client=tls, server_name="localhost")
    assert near.is_open, "what was read before is used"
    assert "the previous ones stay in use" in caplog.text
    ca_file.write_text(Path(certificates.ca_file).read_text(encoding="utf-8"), encoding="utf-8")
    near, _ = make_link(server=certificates.server()).establish(client=tls, server_name="localhost")
    assert near.is_open


def test_a_certificate_that_cannot_be_read_again_leaves_the_first_in_use(
    certificates: Certificates, make_link: Callable[..., Link], tmp_path: Path
) -> None:
    """OpenSSL drops a key as soon as it has another certificate, and no handshake would succeed then."""
    file = tmp_path / "broker.pem"
    first = Path(certificates.broker_file).read_text(encoding="utf-8")
    file.write_text(first, encoding="utf-8")
    server = certificates.server(cert_file=str(file))
    key, _, _ = first.partition("-----BEGIN CERTIFICATE")
    _, mark, chain = Path(certificates.client_file).read_text(encoding="utf-8").partition("-----BEGIN CERT")
    file.write_text(key + mark + chain, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"cannot be used \(.*broker.pem\)"):
        server.reload()
    near, _ = make_link(server=server).establish(client=certificates.client(), server_name="localhost")
    assert near.is_open, near.error


def test_reload_needs_a_file_of_any_kind(certificates: Certificates, tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(Path(certificates.ca_file).read_bytes())
    pem = Path(certificates.broker_file).read_text(encoding="utf-8")
    server = TlsContext(cert_pem=pem, ca_file=str(ca_file), server_side=True)
    server.reload()
    ca_file.write_text("no certificate", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"cannot be used \(.*ca.pem\)"):
        server.reload()
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for without in (
        TlsContext(cert_pem=pem, verify=False, server_side=True),
        TlsContext(context=own, cert_file=certificates.broker_file, server_side=True),
    ):
        with pytest.raises(ConfigurationError, match="no certificate was loaded from a file"):
            without.reload()


@pytest.mark.parametrize(
    "context",
    ["PROTOCOL_TLS", object(), TlsContext, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)],
    ids=["text", "object", "class", "a server's"],
)
def test_a_context_of_ones_own_that_no_client_can_use_is_refused(context: object) -> None:
    """The first connection found out, and that ended the client's thread."""
    with pytest.raises(
        ConfigurationError, match=r"ssl_context=.* is not valid; use an ssl.SSLContext for clients"
    ):
        ReloadingTlsContext(client_options(ssl_context=context))


def test_verification_and_host_names_are_on_unless_switched_off(certificates: Certificates) -> None:
    context = certificates.client()._context
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    trusting = TlsContext(verify=False)._context
    assert not trusting.check_hostname
    assert trusting.verify_mode is ssl.CERT_NONE


def test_plaintext_never_loads_ssl() -> None:
    import subprocess

    code = (
        "import sys; from pykafka2.driver.thread_driver import ThreadRuntime; "
        "from pykafka2.driver.driver import Driver; import pykafka2.network.tls; "
        "runtime = ThreadRuntime(); driver = Driver(runtime, 'x'); driver.close(); runtime.close(); "
        "print('ssl' in sys.modules, 'asyncio' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False"]


def test_ends_are_used_by_one_thread_each(certificates: Certificates, make_link: Callable[..., Link]) -> None:
    """The two sides of a handshake on two threads, as a client and a broker in one process are."""
    link = make_link(server=certificates.server())
    near, far = link.connect(client=certificates.client())

    def serve(end: End) -> None:
        until(end.establish)
        end.transport.write([end.read(1000)])

    server = threading.Thread(target=serve, args=(far,))
    server.start()
    until(near.establish)
    near.transport.write([bytes(1000)])
    assert near.read(1000) == bytes(1000)
    server.join(30)
    assert far.is_open
