"""A TLS stream on a TCP transport, client or server side, non-blocking.

Belongs to the thread that turns its loop.  Made by tls.py; `ssl` works on memory only, the socket stays with
tcp.py.
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
from pykafka2.network.transport import READABLE, WRITABLE, Buffer, SocketTransport

if TYPE_CHECKING:
    import ssl

# One read from the socket; twice as much as soon as a read has filled it.  For what TLS is handed at once it
# keeps room as long as the connection lasts, so a server reads no more of a client than its reader wants.
SMALL_READ_BYTES = 1 << 15
LARGE_READ_BYTES = 1 << 20
# Of what TLS says by itself while it only reads, which leaves with the next write: refusals to renegotiate,
# some 1,000 of them.
MAX_ALERT_BYTES = 1 << 15
# Encrypted at once; a chunk counts as written when its last byte is with the kernel.
PLAINTEXT_CHUNK_BYTES = 1 << 18

TLS_RECORD_TYPES = frozenset(range(0x14, 0x19))
# A fatal alert "unexpected message".  OpenSSL tells a peer that does not speak TLS nothing; Kafka's brokers
# send this, by which a plaintext client recognises what it has run into.
ALERT_FOR_PLAINTEXT = b"\x15\x03\x03\x00\x02\x02\x0a"


_of_thread = threading.local()


def _scratch() -> memoryview:
    """Return the buffer for encrypted bytes between the socket and TLS: one for all streams of a thread."""
    scratch: memoryview | None = getattr(_of_thread, "scratch", None)
    if scratch is None:
        scratch = _of_thread.scratch = memoryview(bytearray(LARGE_READ_BYTES))
    return scratch


class TlsTransport:
    """A TLS stream on a TCP transport (see `transport.Transport`).

    `write` counts plaintext as taken only when its ciphertext has gone to the kernel, so the caller, who
    keeps what was not taken and asks for writability, needs to know nothing of TLS; it must offer the same
    bytes again, which it does anyway.
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
        self._is_agreed = False
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
        """True if the next read finds bytes although the socket may have none."""
        return not self._is_drained

    def interest(self) -> int:
        if not self._is_connected:
            return self._transport.interest()
        return READABLE | WRITABLE if self._ciphertext else READABLE

    def establish(self) -> bool:
        """Connect, then shake hands; True once both sides agree and all was sent.

        Raises `Disconnected`, or `TlsError` that says what to do.
        """
        if not self._is_connected:
            if not self._transport.establish():
                return False
            self._is_connected = True
        try:
            while not self._is_agreed and not self._is_ended:
                if not self._go_on_agreeing():
                    return False
            if self._is_agreed:
                return self._send_ciphertext()
        except Disconnected as error:
            raise TlsInterrupted(f"{self._words_for_ended()} ({error})") from error
        raise TlsInterrupted(self._words_for_ended())

    def read_into(self, buffer: memoryview) -> int | None:
        """Plaintext read into `buffer`, from at most one read of the socket."""
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
                    raise TlsError(f"{self.peer} asks to renegotiate again and again") from None
            except self._error as error:
                if self._is_ended or isinstance(error, self._eof_error):
                    return total
                raise self._kind_of(error)(self._words_for(error)) from error
            else:
                self._is_close_notified = not count
                total += count
                # Less than was wanted is all of a record, so that TLS itself keeps nothing.
                if not self._incoming.pending and count:
                    self._is_drained = count < wanted or not self._tls.pending()
        return total

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Encrypt and write, as far as the kernel takes it; the plaintext bytes that are wholly gone."""
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
                raise self._kind_of(error)(self._words_for(error)) from error
        return taken

    def close(self, *, reset: bool = False) -> None:
        """Send close_notify (as far as it fits) and end the stream.  Safe to repeat."""
        if not reset and self._is_agreed and not self._is_closed and self._transport.fileno() >= 0:
            self._is_closed = True
            try:
                self._tls.unwrap()
            except OSError:
                pass  # SSLWantRead: the other side's close_notify is not waited for
            self._send_alert()
        self._transport.close(reset=reset)

    def peer_subject(self) -> Any:
        """Return the subject of the peer's certificate in the form of `ssl`, or None without a verified
        certificate."""
        return (self._tls.getpeercert() or {}).get("subject")

    def _go_on_agreeing(self) -> bool:
        """One step of the handshake; False if the other side must speak first."""
        try:
            self._tls.do_handshake()
            self._is_agreed = True
            # The other side may have sent its first bytes together with the end of its handshake.
            self._is_drained = not self._incoming.pending
        except self._want_read:
            self._send_ciphertext()
            return self._receive_ciphertext(SMALL_READ_BYTES)
        except self._error as error:
            if self._server_side and self._is_plaintext:
                self._ciphertext = ALERT_FOR_PLAINTEXT
            self._send_alert()
            raise self._kind_of(error)(self._words_for(error)) from error
        return True

    def _receive_ciphertext(self, wanted: int) -> bool:
        """Move what the socket has into TLS; False if it has nothing now.  Sets `_is_ended` at the end."""
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
        """Hand encrypted bytes to the kernel; True if none are left."""
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
        # The other side learns why; if it cannot take it now, it learns from the end of the stream.
        try:
            self._send_ciphertext()
        except KafkaError:
            pass

    @property
    def _is_plaintext(self) -> bool:
        """True if what came first was no TLS record."""
        return bool(self._first_bytes) and self._first_bytes[0] not in TLS_RECORD_TYPES

    def _words_for_ended(self) -> str:
        if self._server_side:
            return f"{self.peer} ended the connection during the TLS handshake"
        return (
            f"{self.peer} ended the connection during the TLS handshake; if that port speaks plaintext, "
            "set security_protocol=PLAINTEXT or use the broker's TLS port; if it asks for a client "
            "certificate, set ssl_certfile and ssl_keyfile"
        )

    def _kind_of(self, error: Exception) -> type[TlsError | Disconnected]:
        """Which of our errors an error of `ssl` is; only one about a certificate has a `verify_code`.

        A stream that breaks once both sides have agreed is lost like any other connection; with TLS 1.3 the
        other side's word about a certificate comes then, too.
        """
        code = getattr(error, "verify_code", None)
        if code is not None:
            return TlsHostNameMismatch if code in HOST_NAME_CODES else TlsCertificateRejected
        reason = _reason(error)
        is_about_ours = "ALERT" in reason and any(mark in reason for mark, _ in CERTIFICATE_ALERTS)
        if is_about_ours and not self._server_side:
            return TlsClientCertificateRefused
        return Disconnected if self._is_agreed and "ALERT" not in reason else TlsError

    def _words_for(self, error: Exception) -> str:
        reason = _reason(error)
        if self._is_plaintext:
            if self._server_side:
                return f"{self.peer} speaks plaintext to this TLS port; it must set security_protocol=SSL"
            return (
                f"{self.peer} does not speak TLS (it answered {self._first_bytes!r}); "
                "set security_protocol=PLAINTEXT or use the broker's TLS port"
            )
        advices = _ADVICE if self._server_side else CERTIFICATE_ALERTS + _ADVICE
        advice = next((words for mark, words in advices if mark in reason), "")
        what = "broken TLS stream" if self._is_agreed else "TLS handshake failed"
        return f"{self.peer}: {what}: {reason}{'; ' if advice else ''}{advice}"


_ADVICE = (
    (
        "Hostname mismatch",
        "the certificate is for another name; connect by that name, or mend the certificate",
    ),
    ("IP address mismatch", "the certificate does not carry this IP address; connect by its host name"),
    (
        "unable to get local issuer",
        "its certificate authority is not trusted here; give it in ssl_cafile",
    ),
    ("self-signed certificate", "its certificate authority is not trusted here; give it in ssl_cafile"),
    ("self signed certificate", "its certificate authority is not trusted here; give it in ssl_cafile"),
    ("certificate has expired", "its certificate has expired; renew it on the broker"),
    ("UNSUPPORTED_PROTOCOL", "it speaks no TLS version from 1.2 on"),
    ("ALERT_PROTOCOL_VERSION", "the two sides share no TLS version (pykafka2 speaks 1.2 and later)"),
    ("unsupported protocol", "it speaks no TLS version from 1.2 on"),
    ("HANDSHAKE_FAILURE", "the two sides share no cipher, or it wants a client certificate (ssl_certfile)"),
)

WANTS_CERTIFICATE = "it wants a client certificate; set ssl_certfile and ssl_keyfile"
CERTIFICATE_REFUSED = (
    "it takes no certificate of this authority, or this one has expired or was revoked; check ssl_certfile, "
    "and what the broker trusts"
)
CERTIFICATE_ALERTS = (
    ("CERTIFICATE_REQUIRED", WANTS_CERTIFICATE),
    # Java's servers say so of a client that has shown none.
    ("BAD_CERTIFICATE", f"{WANTS_CERTIFICATE}, or others than these, if they are set"),
    ("UNKNOWN_CA", CERTIFICATE_REFUSED),
    ("CERTIFICATE_UNKNOWN", CERTIFICATE_REFUSED),
    ("CERTIFICATE_EXPIRED", CERTIFICATE_REFUSED),
    ("CERTIFICATE_REVOKED", CERTIFICATE_REFUSED),
    ("UNSUPPORTED_CERTIFICATE", CERTIFICATE_REFUSED),
)
"""Alerts of the other side about this side's certificate, with what a client is to do."""


HOST_NAME_CODES = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


def _reason(error: Exception) -> str:
    """OpenSSL's words without its source line."""
    message = getattr(error, "verify_message", None)
    if message:
        return f"the certificate was refused: {message}"
    return str(getattr(error, "reason", None) or error)


def _chunk(buffers: Sequence[Buffer], skip: int) -> bytes:
    """The next plaintext to encrypt: up to a chunk of the buffers, after the first `skip` bytes."""
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
