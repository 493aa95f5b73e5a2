"""A TLS stream on a TCP transport, client or server side, non-blocking.

Belongs to the thread that runs its loop. Created by tls.py; `ssl` works on memory only, tcp.py keeps the
socket.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykafka2.errors import (
    Disconnected,
    KafkaError,
    TlsCertificateRejected,
    TlsClientCertificateRefused,
    TlsError,
    TlsHostNameMismatch,
    TlsInterrupted,
)
from pykafka2.network.frames import foreign_protocol
from pykafka2.network.transport import READABLE, WRITABLE, Buffer, SocketTransport

if TYPE_CHECKING:
    import ssl

# One read from the socket; doubled when a read has filled it. TLS keeps a buffer of that size while the
# connection lasts, so a server reads no more from a client than its reader wants.
SMALL_READ_BYTES = 1 << 15
LARGE_READ_BYTES = 1 << 20
# Bytes that TLS produces by itself while it only reads and that leave with the next write: about 1,000
# rejections of renegotiation.
MAX_ALERT_BYTES = 1 << 15
# Encrypted at once; a chunk counts as written when the kernel has its last byte.
PLAINTEXT_CHUNK_BYTES = 1 << 18

TLS_RECORD_TYPES = frozenset(range(0x14, 0x19))
# A fatal alert "unexpected message". OpenSSL sends nothing to a peer that does not speak TLS; Kafka's brokers
# send this, so that a plaintext client can recognise a TLS port.
ALERT_FOR_PLAINTEXT = b"\x15\x03\x03\x00\x02\x02\x0a"


_of_thread = threading.local()


def _scratch() -> memoryview:
    """Return the buffer for encrypted bytes between socket and TLS, shared by a thread's streams."""
    scratch: memoryview | None = getattr(_of_thread, "scratch", None)
    if scratch is None:
        scratch = _of_thread.scratch = memoryview(bytearray(LARGE_READ_BYTES))
    return scratch


