"""What a cluster offers to a test, wherever its brokers run: in this process (cluster.py) or in a child
(remote/cluster.py).

What tests, fixtures and the admin port may rely on stands here with its promise; both kinds implement all of
it.  Any thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pykafka2.broker.base.problems import Problems
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.observed.history import History
from pykafka2.errors import IllegalState
from pykafka2.testing.access import Access, ConnectionOptions
from pykafka2.testing.authority import Authority
from pykafka2.testing.controls.access_rules import AccessRules
from pykafka2.testing.controls.controls import Controls
from pykafka2.testing.views.groups import GroupView
from pykafka2.testing.views.metrics import ClusterMetrics
from pykafka2.testing.views.partitions import ConnectionView, LogView, PartitionView
from pykafka2.testing.views.timeline import Timeline
from pykafka2.testing.views.transactions import TransactionView

T = TypeVar("T")


class AnyBroker(Protocol):
    """What is known of a broker wherever it runs."""

    @property
    def id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def address(self) -> str: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def is_paused(self) -> bool: ...


class AnyController(Protocol):
    """Which broker is the controller (-1: none), in which epoch."""

    @property
    def id(self) -> int: ...
    @property
    def epoch(self) -> int: ...


class AnyAdminPort(Protocol):
    """Where a cluster is steered from outside, and what callers must show."""

    @property
    def address(self) -> str: ...
    @property
    def token(self) -> str: ...


class ClusterApi(ABC):
    """A cluster of brokers, running between `start` and `close`; a context manager."""

    config: BrokerConfig
    """What was configured for all brokers."""
    _authority: Authority | None = None
    """The throw-away one that certifies the brokers, if there is one."""
    _access: Access
    history: History
    """Every request and answer of clients."""
    events: EventLog
    """What happened to brokers, leaders, ISRs, topics, rules and connections."""
    problems: Problems
    """What raised inside the brokers and must not have: mistakes in pykafka2.  `close` raises if there are
    any; `take()` hands them over to a test that planted them.
    """

    # ------------------------------------------------------------------ start and end

    @abstractmethod
    def start(self) -> Self:
        """Start the brokers, then create the topics."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything and release every thread, socket and process.  Safe to repeat.

        Raises `IllegalState`, once all is released, if something went wrong inside the brokers (`problems`).
        """

    def __enter__(self) -> Self:
        return self.start()

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def check(self) -> None:
        """Raise if the cluster does not run, or has ended by a bug."""

    # ------------------------------------------------------------------ what it is

    @property
    @abstractmethod
    def brokers(self) -> Sequence[AnyBroker]:
        """All brokers, by id, those that are down included."""

    @abstractmethod
    def broker(self, broker_id: int) -> AnyBroker:
        """The broker with this id, running or not.  Raises `ConfigurationError` if there is none."""

    @property
    @abstractmethod
    def controller(self) -> AnyController:
        """Which broker is the controller, and its epoch."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """All brokers' addresses, separated by commas; those that are down included."""

    @abstractmethod
    def bootstrap_servers_of(self, listener: str) -> str:
        """All brokers' addresses by this listener, separated by commas.  Raises `ConfigurationError` for one
        that they have not.
        """

    @property
    def client_options(self) -> ConnectionOptions:
        """What a pykafka2 client needs to connect: `KafkaProducer(**cluster.client_options)`; with tls=True
        its protocol and authority, too.
        """
        return self.options_for()

    def options_for(
        self,
        user: str | None = None,
        *,
        mechanism: str | None = None,
        listener: str | None = None,
        password: str | None = None,
        certificate: str | None = None,
    ) -> ConnectionOptions:
        """What a pykafka2 client needs to connect as this user.

        `KafkaProducer(**cluster.options_for("alice"))`.

        Args:
            user: one of `users=`, or one that was added; None: nobody in particular.
            mechanism: how the user logs in; default SCRAM-SHA-256 where the listener offers it.
            listener: by name; default: the first at which the user can log in.
            password: default: that of `users=`.
            certificate: the name in a certificate that the client shows (see `client_certificate`).
        """
        name, chosen = self._access.chosen(listener, user)
        options: ConnectionOptions = {"bootstrap_servers": self.bootstrap_servers_of(name)}
        if chosen.protocol != "PLAINTEXT":
            options["security_protocol"] = chosen.protocol or name
        if chosen.uses_tls and self._authority is not None:
            options["ssl_cafile"] = self._authority.ca_file
        if certificate is not None:
            options["ssl_certfile"] = self.client_certificate(certificate)
        if user is not None:
            options.update(self._access.credentials(user, password, mechanism, chosen))
        return options

    def token(self, user: str, lifetime: float = 3600.0, **claims: object) -> str:
        """A token for OAUTHBEARER that the cluster takes for `lifetime` seconds (a negative number: no more);
        signed with `token_key` if there is one.  `claims` are added, or replace those that it has.  Raises
        `ConfigurationError` where `token_key` is a JWKS: of that the cluster has public keys alone.
        """
        return self._access.token(user, lifetime, **claims)

    @property
    def has_authority(self) -> bool:
        """Whether a throw-away authority certifies the brokers, so that there is a `ca_file`."""
        return self._authority is not None

    @property
    def ca_file(self) -> str:
        """The certificate of the throw-away authority, for clients of any kind; a PEM file that is there
        while the cluster runs.  Raises `IllegalState` where there is no such authority.
        """
        return self._own_authority().ca_file

    def client_certificate(self, name: str) -> str:
        """A certificate of the throw-away authority for a client: a PEM file with its key, which is there
        while the cluster runs.  Its principal is "User:CN=<name>,OU=clients,O=pykafka2".
        """
        return self._own_authority().client_file(name)

    def rotate_certificates(self) -> None:
        """Have all brokers show new certificates of the same authority on connections from now on."""
        self._own_authority().renew()
        self.controls.reload_certificates()

    def _own_authority(self) -> Authority:
        if self._authority is None:
            raise IllegalState("only a cluster with tls=True has an authority of its own")
        return self._authority

    @property
    @abstractmethod
    def cluster_id(self) -> str:
        """The id that clients are told, 22 characters of base64; the same for the same seed."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process that the brokers run in: this one, or with `process=True` a child."""

    @property
    @abstractmethod
    def controls(self) -> Controls:
        """Crash, cut, hold and fail: see `Controls`."""

    @property
    def acls(self) -> AccessRules:
        """Access rules: `cluster.acls.allow("User:ann", "READ", topic="orders")`."""
        return AccessRules(self.controls, self.events)

    # ------------------------------------------------------------------ topics

    @abstractmethod
    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic; its leaders are elected when this returns.  Raises what a client would be told.

        `assignment` (see `Topic`) goes before both numbers.
        """

    @abstractmethod
    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records.  Raises what a client would be told, such as
        `UnknownTopicOrPartition`.
        """

    @abstractmethod
    def topics(self) -> list[str]:
        """The names of all topics, Kafka's own included, sorted."""

    # ------------------------------------------------------------------ views: plain values as of now

    @abstractmethod
    def wait_until(self, predicate: Callable[[], T], timeout: float = 10.0, what: str = "it") -> T:
        """Wait until the predicate is true, and return its value: what it looks at is this cluster's (views,
        history, rules), or the test's own.  `timeout` in seconds (virtual ones in a simulation).

        A view of something that is not there yet (a group, a transaction, a topic, a coordinator) counts as
        not true so far.  In an event loop, which this blocks, it warns: there, await `wait_until_async`.

        Raises `KafkaTimeoutError` saying that `what` did not come true, and what ended the cluster.
        """

    @abstractmethod
    async def wait_until_async(
        self, predicate: Callable[[], T], timeout: float = 10.0, what: str = "it"
    ) -> T:
        """`wait_until` for tests with asyncio: the event loop goes on meanwhile.

        Raises `IllegalState` in a simulation, whose virtual time no event loop follows.
        """

    @abstractmethod
    def partition(self, topic: str, partition: int) -> PartitionView:
        """Leader, epoch, ISR and each replica's offsets, as of now.  Raises `UnknownTopicOrPartition`."""

    @abstractmethod
    def log(self, topic: str, partition: int, broker: int | None = None) -> LogView:
        """What a replica holds, the leader's by default: `values()`, `records()`, `batches()`, offsets."""

    @abstractmethod
    def connections(self, client_id: str | None = None) -> list[ConnectionView]:
        """The connections that clients (or this one) hold open now, of any library: broker, the client's
        address, id and software, and its unanswered requests.
        """

    @abstractmethod
    def coordinator(self, key: str, kind: str = "group") -> int:
        """The id of the broker that coordinates a group, or with kind="transaction" a transactional id; -1
        while there is none.  Raises `CoordinatorNotAvailable` if no client ever asked for one of this kind.
        """

    @abstractmethod
    def group(self, group_id: str) -> GroupView:
        """A group as its coordinator knows it now: state, epoch, members with assignments, offsets.

        Raises `GroupIdNotFound`, `CoordinatorNotAvailable`, `CoordinatorLoadInProgress`.
        """

    @abstractmethod
    def transaction(self, transactional_id: str) -> TransactionView:
        """A transactional id as its coordinator knows it now: state, producer, partitions, timeout.

        Raises `TransactionalIdNotFound`, `CoordinatorNotAvailable`, `CoordinatorLoadInProgress`.
        """

    @abstractmethod
    def transactions(self) -> list[TransactionView]:
        """All transactional ids that their coordinators know now; `is_open` tells those not ended."""

    @abstractmethod
    def metrics(self) -> ClusterMetrics:
        """Request times and bytes as of now, by API, of each broker and all together."""

    @abstractmethod
    def timeline(self, last: int | None = None) -> Timeline:
        """Requests and events (leaders, ISRs, brokers, faults) in order: `str()`, `json()`, `as_list()`.

        With `last` only so many of the newest.
        """

    @abstractmethod
    def forget(self) -> None:
        """Forget what was seen so far: history, events and metrics are empty, the timeline begins now.

        Between the preparation of a test and what it is about: `cluster.history.exactly(1, "Produce")` then
        counts only the latter.  Rules, links and all that brokers hold stay.
        """

    # ------------------------------------------------------------------ steered from outside

    @abstractmethod
    def open_admin_port(self, port: int = 0, token: str | None = None) -> AnyAdminPort:
        """Offer controls, rules and views over HTTP and JSON on loopback, until `close`; for tests in other
        languages.  Port 0 takes a free one; callers show the token (default: a random one).
        """

    @property
    @abstractmethod
    def has_admin_port(self) -> bool:
        """Whether `open_admin_port` was called (a cluster in another process has one of its own)."""
