"""The certificates and trust of one side of TLS: from options to a context and to TLS transports.

A `TlsContext` is created before any thread uses it; several threads can share it. It imports `ssl` when it is
created, so plaintext clients do not pay for that. tls_transport.py has the stream.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pykafka2.errors import ConfigurationError
from pykafka2.logs import ClientLogger
from pykafka2.network.tls_transport import TlsTransport
from pykafka2.network.transport import SocketTransport

if TYPE_CHECKING:
    import ssl

    from pykafka2.options import ClientOptions


class ReloadingTlsContext:
    """A client's TLS context that reloads its files when certificates are renewed on disk.

    Each new connection checks the files' times and reads all files again if one has changed. If they cannot
    be used (for example half written), that is logged and the previous ones stay in use. Belongs to the
    driver's thread.
    """

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._log = ClientLogger(__name__, options.client_id)
        named = (options.ssl_cafile, options.ssl_certfile, options.ssl_keyfile, options.ssl_crlfile)
        self._files = [file for file in named if file is not None and options.ssl_context is None]
        self._seen = self._times()
        self._context = TlsContext.from_options(options)

    def wrap_connecting(self, transport: SocketTransport, server_name: str) -> TlsTransport:
        """Return the client's side of TLS over a connecting transport."""
        times = self._times()
        if times != self._seen:
            try:
                self._context = TlsContext.from_options(self._options)
                self._log.info("reloaded the TLS certificates because their files have changed")
            except ConfigurationError as error:
                self._log.warning(
                    "cannot reload the TLS certificates; the previous ones stay in use: %s", error
                )
            self._seen = times
        return self._context.wrap_connecting(transport, server_name)

    def wrap_accepted(self, transport: SocketTransport) -> TlsTransport:
        """Return the server's side of TLS; unused, as clients accept no connections."""
        return self._context.wrap_accepted(transport)

    def _times(self) -> list[tuple[int, int] | None]:
        return [_time_and_size(file) for file in self._files]


