"""Starts a cluster in this process: the shared state, the brokers, their registration.

Called by `KafkaCluster.start` (cluster.py), on the test's thread.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import attrs

from pykafka2.broker.base.problems import Problems
from pykafka2.broker.broker import Broker
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.controllers import Controllers
from pykafka2.broker.controller.placement import first_host
from pykafka2.broker.controller.state import State
from pykafka2.broker.faults.engine import Faults
from pykafka2.broker.faults.rule import FaultRule
from pykafka2.broker.faults.throttle import Throttles
from pykafka2.broker.handlers.registry import APIS
from pykafka2.broker.handlers.registry import load as load_handlers
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.observed.history import History
from pykafka2.broker.replication.links import Links
from pykafka2.broker.security.listener import ListenerSecurity
from pykafka2.broker.security.mechanisms import Credentials, token_rules
from pykafka2.broker.security.scram import KINDS, ScramCredential, ScramMechanism, scram_credentials
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.threads import Loops
from pykafka2.broker.shared import Shared
from pykafka2.clock import Clock, Entropy, SeededEntropy
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.protocol.registry import name_of
from pykafka2.testing.arguments import ClusterArguments
from pykafka2.testing.authority import Authority
from pykafka2.testing.running import Running


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
        """Returns the state.  Raises `ConfigurationError` for illegal arguments."""
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
    """Creates loops, links, the controller's state and the brokers, without starting them."""
    load_handlers()
    runtime = arguments.runtime or ThreadRuntime()
    entropy = SeededEntropy(f"cluster-{arguments.seed}")
    cluster_id = base64.urlsafe_b64encode(entropy.token_bytes(16)).decode().rstrip("=")
    state = State(cluster_id, context.config, arguments.finalised_features())
    state.scram_users = _scram_users(arguments, entropy)
    state.first_host = first_host(arguments.seed)
    is_separate = context.config.get("threads") == "separate"
    loops = Loops(runtime, "kafka-cluster", separate=is_separate, problems=context.problems)
    try:
        links = Links(context.lock)
        loops.add_all([links])
        brokers: dict[int, Broker] = {}

        def services_of(broker_id: int) -> Services:
            return brokers[broker_id].services

        controllers = Controllers(
            state, context.config, entropy, links, context.events, runtime, context.lock, lambda: brokers
        )
        shared = Shared(
            context.config,
            arguments.seed,
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
            history_started_at=runtime.clock.monotonic(),
        )
        for number in arguments.broker_ids:
            addresses = arguments.addresses_of(number)
            brokers[number] = Broker(shared, number, addresses, arguments.rack_of(number), services_of)
        return Running(shared, list(brokers.values()), owns_runtime=arguments.runtime is None)
    except BaseException:
        loops.stop()
        if arguments.runtime is None:
            runtime.close()
        raise


def _credentials(arguments: ClusterArguments, config: BrokerConfig) -> Credentials:
    """Returns the initial credentials of the users."""
    credentials = Credentials(tokens=token_rules(config, arguments.signing_key()))
    for user, password in (arguments.users or {}).items():
        credentials.passwords.set(user, password)
    return credentials


def _scram_users(
    arguments: ClusterArguments, entropy: Entropy
) -> dict[str, dict[ScramMechanism, ScramCredential]]:
    """Writes credentials to the first metadata, like `kafka-storage format --add-scram` (KIP-900)."""
    return {
        user: scram_credentials(password, KINDS, entropy)
        for user, password in (arguments.users or {}).items()
    }


def start_brokers(running: Running, first_controller: int) -> None:
    """Registers all brokers with the first controller at the same time."""
    controllers, events = running.controllers, running.events
    controllers.election.is_held = True
    for broker in running.brokers:
        broker.process.begin_start()
    with running.lock:
        controllers.election.is_held = False
        controllers.elect(first_controller, running.now())
    for broker in running.brokers:
        broker.process.finish_start()
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