class TlsTransport:
    """A TLS stream on a TCP transport (see `transport.Transport`).

    `write` counts plaintext as written only when the kernel has its ciphertext. So callers handle it like any
    transport: they keep the rest, wait until it is writable, and write the same bytes again.
    """

    def __init__(
        self,
        transport: SocketTransport,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_name: str | None,
    ) -> None:
        import ssl

        self.peer = transport.peer
        self._transport = transport
        self._server_side = server_side
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        try:
            self._tls = context.wrap_bio(
                self._incoming, self._outgoing, server_side=server_side, server_hostname=server_name
            )
        except ValueError as error:
            raise TlsError(f"{self.peer}: {error}") from error
        self._want_read: type[Exception] = ssl.SSLWantReadError
        self._error: type[OSError] = ssl.SSLError
        self._eof_error: type[Exception] = ssl.SSLEOFError
        self._is_connected = False
        self._is_established = False
        self._is_ended = False
        self._is_close_notified = False
        self._is_closed = False
        self._is_drained = True
        self._read_bytes = SMALL_READ_BYTES
        self._first_bytes = b""
        self._ciphertext: bytes | memoryview = b""
        self._encrypted = 0

    def fileno(self) -> int:
        return self._transport.fileno()

    def has_pending(self) -> bool:
        """Return True if the next read returns bytes although the socket can have none."""
        return not self._is_drained

    def interest(self) -> int:
        if not self._is_connected:
            return self._transport.interest()
        return READABLE | WRITABLE if self._ciphertext else READABLE

    def establish(self) -> bool:
        """Connect, then run the TLS handshake; return True once it is complete and sent.

        Raise Disconnected, or a TlsError that says what to do.
        """
        if not self._is_connected:
            if not self._transport.establish():
                return False
            self._is_connected = True
        try:
            while not self._is_established and not self._is_ended:
                if not self._shake_hands():
                    return False
            if self._is_established:
                return self._send_ciphertext()
        except Disconnected as error:
            raise TlsInterrupted(f"{self._interrupted_message()} ({error})") from error
        raise TlsInterrupted(self._interrupted_message())

    def read_into(self, buffer: memoryview) -> int | None:
        """Read plaintext into `buffer`, from at most one read of the socket; return its size."""
        total = 0
        room = len(buffer)
        has_received = False
        while total < room and not self._is_close_notified:
            if self._is_drained:
                if self._is_ended:
                    return total
                if total or has_received or not self._receive_ciphertext(room):
                    return total or None
                has_received = True
                self._is_drained = False
            wanted = room - total
            try:
                count: int = self._tls.read(wanted, buffer[total:])  # type: ignore[assignment]
            except self._want_read:
                self._is_drained = True
                if self._outgoing.pending > MAX_ALERT_BYTES:
                    raise TlsError(f"{self.peer} keeps requesting TLS renegotiation") from None
            except self._error as error:
                if self._is_ended or isinstance(error, self._eof_error):
                    return total
                raise self._kind_of(error)(self._error_message(error)) from error
            else:
                self._is_close_notified = not count
                total += count
                # A read that returns less than wanted has emptied the record, so TLS holds nothing more.
                if not self._incoming.pending and count:
                    self._is_drained = count < wanted or not self._tls.pending()
        return total

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Encrypt and write as far as the kernel accepts; return the plaintext bytes fully written."""
        taken = 0
        while self._send_ciphertext():
            taken += self._encrypted
            self._encrypted = 0
            chunk = _chunk(buffers, taken)
            if not chunk:
                break
            try:
                self._encrypted = self._tls.write(chunk)
            except self._error as error:
                raise self._kind_of(error)(self._error_message(error)) from error
        return taken

    def close(self, *, reset: bool = False) -> None:
        """Send close_notify (if the kernel accepts it) and close the stream. Idempotent."""
        if not reset and self._is_established and not self._is_closed and self._transport.fileno() >= 0:
            self._is_closed = True
            try:
                self._tls.unwrap()
            except OSError:
                pass  # SSLWantRead: do not wait for the peer's close_notify
            self._send_alert()
        self._transport.close(reset=reset)

    def peer_subject(self) -> Any:
        """Return the subject of the peer's certificate as `ssl` formats it, or None if unverified."""
        return (self._tls.getpeercert() or {}).get("subject")

    def peer_certificate(self) -> bytes | None:
        """Return the peer's certificate as DER, verified or not; None before the handshake."""
        return self._tls.getpeercert(binary_form=True)

    def _shake_hands(self) -> bool:
        """Run one step of the handshake; return False if the peer must send first."""
        try:
            self._tls.do_handshake()
            self._is_established = True
            # The peer can send its first bytes together with the end of its handshake.
            self._is_drained = not self._incoming.pending
        except self._want_read:
            self._send_ciphertext()
            return self._receive_ciphertext(SMALL_READ_BYTES)
        except self._error as error:
            if self._server_side and self._is_plaintext:
                self._ciphertext = ALERT_FOR_PLAINTEXT
            self._send_alert()
            raise self._kind_of(error)(self._error_message(error)) from error
        return True

    def _receive_ciphertext(self, wanted: int) -> bool:
        """Move bytes from the socket into TLS; return False if there are none. Set `_is_ended` at EOF."""
        most = min(self._read_bytes, max(wanted, SMALL_READ_BYTES)) if self._server_side else self._read_bytes
        received = _scratch()[:most]
        count = self._transport.read_into(received)
        if count is None:
            return False
        if count == 0:
            self._is_ended = True
            self._incoming.write_eof()
            return True
        if not self._first_bytes:
            self._first_bytes = bytes(received[: min(count, 5)])
        self._incoming.write(received[:count])
        if count == self._read_bytes < LARGE_READ_BYTES:
            self._read_bytes = 2 * count
        return True

    def _send_ciphertext(self) -> bool:
        """Write encrypted bytes to the kernel; return True if none are left."""
        while True:
            ciphertext = self._ciphertext
            if not ciphertext:
                if not self._outgoing.pending:
                    return True
                ciphertext = self._outgoing.read()
            taken = self._transport.write((ciphertext,))
            if taken == len(ciphertext):
                self._ciphertext = b""
            else:
                self._ciphertext = memoryview(ciphertext)[taken:]
                if not taken:
                    return False

    def _send_alert(self) -> None:
        # The alert gives the peer the reason; if it cannot be written now, closing the stream must do.
        try:
            self._send_ciphertext()
        except KafkaError:
            pass

    @property
    def _is_plaintext(self) -> bool:
        """True if the peer's first bytes are no TLS record."""
        return bool(self._first_bytes) and self._first_bytes[0] not in TLS_RECORD_TYPES

    def _interrupted_message(self) -> str:
        if self._server_side:
            return f"{self.peer} closed the connection during the TLS handshake"
        return (
            f"{self.peer} closed the connection during the TLS handshake. If the port is plaintext, set "
            "security_protocol=PLAINTEXT or use the broker's TLS port. If it requires a client certificate, "
            "set ssl_certfile and ssl_keyfile"
        )

    def _kind_of(self, error: Exception) -> type[TlsError | Disconnected]:
        """Return the error class for an error of `ssl`; only certificate errors have a `verify_code`.

        After the handshake a broken stream is a lost connection like any other, except for alerts: with TLS
        1.3 the peer rejects a certificate only then.
        """
        code = getattr(error, "verify_code", None)
        if code is not None:
            return TlsHostNameMismatch if code in HOST_NAME_CODES else TlsCertificateRejected
        reason = _reason(error)
        is_about_ours = "ALERT" in reason and any(mark in reason for mark, _ in CERTIFICATE_ALERTS)
        if is_about_ours and not self._server_side:
            return TlsClientCertificateRefused
        return Disconnected if self._is_established and "ALERT" not in reason else TlsError

    def _error_message(self, error: Exception) -> str:
        reason = _reason(error)
        if self._is_plaintext:
            if self._server_side:
                return f"{self.peer} speaks plaintext to this TLS port; it must set security_protocol=SSL"
            return foreign_protocol(self.peer, self._first_bytes) or (
                f"{self.peer} does not speak TLS (its first bytes are {self._first_bytes!r}); "
                "set security_protocol=PLAINTEXT or use the broker's TLS port"
            )
        advices = _ADVICE if self._server_side else CERTIFICATE_ALERTS + _ADVICE
        advice = next((text for mark, text in advices if mark in reason), "")
        what = "broken TLS stream" if self._is_established else "TLS handshake failed"
        return f"{self.peer}: {what}: {reason}{'; ' if advice else ''}{advice}"


