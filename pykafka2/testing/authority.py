"""The throw-away authority of `KafkaCluster(tls=True)`: certificates of brokers and clients.

Keys are created for each cluster and stay in memory.  The files that clients and TLS contexts read exist
while the cluster runs, in a folder that only this user can read.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pykafka2.errors import ConfigurationError, IllegalState

ALWAYS = ("localhost", "127.0.0.1")
"""Host names for which broker certificates are valid, wherever brokers listen."""
NO_HOST = "client.invalid"
"""Alternative name of client certificates: Java rejects an empty list of them."""


class Authority:
    """Creates a certificate for these hosts.  Raises `ConfigurationError` if trustme is not installed."""

    def __init__(self, hosts: Iterable[str]) -> None:
        try:
            import trustme
        except ImportError as error:
            raise ConfigurationError(
                "tls=True needs trustme. Run pip install trustme, or set "
                "tls={'cert_file': ..., 'key_file': ...}."
            ) from error
        self._authority = trustme.CA()
        self._hosts = tuple(dict.fromkeys((*ALWAYS, *hosts)))
        self._files = {"ca.pem": self._authority.cert_pem.bytes()}
        self._folder: Path | None = None
        self._is_there = False
        self._renew()

    def _renew(self) -> None:
        issued = self._authority.issue_cert(*self._hosts)
        self._files["broker.pem"] = issued.private_key_and_cert_chain_pem.bytes()

    def renew(self) -> None:
        """Replace the brokers' certificate with a new one."""
        self._renew()
        self._write("broker.pem")

    def client_file(self, name: str) -> str:
        """Return the certificate of a client with this name, including its key; created on first use."""
        file = f"client-{hashlib.sha256(name.encode()).hexdigest()}.pem"
        if file not in self._files:
            issued = self._authority.issue_cert(
                NO_HOST, common_name=name, organization_name="pykafka2", organization_unit_name="clients"
            )
            self._files[file] = issued.private_key_and_cert_chain_pem.bytes()
            self._write(file)
        return self._file(file)

    def write(self) -> None:
        """Write the files.  Can be repeated."""
        if self._is_there:
            return
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="pykafka2-tls-"))
        else:
            self._folder.mkdir(mode=0o700)  # TLS contexts refer to this path
        self._is_there = True
        for name in self._files:
            self._write(name)

    def _write(self, name: str) -> None:
        if self._folder is not None and self._is_there:
            (self._folder / name).write_bytes(self._files[name])

    def remove(self) -> None:
        """Delete the files.  Can be repeated."""
        if self._folder is not None and self._is_there:
            self._is_there = False
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def ca_file(self) -> str:
        """Path of the authority's certificate, which clients trust."""
        return self._file("ca.pem")

    @property
    def cert_file(self) -> str:
        """Path of the brokers' certificate and key."""
        return self._file("broker.pem")

    def _file(self, name: str) -> str:
        if self._folder is None or not self._is_there:
            raise IllegalState("The files of tls=True exist only while the cluster runs. Start it first.")
        return str(self._folder / name)
