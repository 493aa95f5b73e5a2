"""The throw-away authority of `KafkaCluster(tls=True)`: what brokers show, and what clients trust.

Keys are made anew for each cluster and stay in memory; the files that clients and TLS contexts read are there
while the cluster runs, in a folder that nobody else may read.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pykafka2.errors import ConfigurationError, IllegalState

ALWAYS = ("localhost", "127.0.0.1")
"""Names under which clients of a test reach its brokers, wherever these listen."""


class Authority:
    """Makes a certificate for these hosts.  Raises `ConfigurationError` where trustme is not installed."""

    def __init__(self, hosts: Iterable[str]) -> None:
        try:
            import trustme
        except ImportError as error:
            raise ConfigurationError(
                "tls=True needs trustme: pip install trustme, or give tls={'cert_file': ..., 'key_file': ...}"
            ) from error
        authority = trustme.CA()
        issued = authority.issue_cert(*dict.fromkeys((*ALWAYS, *hosts)))
        self._files = {
            "ca.pem": authority.cert_pem.bytes(),
            "broker.pem": issued.private_key_and_cert_chain_pem.bytes(),
        }
        self._folder: Path | None = None

    def write(self) -> None:
        """Have the files there.  Safe to repeat."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="pykafka2-tls-"))
            for name, data in self._files.items():
                (self._folder / name).write_bytes(data)

    def remove(self) -> None:
        """Leave no file behind.  Safe to repeat."""
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def ca_file(self) -> str:
        """What clients trust."""
        return self._file("ca.pem")

    @property
    def cert_file(self) -> str:
        """What the brokers show, their key included."""
        return self._file("broker.pem")

    def _file(self, name: str) -> str:
        if self._folder is None:
            raise IllegalState("the files of tls=True are there while the cluster runs")
        return str(self._folder / name)
