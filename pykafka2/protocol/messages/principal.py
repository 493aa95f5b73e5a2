"""The principal inside an Envelope, for forwarded requests.

Brokers send it to the controller (KIP-590).
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bool, String
from pykafka2.protocol.struct import Data


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """A principal's type and name, and whether a delegation token authenticated it."""

    type: String
    name: String
    token_authenticated: Bool
