"""Starts a cluster in this process: the shared state, the brokers, their registration.

Called by `KafkaCluster.start` (cluster.py), on the test's thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from typing import Any

import attrs

from pykafka2.broker.base.problems import Problems
from pykafka2.broker.broker import Broker
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.control.configs import safety_records
from pykafka2.broker.controller.controllers import Controllers
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.metadata.records import scram_records
from pykafka2.broker.controller.topics import first_host
from pykafka2.broker.faults.engine import Faults
from pykafka2.broker.faults.rule import FaultRule
from pykafka2.broker.faults.throttle_rules import Throttles
from pykafka2.broker.handlers.api import APIS
from pykafka2.broker.handlers.api import load as load_handlers
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.log.disk.disk_storage import DiskStorages
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.broker.log.memory_storage import MemoryLogStorages
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.observed.history import History
from pykafka2.broker.security.authentication import Credentials, token_rules
from pykafka2.broker.security.listeners import ListenerSecurity
from pykafka2.broker.security.scram import KINDS, scram_credentials
from pykafka2.broker.server.links import Links
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.threads import Loops
from pykafka2.broker.shared import Shared
from pykafka2.clock import Clock, Entropy, SeededEntropy
from pykafka2.driver.runtime import Runtime
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.protocol.registry import name_of
from pykafka2.testing.arguments import ClusterArguments
from pykafka2.testing.authority import Authority
from pykafka2.testing.running import Running
from pykafka2.testing.storage import ClusterStorage, HasFiles, new_cluster_id, open_storage

_numbers = count(1)
"""Numbers of the clusters that start in this process."""


@attrs.define(eq=False)
class ClusterContext:
    """The state of a cluster that exists before its start and after its end."""

    config: BrokerConfig
    listeners: Mapping[str, ListenerSecurity]
    authority: Authority | None
    """The throw-away authority that certifies the brokers, None without one."""
    history: History
    lock: AbstractContextManager[Any] = attrs.field(factory=threading.RLock)
    events: EventLog = attrs.field(factory=EventLog)
    problems: Problems = attrs.field(factory=Problems)

    @classmethod
    def of(cls, arguments: ClusterArguments) -> ClusterContext:
        """Return the state.  Raise `ConfigurationError` for illegal arguments."""
        arguments.check()
        history = History(max_entries=arguments.history_entries)
        config = arguments.broker_config()
        if not arguments.needs_authority:
            return cls(config, arguments.listener_security(None), None, history)
        authority = Authority(arguments.hosts())
        authority.write()
        try:
            listeners = arguments.listener_security(authority)
        finally:
            authority.remove()
        return cls(config, listeners, authority, history)


def assemble(arguments: ClusterArguments, context: ClusterContext) -> Running:
    """Create loops, links, the controller's state and the brokers, without starting them."""
    load_handlers()
    runtime = arguments.runtime or ThreadRuntime()
    storage = _storage(arguments, context, runtime)
    # Ids in a data directory must be unique, also after a restart with the same seed.
    seed = arguments.seed if storage is None else f"{arguments.seed}-{runtime.entropy.token_bytes(8).hex()}"
    entropy = SeededEntropy(f"cluster-{seed}")
    if storage is None:
        state = _new_state(arguments, context, _new_cluster_id(arguments, runtime), entropy)
    else:
        state = storage.state
    is_separate = context.config.get("threads") == "separate"
    loops = Loops(runtime, "kafka-cluster", separate=is_separate, problems=context.problems)
    try:
        links = Links(context.lock)
        loops.add_all([links])
        brokers: dict[int, Broker] = {}

        def services_of(broker_id: int) -> Services:
            return brokers[broker_id].services

        controllers = Controllers(
            MetadataLog(state, None if storage is None else storage.metadata),
            context.config,
            entropy,
            links,
            context.events,
            runtime,
            context.lock,
            lambda: brokers,
        )
        shared = Shared(
            context.config,
            seed,
            runtime,
            context.lock,
            loops,
            links,
            controllers,
            Faults(APIS, partial(_note_fault, context.events, runtime.clock)),
            Throttles(),
            context.history,
            context.events,
            context.problems,
            context.listeners,
            _credentials(arguments, context.config),
            release=arguments.release,
            storages=MemoryLogStorages()
            if storage is None
            else DiskStorages(storage.directories, runtime, context.lock),
            history_started_at=runtime.clock.monotonic(),
        )
        for number in arguments.broker_ids:
            addresses = arguments.addresses_of(number)
            brokers[number] = Broker(shared, number, addresses, arguments.rack_of(number), services_of)
        return Running(
            shared,
            list(brokers.values()),
            owns_runtime=arguments.runtime is None,
            storage=storage,
        )
    except BaseException:
        if storage is not None:
            storage.close(is_clean=False)
        loops.stop()
        if arguments.runtime is None:
            runtime.close()
        raise


