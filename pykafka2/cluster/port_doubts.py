"""Whether a bootstrap address is the kind of port that it is taken for, by how connections to it end.

Owned by its link (link.py), on the driver's thread; what is asked to find out is network/probing.py's.  An
end without a word may be a broker that is just restarted, and is tried again; a port of another kind is said
at once, for only another configuration helps.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2.errors import Disconnected, KafkaError, TlsInterrupted
from pykafka2.network.handshake import Agreement
from pykafka2.network.probing import VERDICTS, ask_for_mechanisms, ask_without_tls
from pykafka2.network.script import Script

SUSPICIOUS_ENDS = 2
"""So many connections in a row that end before anything is answered are no restart."""


@attrs.define
class Probe:
    """What is asked by a connection that is made only to find out why the one before it ended."""

    because: KafkaError
    """By what that one ended."""
    script: Callable[[str], Script[Agreement]]
    """In place of the handshake; takes the broker's name."""
    is_without_tls: bool = False


class PortDoubts:
    """The doubts about one address.  `probe`, if there is one, is what its next connection asks."""

    def __init__(self, *, has_sasl: bool) -> None:
        self.probe: Probe | None = None
        self._has_sasl = has_sasl
        self._unanswered_ends = 0
        self._has_told = False

    def heard(self, error: KafkaError, *, was_unanswered: bool | None) -> KafkaError:
        """A connection has ended by `error`; the error to go on with.

        `was_unanswered`: after the handshake, whether it ended before any answer; None before that.
        """
        probe, self.probe = self.probe, None
        if probe is not None:
            if isinstance(error, VERDICTS):
                self.probe = probe  # it is told again, for as long as it is so
                return error
            return probe.because  # whatever else a probe met says nothing of the port
        if isinstance(error, TlsInterrupted):
            self.probe = Probe(error, ask_without_tls, is_without_tls=True)
        elif was_unanswered is not None and not self._has_sasl:
            self._unanswered_ends = self._unanswered_ends + 1 if was_unanswered else 0
            if self._unanswered_ends >= SUSPICIOUS_ENDS and type(error) is Disconnected:
                self.probe = Probe(error, ask_for_mechanisms)
        return error

    def is_news(self, error: KafkaError) -> bool:
        """Whether it is the first verdict, which is worth a line in the log whatever was said before."""
        is_first = isinstance(error, VERDICTS) and not self._has_told
        self._has_told = self._has_told or is_first
        return is_first
