"""Random producers, crashes, late and repeated requests and markers: the promises of transactions hold.

The coordinator's shard and the partition logs are real; the test plays the clients, the network and the
brokers between them. Each transaction transfers an amount from one partition to the other. If it has a
committed response, it is visible as a whole; if an aborted one, never; without a response, as a whole or not
at all. No transaction delays the last stable offset forever.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pykafka2 import errors
from pykafka2.broker.coordinators.replay import Deferred, Producer, WriteMarkers
from pykafka2.broker.coordinators.transactions.state import Partition, TransactionState
from pykafka2.broker.coordinators.transactions.verifier import (
    TransactionSupport,
    verification_codes,
    verification_request,
)
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.producer_state import VerificationGuard
from pykafka2.errors import BrokerError
from pykafka2.protocol.messages.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
)
from pykafka2.records.batch import TRANSACTIONAL_FLAG, RecordBatch
from tests.broker.support.batches import batch, view
from tests.broker.support.transactions import A, B, ShardTransactions
from tests.gate import examples

NAMES = st.sampled_from(["one", "two"])
MOSTLY = st.sampled_from([True, True, True, False])
SELDOM = st.sampled_from([False, False, False, True])
TIMEOUT_MS = 20_000


@attrs.define(eq=False)
class Transfer:
    """A transaction as its client knows it."""

    owner: Client
    values: list[tuple[Partition, bytes]] = attrs.field(factory=list)
    is_whole: bool = True
    """Whether both records of every move are written; otherwise the client aborts."""
    wants_commit: bool | None = None
    """Whether the client commits or aborts; None before its EndTxn."""
    outcome: bool | None = None
    """Whether the coordinator committed the transaction; None before its decision."""
    must_not_commit: bool = False
    """Whether another producer has taken over the transactional id before a commit."""
    request: EndTxnRequest | None = None


@attrs.define(eq=False)
class Client:
    """A producer. `is_gone` after fencing or a crash, though its requests may still arrive."""

    name: str
    id: Producer
    sequences: dict[Partition, int] = attrs.field(factory=dict)
    current: Transfer | None = None
    is_gone: bool = False


@attrs.define(eq=False)
class LateBatch:
    """A batch that waits for the coordinator, or is on its way."""

    partition: Partition
    batch: RecordBatch
    guard: VerificationGuard | None
    request: AddPartitionsToTxnRequest | None
    deferred: Deferred[AddPartitionsToTxnResponse] | None
    support: TransactionSupport

    @property
    def has_response(self) -> bool:
        return self.deferred is None or self.deferred.is_done

    @property
    def is_verified(self) -> bool:
        if self.request is None or self.deferred is None:
            return True
        assert self.deferred.response is not None
        return set(verification_codes(self.request, self.deferred.response, self.support).values()) == {0}


class VerifyingBench(ShardTransactions):
    """A bench whose logs require verification."""

    def partition(self, partition: Partition) -> PartitionLog:
        log = super().partition(partition)
        log.verifications.required = True
        return log


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = VerifyingBench()
        self.clients: list[Client] = []
        self.transfers: list[Transfer] = []
        self.markers: list[tuple[WriteMarkers, Partition]] = []
        self.late: list[LateBatch] = []
        self.seen: set[bytes] = set()
        self.count = 0
        self.version = 2

    @initialize(version=st.sampled_from([1, 2]))
    def choose_version(self, version: int) -> None:
        self.version = version
        self.bench = VerifyingBench(transaction_version=version)
        for partition in (A, B):
            self.bench.partition(partition)
        self.start("one")
        self.start("two")

    @property
    def support(self) -> TransactionSupport:
        return TransactionSupport.ADDS_PARTITIONS if self.version == 2 else TransactionSupport.OLD_ERRORS

    # -- producers ----------------------------------------------------------------------------------

    @rule(name=NAMES)
    def start(self, name: str) -> None:
        """Start a new producer of this name; earlier ones find out later."""
        response = self._init(name, None)
        if response is not None:
            self.clients.append(Client(name, response))

    def _init(self, name: str, expected: Producer | None) -> Producer | None:
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=TIMEOUT_MS,
            producer_id=expected.id if expected else -1,
            producer_epoch=expected.epoch if expected else -1,
        )
        response = self.bench.send(request, 5).response
        if response is None or response.error_code:
            return None
        # A former owner of the name must not make undecided records visible.
        for transfer in self.transfers:
            if transfer.owner.name == name and transfer.wants_commit is not True:
                transfer.must_not_commit = True
        return Producer(response.producer_id, response.producer_epoch)

    def active_clients(self) -> list[Client]:
        return [client for client in self.clients if not client.is_gone]

    @precondition(lambda self: bool(self.active_clients()))
    @rule(data=st.data(), is_late=SELDOM)
    def move(self, data: st.DataObject, is_late: bool) -> None:
        """Move an amount from one partition to the other; the second batch may arrive late."""
        self._move(data.draw(st.sampled_from(self.active_clients()), label="client"), is_late)

    def _move(self, client: Client, is_late: bool) -> None:
        if client.current is not None and client.current.wants_commit is not None:
            return
        if client.current is None:
            client.current = Transfer(client)
            self.transfers.append(client.current)
        self.count += 1
        amount = self.count
        self._produce(client, A, -amount, is_late=False)
        if client.current is not None and client.current.is_whole:
            self._produce(client, B, amount, is_late)

    def _produce(self, client: Client, partition: Partition, amount: int, is_late: bool) -> None:
        transfer = client.current
        assert transfer is not None
        if self.version < 2 and not self._add(client, partition):
            transfer.is_whole = False
            return
        value = b"%d" % amount
        sequence = client.sequences.get(partition, 0)
        data = view(
            batch(
                [value],
                attributes=TRANSACTIONAL_FLAG,
                producer_id=client.id.id,
                producer_epoch=client.id.epoch,
                base_sequence=sequence,
            )
        )
        transfer.values.append((partition, value))
        late = self._verify(client, partition, data, sequence)
        if is_late or not late.has_response:
            transfer.is_whole = False
            self.late.append(late)
        elif self._append(late):
            client.sequences[partition] = sequence + 1
        else:
            transfer.is_whole = False

    def _add(self, client: Client, partition: Partition) -> bool:
        """The steps of clients before version 2."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=client.name,
            v3_and_below_producer_id=client.id.id,
            v3_and_below_producer_epoch=client.id.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=partition[0], partitions=[partition[1]])],
        )
        response = self.bench.send(request, 3).response
        if response is None:
            return False
        (topic,) = response.results_by_topic_v3_and_below
        code = topic.results_by_partition[0].partition_error_code
        self._fence_on(client, code)
        return code == 0

    def _verify(self, client: Client, partition: Partition, data: RecordBatch, sequence: int) -> LateBatch:
        """Begin a verification as the leader does, and send it to the coordinator."""
        log, now_ms = self.bench.partition(partition), self.bench.wall_ms(self.bench.now)
        guard = log.verifications.begin(client.id.id, client.id.epoch, sequence, self.version == 2, now_ms)
        if guard is None:
            return LateBatch(partition, data, None, None, None, self.support)
        request = verification_request(client.name, client.id.id, client.id.epoch, [partition], self.support)
        return LateBatch(partition, data, guard, request, self.bench.send(request, 5), self.support)

    def _append(self, late: LateBatch) -> bool:
        if not late.is_verified:
            return False
        log = self.bench.partition(late.partition)
        try:
            log.append_as_leader(late.batch, 0, guard=late.guard)
        except BrokerError:
            return False
        log.advance_high_watermark(log.log_end_offset)
        return True

    def _fence_on(self, client: Client, code: int) -> None:
        if code in (errors.ProducerFenced.code, errors.InvalidProducerIdMapping.code):
            client.is_gone = True

    @precondition(lambda self: any(late.has_response for late in self.late))
    @rule(data=st.data())
    def deliver_late_batch(self, data: st.DataObject) -> None:
        late = data.draw(st.sampled_from([late for late in self.late if late.has_response]), label="late")
        self.late.remove(late)
        self._append(late)

    @precondition(lambda self: bool(self.active_clients()))
    @rule(data=st.data(), wants_commit=MOSTLY, is_lost=SELDOM)
    def end(self, data: st.DataObject, wants_commit: bool, is_lost: bool) -> None:
        """Commit or abort; after a lost response the client retries later."""
        self._end(data.draw(st.sampled_from(self.active_clients()), label="client"), wants_commit, is_lost)

    def _end(self, client: Client, wants_commit: bool, is_lost: bool) -> None:
        transfer = client.current
        if transfer is None:
            return
        if transfer.request is None:
            transfer.wants_commit = wants_commit and transfer.is_whole
            transfer.request = EndTxnRequest(
                transactional_id=client.name,
                producer_id=client.id.id,
                producer_epoch=client.id.epoch,
                committed=transfer.wants_commit,
            )
        self._send_end(transfer, is_lost)

    def _send_end(self, transfer: Transfer, is_lost: bool) -> None:
        assert transfer.request is not None
        deferred = self.bench.send(transfer.request, 5 if self.version == 2 else 4)
        deferred.then(lambda response: self._on_end_response(transfer, response, is_lost))

    def _on_end_response(self, transfer: Transfer, response: EndTxnResponse, is_lost: bool) -> None:
        client, code = transfer.owner, response.error_code
        if code == 0:
            # The report of the coordinator holds, whether or not the client received it.
            assert transfer.outcome in (None, transfer.wants_commit)
            transfer.outcome = transfer.wants_commit
        if is_lost or client.current is not transfer:
            return
        if code == 0:
            self._start_next(client, transfer, response)
        elif code == errors.InvalidTxnState.code and not transfer.values:
            client.current = None  # nothing was added, so there was nothing to end
        else:
            self._fence_on(client, code)

    def _start_next(self, client: Client, transfer: Transfer, response: EndTxnResponse) -> None:
        client.current = None
        if self.version == 2:
            following: Producer | None = Producer(response.producer_id, response.producer_epoch)
        elif transfer.is_whole:
            return
        else:
            following = self._init(client.name, client.id)  # a sequence is in doubt: a new epoch
        if following is None:
            client.is_gone = True
        else:
            client.id = following
            client.sequences.clear()

    @precondition(lambda self: bool(self.active_clients()))
    @rule(data=st.data(), wants_commit=MOSTLY)
    def run_transaction_without_faults(self, data: st.DataObject, wants_commit: bool) -> None:
        """Run one transaction without faults."""
        client = data.draw(st.sampled_from(self.active_clients()), label="client")
        self._write_markers()
        self._move(client, is_late=False)
        self._end(client, wants_commit, is_lost=False)
        self._write_markers()

    @precondition(lambda self: len(self.active_clients()) > 1)
    @rule(data=st.data())
    def crash_client(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.active_clients()), label="client").is_gone = True

    @precondition(lambda self: any(transfer.request for transfer in self.transfers))
    @rule(data=st.data())
    def repeat_end_txn(self, data: st.DataObject) -> None:
        """Before version 2 an old EndTxn cannot be distinguished from a new one, the reason for KIP-890."""
        transfer = data.draw(
            st.sampled_from([transfer for transfer in self.transfers if transfer.request]), label="transfer"
        )
        if self.version == 2 or transfer.owner.current is transfer:
            self._send_end(transfer, is_lost=True)

    # -- markers, time, coordinators ----------------------------------------------------------------

    def _collect_markers(self) -> None:
        for order in self.bench.orders():
            self.markers += [(order, partition) for partition in sorted(order.partitions)]

    def _write_markers(self) -> None:
        self._collect_markers()
        while self.markers:
            order, partition = self.markers.pop(0)
            self.bench.report(order, partition, self.bench.mark(order, partition))
            self._collect_markers()

    @rule(data=st.data(), fate=st.sampled_from(["written", "written", "refused", "response lost"]))
    def deliver_marker(self, data: st.DataObject, fate: str) -> None:
        """Deliver a marker, possibly of a former coordinator."""
        self._collect_markers()
        if not self.markers:
            return
        order, partition = data.draw(st.sampled_from(self.markers), label="marker")
        self.markers.remove((order, partition))
        code = errors.NotLeaderOrFollower.code
        if fate != "refused":
            code = self.bench.mark(order, partition)
        if fate == "response lost":
            code = errors.RequestTimedOut.code
        self.bench.report(order, partition, code)

    @rule(seconds=st.sampled_from([0.1, 0.1, 1.0, 9.0, 25.0]))
    def advance_time(self, seconds: float) -> None:
        self.bench.advance(seconds)

    @rule(keep_uncommitted=MOSTLY)
    def move_coordinator(self, keep_uncommitted: bool) -> None:
        self._collect_markers()
        self.bench.reload(keep_uncommitted=keep_uncommitted)

    @rule(at_once=MOSTLY)
    def set_replication(self, at_once: bool) -> None:
        self.bench.log.commits_at_once = at_once
        self.bench.commit_all()

    # -- sequences that are rare at random ------------------------------------------------------------

    @precondition(lambda self: bool(self.active_clients()))
    @rule(data=st.data())
    def deliver_batch_after_end_txn(self, data: st.DataObject) -> None:
        """Deliver a batch after the end: the hanging transaction of KIP-890."""
        client = data.draw(st.sampled_from(self.active_clients()), label="client")
        self._move(client, is_late=True)
        self._end(client, False, is_lost=False)
        self._write_markers()
        for late in [late for late in self.late if late.has_response]:
            self.late.remove(late)
            self._append(late)

    @precondition(lambda self: bool(self.active_clients()))
    @rule(data=st.data())
    def lose_decision_with_its_coordinator(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.active_clients()), label="client")
        self._move(client, is_late=False)
        self._write_markers()
        self.bench.log.commits_at_once = False
        self._end(client, True, is_lost=False)
        self._collect_markers()
        if self.markers:
            order, partition = self.markers.pop(0)
            self.bench.report(order, partition, self.bench.mark(order, partition))
        self.bench.log.commits_at_once = True
        self.bench.reload(keep_uncommitted=False)

    @precondition(lambda self: bool(self.active_clients()))
    @rule(data=st.data())
    def deliver_markers_of_old_coordinator_late(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.active_clients()), label="client")
        self._move(client, is_late=False)
        self._end(client, True, is_lost=False)
        self._collect_markers()
        old, self.markers = self.markers, []
        self.bench.reload()
        self._write_markers()
        if client.current is None and not client.is_gone:
            self._move(client, is_late=False)
        for order, partition in old:
            self.bench.mark(order, partition)

    @precondition(lambda self: bool(self.active_clients()))
    @rule(data=st.data())
    def write_only_the_first_marker(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.active_clients()), label="client")
        self._move(client, is_late=False)
        self._write_markers()
        self._end(client, True, is_lost=False)
        self._collect_markers()
        codes = [0, errors.NotLeaderOrFollower.code]
        for (order, partition), code in zip(self.markers, codes, strict=False):
            self.bench.report(order, partition, code or self.bench.mark(order, partition))
        self.markers.clear()

    @precondition(lambda self: self.version == 2 and bool(self.active_clients()))
    @rule(data=st.data())
    def repeat_previous_end_txn(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.active_clients()), label="client")
        before = [transfer for transfer in self.transfers if transfer.owner is client and transfer.request]
        self._move(client, is_late=False)
        if before:
            self._send_end(before[-1], is_lost=True)

    # -- invariants ---------------------------------------------------------------------------------

    def visible(self) -> set[bytes]:
        return {value for partition in (A, B) for value in self.bench.committed_values(partition)}

    @invariant()
    def aborted_values_are_never_visible(self) -> None:
        """Aborted values are never read, and values that were read once stay visible."""
        visible = self.visible()
        assert self.seen <= visible
        self.seen = visible
        for transfer in self.transfers:
            if transfer.outcome is False or transfer.wants_commit is False or transfer.must_not_commit:
                assert not visible & {value for _, value in transfer.values}

    @invariant()
    def replay_of_the_log_gives_the_same_state(self) -> None:
        from pykafka2.broker.coordinators.runtime import Entry
        from pykafka2.broker.coordinators.transactions.shard import TransactionShard

        other = TransactionShard(self.bench.settings, 1, self.bench.wall_ms, self.bench.new_producer_id)
        for entry in self.bench.log.entries:
            assert isinstance(entry, Entry)
            other.replay(entry.key, entry.value, None, 0.0, entry.offset)
        mine = {name: attrs.evolve(one, last_epoch=-1) for name, one in self.bench.shard.transactions.items()}
        assert mine == other.transactions

    @invariant()
    def every_decision_has_pending_markers(self) -> None:
        ending = {name for name, one in self.bench.shard.transactions.items() if one.state.is_ending}
        assert ending == set(self.bench.shard.pending_markers)

    def teardown(self) -> None:
        """Heal all faults: no transaction is open, and each is visible in full or not at all."""
        self.bench.log.commits_at_once = True
        self.bench.commit_all()
        self._collect_markers()
        for late in self.late:
            if late.has_response:
                self._append(late)
        self._finish_markers()
        assert not [
            one for one in self.bench.shard.transactions.values() if one.state is TransactionState.ONGOING
        ]
        self.aborted_values_are_never_visible()
        visible = self.visible()
        for partition in (A, B):
            log = self.bench.partition(partition)
            assert log.last_stable_offset == log.high_watermark == log.log_end_offset, "nothing is held back"
        for transfer in self.transfers:
            values = {value for _, value in transfer.values}
            assert transfer.outcome is not True or values <= visible, "the coordinator committed it"
            assert values <= visible or not values & visible, "all of it or nothing is visible"
            assert transfer.wants_commit is True or not values & visible, "no client wanted the commit"
        assert sum(map(int, visible)) == 0, "amounts move, none comes or goes"

    def _finish_markers(self) -> None:
        for _ in range(20):
            self._write_markers()
            if not self.markers:
                self.bench.advance(15.0)
                self._collect_markers()
        assert not self.markers
        abandoned: Iterable[str] = self.bench.shard.pending_markers
        assert not list(abandoned)


Transactions.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=50, deadline=None)
TestTransactions = pytest.mark.gate(pytest.mark.slow(Transactions.TestCase))
