"""The interface of a cluster, the same in this process (cluster.py) and in a child (remote/cluster.py).

Tests, fixtures and the admin port rely on what is documented here; both kinds of clusters implement all of
it.
Thread-safe.
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
from pykafka2.broker.observed.telemetry import TelemetryPush
from pykafka2.errors import IllegalState
from pykafka2.testing.access import Access, ConnectionOptions
from pykafka2.testing.authority import Authority
from pykafka2.testing.controls.access_rules import AccessRules
from pykafka2.testing.controls.controls import Controls
from pykafka2.testing.views.groups import GroupView
from pykafka2.testing.views.metrics import ClusterMetrics
from pykafka2.testing.views.partitions import ConnectionView, LogView, PartitionView
from pykafka2.testing.views.share_groups import ShareGroupView, SharePartitionView
from pykafka2.testing.views.timeline import Timeline
from pykafka2.testing.views.transactions import TransactionView
from pykafka2.types import TopicPartition

T = TypeVar("T")
LOOPBACK = "127.0.0.1"


class AnyBroker(Protocol):
    """A broker, wherever it runs."""

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
    """The broker that is the controller (-1: none), and its epoch."""

    @property
    def id(self) -> int: ...
    @property
    def epoch(self) -> int: ...


class AnyAdminPort(Protocol):
    """The address of an admin port, and the token that callers must send."""

    @property
    def address(self) -> str: ...
    @property
    def token(self) -> str: ...


class ClusterApi(ABC):
    """A cluster of brokers that runs between `start` and `close`; a context manager."""

    config: BrokerConfig
    """Configuration of all brokers."""
    _authority: Authority | None = None
    """The throw-away authority that certifies the brokers, None without one."""
    _access: Access
    history: History
    """All requests and responses of clients."""
    events: EventLog
    """Events of brokers, leaders, ISRs, topics, rules and connections."""
    problems: Problems
    """Unexpected exceptions inside the brokers, which are bugs of pykafka2.  `close` raises if there are
    any; a test that planted one removes it with `take()`.
    """

    # ------------------------------------------------------------------ start and end

    @abstractmethod
    def start(self) -> Self:
        """Start the brokers, then create the topics."""

    @abstractmethod
    def close(self) -> None:
        """Stop everything and release all threads, sockets and processes.  Can be repeated.

        Then raises `IllegalState` if there were unexpected exceptions in the brokers (`problems`).
        """

    def __enter__(self) -> Self:
        return self.start()

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @abstractmethod
    def check(self) -> None:
        """Raise `IllegalState` if the cluster does not run, or the error that ended it."""

    # ------------------------------------------------------------------ what it is

    @property
    @abstractmethod
    def brokers(self) -> Sequence[AnyBroker]:
        """All brokers by id, including stopped ones."""

    @abstractmethod
    def broker(self, broker_id: int) -> AnyBroker:
        """Return the broker with this id, running or not.  Raise `ConfigurationError` for an unknown id."""

    @property
    @abstractmethod
    def controller(self) -> AnyController:
        """The broker that is the controller, and its epoch."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, separated by commas; includes stopped brokers."""

    @abstractmethod
    def bootstrap_servers_of(self, listener: str) -> str:
        """Return all brokers' addresses for this listener, separated by commas.  Raise `ConfigurationError`
        for an unknown listener.
        """

    @property
    def client_options(self) -> ConnectionOptions:
        """Options for a pykafka2 client: `KafkaProducer(**cluster.client_options)`; with tls=True they
        include protocol and authority.
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
        """Return the options with which a pykafka2 client connects as this user.

        `KafkaProducer(**cluster.options_for("alice"))`.

        Args:
            user: one of `users=`, or an added user; None connects without a user.
            mechanism: SASL mechanism; default SCRAM-SHA-256 if the listener offers it.
            listener: its name; default: the first one where the user can log in.
            password: default: the password in `users=`.
            certificate: the name in the client's certificate (see `client_certificate`).
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
        """Return an OAUTHBEARER token that the cluster accepts for `lifetime` seconds (negative: expired).

        It is signed with `token_key` if that is set.  `claims` add to its claims or replace them.  Raise
        `ConfigurationError` if `token_key` is a JWKS, which contains only public keys.
        """
        return self._access.token(user, lifetime, **claims)

    @property
    def has_authority(self) -> bool:
        """Whether a throw-away authority certifies the brokers, so that `ca_file` exists."""
        return self._authority is not None

    @property
    def ca_file(self) -> str:
        """Path of the authority's certificate, a PEM file for clients of any kind that exists while the
        cluster runs.  Raises `IllegalState` without a throw-away authority.
        """
        return self._own_authority().ca_file

    def client_certificate(self, name: str) -> str:
        """Return the path of a client certificate with its key, a PEM file that exists while the cluster
        runs.  Its principal is `"User:CN=<name>,OU=clients,O=pykafka2"`.
        """
        return self._own_authority().client_file(name)

    def rotate_certificates(self) -> None:
        """Make all brokers use new certificates of the same authority for new connections."""
        self._own_authority().renew()
        self.controls.reload_certificates()

    def _own_authority(self) -> Authority:
        if self._authority is None:
            raise IllegalState("The cluster has no authority. Start it with tls=True.")
        return self._authority

    @property
    @abstractmethod
    def cluster_id(self) -> str:
        """The cluster id, 22 characters of base64: new at each start, unless a data directory keeps it.

        In a simulation it depends on the seeds of simulation and cluster only.
        """

    @property
    @abstractmethod
    def pid(self) -> int:
        """Id of the process in which the brokers run: this one, or with `process=True` a child."""

    @property
    @abstractmethod
    def controls(self) -> Controls:
        """Faults and other controls, see `Controls`."""

    @property
    def acls(self) -> AccessRules:
        """Access rules: `cluster.acls.allow("User:ann", "READ", topic="orders")`."""
        return AccessRules(self.controls, self.events)

    # ------------------------------------------------------------------ topics

    @abstractmethod
    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic; return after its leaders are elected.  Raise the broker's error.

        `assignment` (see `Topic`) overrides both numbers.
        """

    @abstractmethod
    def delete_topic(self, topic: str) -> None:
        """Delete a topic with all its records.  Raise the broker's error, such as
        `UnknownTopicOrPartition`.
        """

    @abstractmethod
    def topics(self) -> list[str]:
        """Return the names of all topics, sorted, including internal topics."""

    # ------------------------------------------------------------------ views: plain values as of now

    @abstractmethod
    def wait_until(self, predicate: Callable[[], T], timeout: float = 10.0, what: str = "it") -> T:
        """Wait until the predicate is true, and return its value.  It can use the cluster's views, history
        and rules, or the test's own state.  `timeout` is in seconds (virtual in a simulation).

        A view that raises because a group, transaction, topic or coordinator does not exist yet counts as
        false.
        Block the event loop, and warn in one: await `wait_until_async` there.

        Raise `KafkaTimeoutError` that names `what`, or the error that ended the cluster.
        """

    @abstractmethod
    async def wait_until_async(
        self, predicate: Callable[[], T], timeout: float = 10.0, what: str = "it"
    ) -> T:
        """Wait like `wait_until` without blocking the event loop.

        Raise `IllegalState` in a simulation, because no event loop runs in virtual time.
        """

    @abstractmethod
    def partition(self, topic: str, partition: int) -> PartitionView:
        """Return leader, epoch, ISR and offsets of each replica.  Raise `UnknownTopicOrPartition`."""

    @abstractmethod
    def log(self, topic: str, partition: int, broker: int | None = None) -> LogView:
        """Return a replica's log, by default the leader's: `values()`, `records()`, `batches()`, offsets."""

    @abstractmethod
    def connections(self, client_id: str | None = None) -> list[ConnectionView]:
        """Return the open connections of all clients or of one: broker, the client's address, id and
        software, and its requests in flight.
        """

    @abstractmethod
    def coordinator(self, key: str, kind: str = "group") -> int:
        """Return the id of a group's coordinator, or with kind="transaction" of a transactional id's, with
        kind="share" of a share partition's ("group:topic id:partition"); -1 if there is none.  Raise
        `CoordinatorNotAvailable` before a client has looked up a coordinator of this kind.
        """

    @abstractmethod
    def group(self, group_id: str) -> GroupView:
        """Return a group from its coordinator: state, epoch, members with assignments, offsets.

        Raise `GroupIdNotFound`, `CoordinatorNotAvailable`, `CoordinatorLoadInProgress`.
        """

    @abstractmethod
    def share_group(self, group_id: str) -> ShareGroupView:
        """Return what the leaders have of a share group: members with a share session, share partitions.

        Raise `GroupIdNotFound` before a member has fetched, and after all have left.
        """

    @abstractmethod
    def share_partition(
        self, group_id: str, partition: TopicPartition | tuple[str, int]
    ) -> SharePartitionView:
        """Return a partition as a share group reads it: the records in flight with states, delivery counts
        and members.

        Raise `GroupIdNotFound` before a member has fetched it from its current leader, and after all have
        left, and `LeaderNotAvailable` if it has no leader.
        """

    @abstractmethod
    def transaction(self, transactional_id: str) -> TransactionView:
        """Return a transactional id from its coordinator: state, producer, partitions, timeout.

        Raise `TransactionalIdNotFound`, `CoordinatorNotAvailable`, `CoordinatorLoadInProgress`.
        """

    @abstractmethod
    def transactions(self) -> list[TransactionView]:
        """Return all transactional ids of all coordinators; `is_open` marks those not ended."""

    @abstractmethod
    def metrics(self) -> ClusterMetrics:
        """Return request times and bytes by API, of each broker and of all."""

    @abstractmethod
    def telemetry(self, client_id: str | None = None) -> list[TelemetryPush]:
        """Return the metrics that clients pushed (KIP-714), of one client or all, oldest first; at most the
        last 1,000 pushes.

        The brokers need `config={"client.telemetry": True}` and a subscription: the options `metrics` and
        `interval.ms` of a ConfigResource of the type CLIENT_METRICS.
        """

    @abstractmethod
    def timeline(self, last: int | None = None) -> Timeline:
        """Return requests and events (leaders, ISRs, brokers, faults) in order: `str()`, `json()`,
        `as_list()`.

        `last` limits it to the newest entries.
        """

    @abstractmethod
    def forget(self) -> None:
        """Clear history, events, metrics and telemetry, and restart the timeline.

        Call it between the setup of a test and its subject: `cluster.history.exactly(1, "Produce")` then
        counts only later requests.  Rules, links and all data of brokers stay.
        """

    @abstractmethod
    def reset(self) -> None:
        """Restore the cluster between two tests: end the effects of all controls (`controls.reset`),
        delete all topics with their records and committed offsets, create those of `topics=` again, and
        call `forget`.

        Users, altered configurations, groups and transactional ids stay.
        """

    # ------------------------------------------------------------------ steered from outside

    @abstractmethod
    def open_admin_port(
        self, port: int = 0, token: str | None = None, *, host: str = LOOPBACK
    ) -> AnyAdminPort:
        """Serve controls, rules and views over HTTP and JSON at `host` until `close`, for tests in other
        languages.  Port 0 chooses a free port; callers must send the token (default: random).
        """

    @property
    @abstractmethod
    def has_admin_port(self) -> bool:
        """Whether `open_admin_port` was called (a cluster in another process always has an admin port)."""
