"""Controls of authentication: users, mechanisms, sessions, certificates.

A mixin of `Controls` (controls/controls.py).  Any thread except the cluster's own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.broker.controller import Controller
from pykafka2.broker.controller.metadata.records import scram_records
from pykafka2.broker.security.authentication import MECHANISMS, Authentication, Credentials
from pykafka2.broker.security.scram import KINDS, scram_credentials
from pykafka2.errors import ConfigurationError, ResourceNotFound
from pykafka2.protocol.messages.metadata_records import RemoveUserScramCredentialRecord
from pykafka2.testing.listeners import check_mechanisms
from pykafka2.testing.running import Running

PASSWORD_MECHANISMS = ("PLAIN", *KINDS)


class SecurityControls:
    """`controls.add_user("ann", "ann-secret")`, `controls.expire_sessions()`."""

    _running: Running

    def add_user(self, user: str, password: str, mechanisms: Sequence[str] | None = None) -> None:
        """Add a user with this password, for PLAIN and both SCRAM mechanisms or only these; replace the
        password of an existing user.  Open sessions continue.
        """
        if not user or not isinstance(user, str) or not password or not isinstance(password, str):
            raise ConfigurationError("A user needs a name and a password, both text.")
        wanted = PASSWORD_MECHANISMS if mechanisms is None else mechanisms
        check_mechanisms("mechanisms", wanted)
        if "OAUTHBEARER" in wanted:
            raise ConfigurationError("The mechanism OAUTHBEARER has no passwords. Use KafkaCluster.token.")
        entropy = self._running.runtime.entropy
        with self._running.lock:
            self._touched()
        made = scram_credentials(password, [one for one in wanted if one in KINDS], entropy)
        if made:
            self._running.controllers.run(
                f"SCRAM credentials of {user}",
                lambda controller: controller.write(scram_records(user, made)),
            )
        if "PLAIN" in wanted:
            with self._running.lock:
                self._running.shared.credentials.passwords.set(user, password)

    def remove_user(self, user: str) -> None:
        """Remove a user's passwords for all mechanisms.  Open sessions continue (see `expire_sessions`).
        Raise `ResourceNotFound` for an unknown user.
        """
        if not isinstance(user, str):
            raise ConfigurationError(f"user={user!r}: use the name of a user")
        with self._running.lock:
            was_known = self._touched().passwords.remove(user)
            has_scram = user in self._running.controllers.image.scram_users
        if not was_known and not has_scram:
            raise ResourceNotFound(f"User {user!r} does not exist.")
        if has_scram:

            def remove(controller: Controller) -> None:
                known = controller.state.scram_users.get(user, {})
                controller.write(
                    [RemoveUserScramCredentialRecord(name=user, mechanism=kind) for kind in known]
                )

            self._running.controllers.run(f"remove SCRAM credentials of {user}", remove)

    def refuse_mechanism(self, mechanism: str) -> None:
        """Disable a SASL mechanism on all listeners, until `allow_mechanism`."""
        check_mechanisms("mechanism", [mechanism])
        with self._running.lock:
            self._touched().refused_mechanisms.add(mechanism)

    def _allow_refused_mechanisms(self) -> None:
        """End `refuse_mechanism`."""
        if self._running.shared.credentials.refused_mechanisms:
            self.allow_mechanism()

    def allow_mechanism(self, mechanism: str | None = None) -> None:
        """Enable a SASL mechanism (None: all) on the listeners that were configured with it."""
        if mechanism is not None:
            check_mechanisms("mechanism", [mechanism])
        with self._running.lock:
            for one in MECHANISMS if mechanism is None else (mechanism,):
                self._touched().refused_mechanisms.discard(one)

    def expire_sessions(self, user: str | None = None) -> int:
        """Expire the sessions of a user, or all.  Return their number.  A client that has not
        re-authenticated before its next request is disconnected (KIP-368).
        """
        count = 0
        with self._running.lock:
            now = self._running.now()
            for authentication in self._authentications():
                if authentication.is_complete and user in (None, authentication.caller.principal.name):
                    authentication.expire(now)
                    count += 1
        return count

    def reload_certificates(self) -> None:
        """Make brokers read the files of their certificates and of the trusted authorities again,
        for new connections; `KafkaCluster.rotate_certificates` also creates new ones.
        """
        with self._running.lock:
            for security in self._running.shared.listeners.values():
                if security.tls is not None:
                    security.tls.reload()

    def _touched(self) -> Credentials:
        """Return the cluster, marked as modified; the caller holds its lock."""
        credentials = self._running.shared.credentials
        credentials.is_touched = True
        return credentials

    def _authentications(self) -> list[Authentication]:
        return [
            client.authentication
            for broker in self._running.brokers
            if broker.is_running
            for processor in broker.processors
            for client in list(processor.connections.values())
            if client.authentication is not None
        ]
