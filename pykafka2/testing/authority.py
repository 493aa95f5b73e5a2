"""The throw-away authority of `KafkaCluster(tls=True)`: what brokers show, and what clients trust.

Keys are made anew for each cluster and stay in memory; the files that clients and TLS contexts read are there
while the cluster runs, in a folder that nobody else may read.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pykafka2.errors import ConfigurationError, IllegalState

ALWAYS = ("localhost", "127.0.0.1")
"""Names under which clients of a test reach its brokers, wherever these listen."""
NO_HOST = "client.invalid"
"""The alternative name of a client's certificate: Java reads none whose list of them is empty."""


class Authority:
    """Makes a certificate for these hosts.  Raises `ConfigurationError` where trustme is not installed."""

    def __init__(self, hosts: Iterable[str]) -> None:
        try:
            import trustme
        except ImportError as error:
            raise ConfigurationError(
                "tls=True needs trustme: pip install trustme, or give tls={'cert_file': ..., 'key_file': ...}"
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
        """Make another certificate for the brokers, in the place of the first."""
        self._renew()
        self._write("broker.pem")

    def client_file(self, name: str) -> str:
        """A certificate for a client of this name, its key included; made when it is first asked for."""
        file = f"client-{hashlib.sha256(name.encode()).hexdigest()}.pem"
        if file not in self._files:
            issued = self._authority.issue_cert(
                NO_HOST, common_name=name, organization_name="pykafka2", organization_unit_name="clients"
            )
            self._files[file] = issued.private_key_and_cert_chain_pem.bytes()
            self._write(file)
        return self._file(file)

    def write(self) -> None:
        """Have the files there.  Safe to repeat."""
        if self._is_there:
            return
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="pykafka2-tls-"))
        else:
            self._folder.mkdir(mode=0o700)  # TLS contexts know their files by this name
        self._is_there = True
        for name in self._files:
            self._write(name)

    def _write(self, name: str) -> None:
        if self._folder is not None and self._is_there:
            (self._folder / name).write_bytes(self._files[name])

    def remove(self) -> None:
        """Leave no file behind.  Safe to repeat."""
        if self._folder is not None and self._is_there:
            self._is_there = False
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def ca_file(self) -> str:
        """What clients trust."""
        return self._file("ca.pem")

    @property
    def cert_file(self) -> str:
        """What the brokers show, their key included."""
        return self._file("broker.pem")

    def _file(self, name: str) -> str:
        if self._folder is None or not self._is_there:
            raise IllegalState("the files of tls=True are there while the cluster runs")
        return str(self._folder / name)
