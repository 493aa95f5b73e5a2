"""The principal inside an Envelope, for forwarded requests.

Brokers write it for the controller (KIP-590).
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, String
from pykafka2.protocol.struct import Data


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """A principal's type and name, and whether a token stood for it."""

    type: String
    name: String
    token_authenticated: Bool