_ADVICE = (
    (
        "Hostname mismatch",
        "the certificate is for another host name; connect by that name, or replace the certificate",
    ),
    ("IP address mismatch", "the certificate does not list this IP address; connect by its host name"),
    (
        "unable to get local issuer",
        "its certificate authority is not trusted; set ssl_cafile",
    ),
    ("self-signed certificate", "its certificate authority is not trusted; set ssl_cafile"),
    ("self signed certificate", "its certificate authority is not trusted; set ssl_cafile"),
    ("certificate has expired", "its certificate has expired; renew it on the broker"),
    ("UNSUPPORTED_PROTOCOL", "it does not support TLS 1.2 or later"),
    ("ALERT_PROTOCOL_VERSION", "the two sides share no TLS version (pykafka2 supports 1.2 and later)"),
    ("unsupported protocol", "it does not support TLS 1.2 or later"),
    (
        "HANDSHAKE_FAILURE",
        "the two sides share no cipher, or it requires a client certificate (ssl_certfile)",
    ),
)

NEEDS_CERTIFICATE = "it requires a client certificate; set ssl_certfile and ssl_keyfile"
CERTIFICATE_REJECTED = (
    "it does not trust this certificate's authority, or the certificate has expired or was revoked; check "
    "ssl_certfile and the broker's truststore"
)
CERTIFICATE_ALERTS = (
    ("CERTIFICATE_REQUIRED", NEEDS_CERTIFICATE),
    # Java's servers send this to a client without a certificate.
    ("BAD_CERTIFICATE", f"{NEEDS_CERTIFICATE}, or replace them if they are set"),
    ("UNKNOWN_CA", CERTIFICATE_REJECTED),
    ("CERTIFICATE_UNKNOWN", CERTIFICATE_REJECTED),
    ("CERTIFICATE_EXPIRED", CERTIFICATE_REJECTED),
    ("CERTIFICATE_REVOKED", CERTIFICATE_REJECTED),
    ("UNSUPPORTED_CERTIFICATE", CERTIFICATE_REJECTED),
)
"""The peer's alerts about this side's certificate, with what to do."""


HOST_NAME_CODES = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


def _reason(error: Exception) -> str:
    """Return OpenSSL's message without its source line."""
    message = getattr(error, "verify_message", None)
    if message:
        return f"the certificate was rejected: {message}"
    return str(getattr(error, "reason", None) or error)


def _chunk(buffers: Sequence[Buffer], skip: int) -> bytes:
    """Return the next plaintext to encrypt: up to a chunk of the buffers, after the first `skip` bytes."""
    parts: list[memoryview] = []
    room = PLAINTEXT_CHUNK_BYTES
    for buffer in buffers:
        size = len(buffer)
        if skip >= size:
            skip -= size
            continue
        part = memoryview(buffer)[skip : skip + room]
        skip = 0
        parts.append(part)
        room -= len(part)
        if not room:
            break
    return b"".join(parts)