def _time_and_size(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None  # the file is being replaced
    return found.st_mtime_ns, found.st_size


class TlsContext:
    """The certificates and trust of one side of a TLS connection.

    Verifies the peer's certificate and host name unless disabled; TLS 1.2 is the oldest version. `context`
    (an `ssl.SSLContext`) replaces everything except `server_side`, verification included. Raises
    ConfigurationError with the name of a file that cannot be used, or for a `context` of the wrong type or
    side.
    """

    def __init__(
        self,
        *,
        ca_file: str | None = None,
        ca_data: str | bytes | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        key_password: str | None = None,
        cert_pem: str | None = None,
        key_pem: str | None = None,
        crl_file: str | None = None,
        ciphers: str | None = None,
        verify: bool = True,
        check_hostname: bool = True,
        server_side: bool = False,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.server_side = server_side
        self._files = [str(file) for file in (ca_file, crl_file, cert_file, key_file) if file is not None]
        if context is not None:
            self._files = []
            _check_context(context, server_side)
            self._context = context
            return

        def load() -> ssl.SSLContext:
            made = _new_context(server_side, verify, check_hostname and not server_side)
            if ca_file is not None or ca_data is not None:
                made.load_verify_locations(cafile=ca_file, cadata=ca_data)
            elif verify:
                made.load_default_certs(_purpose(server_side))
            if crl_file is not None:
                _check_revocation(made, crl_file)
            # Without a password OpenSSL would prompt for one on the terminal.
            if cert_file is not None:
                made.load_cert_chain(cert_file, key_file, password=key_password or "")
            elif cert_pem is not None:
                _load_pem(made, cert_pem, key_pem, key_password or "")
            if ciphers is not None:
                made.set_ciphers(ciphers)
            return made

        named = [*self._files, *([] if ciphers is None else [ciphers])]
        self._load = partial(_loaded, load, ", ".join(named) or "PEM text")
        self._context = self._load()

    @classmethod
    def from_options(cls, options: ClientOptions) -> TlsContext:
        """Return a client's context for its ssl_* options. Raise ConfigurationError."""
        tls = cls(
            ca_file=options.ssl_cafile,
            ca_data=options.ssl_ca_pem,
            cert_file=options.ssl_certfile,
            key_file=options.ssl_keyfile,
            key_password=options.ssl_password,
            cert_pem=options.ssl_certificate_pem,
            key_pem=options.ssl_key_pem,
            crl_file=options.ssl_crlfile,
            ciphers=options.ssl_ciphers,
            check_hostname=options.ssl_check_hostname,
            context=options.ssl_context,
        )
        if options.ssl_context is None:
            tls.limit_versions(options.ssl_enabled_protocols)
        return tls

    @property
    def asks_for_certificate(self) -> bool:
        """Whether the peer is requested to send a certificate."""
        return bool(self._context.verify_mode)

    def accept_no_certificate(self) -> None:
        """On a server: verify a client certificate if one is sent, and accept clients without one."""
        import ssl

        self._context.verify_mode = ssl.CERT_OPTIONAL

    def reload(self) -> None:
        """Reload all files for later connections: certificate, key, authorities and revocations.

        Raise ConfigurationError if the files cannot be used or there are none; then the previous ones stay
        in use.
        """
        if not self._files:
            raise ConfigurationError("no certificate was loaded from a file, so none can be reloaded")
        before, fresh = self._context, self._load()
        fresh.verify_mode = before.verify_mode
        fresh.minimum_version, fresh.maximum_version = before.minimum_version, before.maximum_version
        self._context = fresh

    def limit_versions(self, names: Sequence[str]) -> None:
        """Allow only these of "TLSv1.2" and "TLSv1.3"."""
        import ssl

        versions = [ssl.TLSVersion[name.replace(".", "_")] for name in names]
        self._context.minimum_version = min(versions)
        self._context.maximum_version = max(versions)

    def wrap_connecting(self, transport: SocketTransport, server_name: str) -> TlsTransport:
        """Return the client's side of TLS over a connecting transport."""
        return TlsTransport(transport, self._context, server_side=False, server_name=server_name)

    def wrap_accepted(self, transport: SocketTransport) -> TlsTransport:
        """Return the server's side of TLS over an accepted transport."""
        return TlsTransport(transport, self._context, server_side=True, server_name=None)


def _check_context(context: object, server_side: bool) -> None:
    """Raise ConfigurationError now; the first connection would fail on the client's thread."""
    import ssl

    other = ssl.PROTOCOL_TLS_CLIENT if server_side else ssl.PROTOCOL_TLS_SERVER
    if not isinstance(context, ssl.SSLContext) or context.protocol is other:
        side = "servers" if server_side else "clients"
        raise ConfigurationError(
            f"ssl_context={context!r} is not valid; use an ssl.SSLContext for {side}, such as "
            f"ssl.create_default_context(ssl.Purpose.{_purpose(server_side).name})"
        )


def _loaded(load: Callable[[], ssl.SSLContext], named: str) -> ssl.SSLContext:
    """Return a context with its files. Raise ConfigurationError that names them."""
    try:
        return load()
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"the TLS options cannot be used ({named}): {error}; "
            "check the ssl_* options, that the files are PEM, and the key's password"
        ) from error


def _new_context(server_side: bool, verify: bool, check_hostname: bool) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # As in Kafka. Older versions of OpenSSL let the peer request one handshake after another.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.check_hostname = check_hostname and verify
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    return context


def _load_pem(context: ssl.SSLContext, cert_pem: str, key_pem: str | None, password: str) -> None:
    """Load a PEM chain by way of a temporary file, as `ssl` needs one; only this user can read it."""
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(cert_pem + "\n" + (key_pem or ""))
        context.load_cert_chain(path, password=password)
    finally:
        os.unlink(path)


def _purpose(server_side: bool) -> ssl.Purpose:
    import ssl

    return ssl.Purpose.CLIENT_AUTH if server_side else ssl.Purpose.SERVER_AUTH


def _check_revocation(context: ssl.SSLContext, crl_file: str) -> None:
    import ssl

    context.load_verify_locations(crl_file)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
