"""A certificate authority and a broker's certificate, as files."""

from __future__ import annotations

from pathlib import Path

import attrs
import trustme


@attrs.define(frozen=True)
class Certificates:
    """Paths of PEM files."""

    authority: str
    chain: str
    key: str


def certificates_in(folder: Path, host: str = "127.0.0.1") -> Certificates:
    """Issued again, for brokers whose address is `host`."""
    authority = trustme.CA()
    issued = authority.issue_cert(host)
    made = Certificates(str(folder / "authority.pem"), str(folder / "chain.pem"), str(folder / "key.pem"))
    authority.cert_pem.write_to_path(made.authority)
    issued.private_key_pem.write_to_path(made.key)
    for blob in issued.cert_chain_pems:
        blob.write_to_path(made.chain, append=True)
    return made
