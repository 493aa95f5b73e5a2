"""Puts the transactional parts of a producer together: who decides, and who is called.

Used by producer.py when a producer is made; nothing here lives longer than that.
"""

from __future__ import annotations

from pykafka2.cluster.client import ClusterClient
from pykafka2.metrics import Metrics
from pykafka2.producer.accumulator import Accumulator
from pykafka2.producer.identity import ProducerIdentity, policy_of
from pykafka2.producer.options import ProducerOptions
from pykafka2.producer.transaction_calls import TransactionCalls
from pykafka2.producer.transaction_manager import TransactionManager
from pykafka2.producer.transaction_state import TransactionStatus
from pykafka2.producer.transaction_steps import TransactionSteps


def transactional_parts(
    client: ClusterClient,
    options: ProducerOptions,
    status: TransactionStatus,
    accumulator: Accumulator,
    metrics: Metrics,
) -> tuple[TransactionManager, TransactionCalls]:
    """The manager, which the caller adds to the client after the sender, and the calls."""
    random = client.driver.entropy.random
    identity = ProducerIdentity(options, random, policy_of(options))
    manager = TransactionManager(
        options,
        status,
        accumulator,
        identity,
        TransactionSteps(options, status, identity, client.nodes, random),
        forget=client.coordinators.forget_answerer,
    )
    calls = TransactionCalls(client, manager, status, accumulator, metrics, max_block=options.max_block)
    return manager, calls