def _new_cluster_id(arguments: ClusterArguments, runtime: Runtime) -> str:
    """Return an id of the cluster's seed and identity. Most clusters share the default seed."""
    if isinstance(runtime, ThreadRuntime):
        identity = f"{os.getpid()}-{runtime.clock.wall_ns()}-{next(_numbers)}"
    else:  # in a simulation, its seed determines the ids
        identity = runtime.entropy.token_bytes(16).hex()
    return new_cluster_id(arguments.seed, identity)


def _new_state(
    arguments: ClusterArguments, context: ClusterContext, cluster_id: str, entropy: Entropy
) -> MetadataImage:
    """Return the metadata of a new cluster.

    It has the credentials of the users, like that of `kafka-storage format --add-scram` (KIP-900).
    """
    state = MetadataImage(cluster_id, context.config, entropy, arguments.finalised_features())
    state.first_host, state.supported = first_host(arguments.seed), arguments.release.supported
    if state.image.has_eligible_replicas:
        for safety in safety_records(state, context.config):
            state.apply(safety)
    for user, password in (arguments.users or {}).items():
        for record in scram_records(user, scram_credentials(password, KINDS, entropy)):
            state.apply(record)
    state.derive(0)
    return state


def _storage(arguments: ClusterArguments, context: ClusterContext, runtime: Runtime) -> ClusterStorage | None:
    """Open the data directories, if the cluster has any."""
    if arguments.data_dir is None:
        return None
    return open_storage(
        str(arguments.data_dir),
        arguments.broker_ids,
        context.config,
        runtime.files if isinstance(runtime, HasFiles) else RealFiles(),
        runtime.entropy,
        runtime.clock.wall_ms,
        lambda: _new_cluster_id(arguments, runtime),
        lambda cluster_id: _new_state(arguments, context, cluster_id, runtime.entropy),
    )


def _credentials(arguments: ClusterArguments, config: BrokerConfig) -> Credentials:
    """Return the initial credentials of the users."""
    credentials = Credentials(tokens=token_rules(config, arguments.signing_key()))
    for user, password in (arguments.users or {}).items():
        credentials.passwords.set(user, password)
    return credentials


def start_brokers(running: Running, first_controller: int) -> None:
    """Register all brokers with the first controller at the same time."""
    controllers, events = running.controllers, running.events
    controllers.election.is_held = True
    for broker in running.brokers:
        broker.begin_start()
    with running.lock:
        controllers.election.is_held = False
        controllers.elect(first_controller, running.now())
    if running.storage is not None:
        running.storage.check()  # without a controller the brokers would wait forever
    for broker in running.brokers:
        broker.finish_start()
    # Registration is the same in every run; the timeline begins with the actions of the test.
    elections = [one for one in events.events("controller") if "event" not in one.facts]
    running.forget()
    now = running.shared.history_started_at
    took_ms = (now - running.started_at) * 1000
    count = f"{len(running.brokers)} brokers" if len(running.brokers) > 1 else "1 broker"
    events.note(now, "cluster", f"{count} started in {took_ms:.0f} ms", brokers=len(running.brokers))
    for one in elections:
        events.note(now, one.kind, one.text, **one.facts)


def _note_fault(
    events: EventLog, clock: Clock, rule: FaultRule, broker_id: int, context: RequestContext
) -> None:
    text = f"rule {rule.id} fired on {name_of(context.api_key)} of {context.client_id}: {rule.then}"
    events.note(clock.monotonic(), "fault", text, rule=rule.id, broker=broker_id, then=rule.then)
