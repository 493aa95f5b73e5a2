"""Random producers, crashes, late and repeated requests and markers: the promises of transactions hold.

The coordinator's shard and real partition logs; the test is the clients, the network and the brokers between.
Each transaction moves an amount from one partition to the other. A transaction with a committed response is
visible as a whole; one with an aborted response never is; one without a response is visible as a whole or not
at all; and none delays the last stable offset forever.
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

NAMES = st.sampled_from(["one", "two"])
MOSTLY = st.sampled_from([True, True, True, False])
SELDOM = st.sampled_from([False, False, False, True])
TIMEOUT_MS = 20_000


@attrs.define(eq=False)
class Moved:
    """A transaction as its client knows it."""

    owner: Client
    values: list[tuple[Partition, bytes]] = attrs.field(factory=list)
    is_whole: bool = True
    """Whether both records of every move are written; otherwise the client aborts."""
    wish: bool | None = None
    outcome: bool | None = None
    """Whether the coordinator committed the transaction; None before its decision."""
    must_vanish: bool = False
    request: EndTxnRequest | None = None


@attrs.define(eq=False)
class Client:
    """A producer. `is_gone` after fencing or a crash, though its requests may still arrive."""

    name: str
    id: Producer
    sequences: dict[Partition, int] = attrs.field(factory=dict)
    current: Moved | None = None
    is_gone: bool = False


@attrs.define(eq=False)
class Late:
    """A batch that waits for the coordinator, or is on its way."""

    partition: Partition
    batch: RecordBatch
    guard: VerificationGuard | None
    question: AddPartitionsToTxnRequest | None
    answer: Deferred[AddPartitionsToTxnResponse] | None
    support: TransactionSupport

    @property
    def has_answer(self) -> bool:
        return self.answer is None or self.answer.is_done

    @property
    def is_let_in(self) -> bool:
        if self.question is None or self.answer is None:
            return True
        assert self.answer.response is not None
        return set(verification_codes(self.question, self.answer.response, self.support).values()) == {0}


class World(ShardTransactions):
    """A bench whose logs require verification."""

    def partition(self, partition: Partition) -> PartitionLog:
        log = super().partition(partition)
        log.verifications.required = True
        return log


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = World()
        self.clients: list[Client] = []
        self.moves: list[Moved] = []
        self.sent: list[tuple[WriteMarkers, Partition]] = []
        self.late: list[Late] = []
        self.seen: set[bytes] = set()
        self.count = 0
        self.version = 2

    @initialize(version=st.sampled_from([1, 2]))
    def choose_version(self, version: int) -> None:
        self.version = version
        self.bench = World(transaction_version=version)
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
        for moved in self.moves:
            if moved.owner.name == name and moved.wish is not True:
                moved.must_vanish = True
        return Producer(response.producer_id, response.producer_epoch)

    def living(self) -> list[Client]:
        return [client for client in self.clients if not client.is_gone]

    @precondition(lambda self: bool(self.living()))
    @rule(data=st.data(), is_late=SELDOM)
    def move(self, data: st.DataObject, is_late: bool) -> None:
        """Move an amount from one partition to the other; the second batch may arrive late."""
        self._move(data.draw(st.sampled_from(self.living()), label="client"), is_late)

    def _move(self, client: Client, is_late: bool) -> None:
        if client.current is not None and client.current.wish is not None:
            return
        if client.current is None:
            client.current = Moved(client)
            self.moves.append(client.current)
        self.count += 1
        amount = self.count
        self._produce(client, A, -amount, is_late=False)
        if client.current is not None and client.current.is_whole:
            self._produce(client, B, amount, is_late)

    def _produce(self, client: Client, partition: Partition, amount: int, is_late: bool) -> None:
        moved = client.current
        assert moved is not None
        if self.version < 2 and not self._add(client, partition):
            moved.is_whole = False
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
        moved.values.append((partition, value))
        late = self._ask(client, partition, data, sequence)
        if is_late or not late.has_answer:
            moved.is_whole = False
            self.late.append(late)
        elif self._append(late):
            client.sequences[partition] = sequence + 1
        else:
            moved.is_whole = False

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
        self._note_code(client, code)
        return code == 0

    def _ask(self, client: Client, partition: Partition, data: RecordBatch, sequence: int) -> Late:
        """Begin a verification as the leader does, and send it to the coordinator."""
        log, now_ms = self.bench.partition(partition), self.bench.wall_ms(self.bench.now)
        guard = log.verifications.begin(client.id.id, client.id.epoch, sequence, self.version == 2, now_ms)
        if guard is None:
            return Late(partition, data, None, None, None, self.support)
        request = verification_request(client.name, client.id.id, client.id.epoch, [partition], self.support)
        return Late(partition, data, guard, request, self.bench.send(request, 5), self.support)

    def _append(self, late: Late) -> bool:
        if not late.is_let_in:
            return False
        log = self.bench.partition(late.partition)
        try:
            log.append_as_leader(late.batch, 0, guard=late.guard)
        except BrokerError:
            return False
        log.advance_high_watermark(log.log_end_offset)
        return True

    def _note_code(self, client: Client, code: int) -> None:
        if code in (errors.ProducerFenced.code, errors.InvalidProducerIdMapping.code):
            client.is_gone = True

    @precondition(lambda self: any(late.has_answer for late in self.late))
    @rule(data=st.data())
    def a_late_batch_arrives(self, data: st.DataObject) -> None:
        late = data.draw(st.sampled_from([late for late in self.late if late.has_answer]), label="late")
        self.late.remove(late)
        self._append(late)

    @precondition(lambda self: bool(self.living()))
    @rule(data=st.data(), wish=MOSTLY, is_lost=SELDOM)
    def end(self, data: st.DataObject, wish: bool, is_lost: bool) -> None:
        """Commit or abort; after a lost response the client retries later."""
        self._end(data.draw(st.sampled_from(self.living()), label="client"), wish, is_lost)

    def _end(self, client: Client, wish: bool, is_lost: bool) -> None:
        moved = client.current
        if moved is None:
            return
        if moved.request is None:
            moved.wish = wish and moved.is_whole
            moved.request = EndTxnRequest(
                transactional_id=client.name,
                producer_id=client.id.id,
                producer_epoch=client.id.epoch,
                committed=moved.wish,
            )
        self._send_end(moved, is_lost)

    def _send_end(self, moved: Moved, is_lost: bool) -> None:
        assert moved.request is not None
        answer = self.bench.send(moved.request, 5 if self.version == 2 else 4)
        answer.then(lambda response: self._end_answered(moved, response, is_lost))

    def _end_answered(self, moved: Moved, response: EndTxnResponse, is_lost: bool) -> None:
        client, code = moved.owner, response.error_code
        if code == 0:
            # The report of the coordinator holds, whether or not the client received it.
            assert moved.outcome in (None, moved.wish)
            moved.outcome = moved.wish
        if is_lost or client.current is not moved:
            return
        if code == 0:
            self._go_on(client, moved, response)
        elif code == errors.InvalidTxnState.code and not moved.values:
            client.current = None  # nothing was added, so there was nothing to end
        else:
            self._note_code(client, code)

    def _go_on(self, client: Client, moved: Moved, response: EndTxnResponse) -> None:
        client.current = None
        if self.version == 2:
            following: Producer | None = Producer(response.producer_id, response.producer_epoch)
        elif moved.is_whole:
            return
        else:
            following = self._init(client.name, client.id)  # a sequence is in doubt: a new epoch
        if following is None:
            client.is_gone = True
        else:
            client.id = following
            client.sequences.clear()

    @precondition(lambda self: bool(self.living()))
    @rule(data=st.data(), wish=MOSTLY)
    def nothing_disturbs_a_transaction(self, data: st.DataObject, wish: bool) -> None:
        """Run one transaction without faults."""
        client = data.draw(st.sampled_from(self.living()), label="client")
        self._carry_out_markers()
        self._move(client, is_late=False)
        self._end(client, wish, is_lost=False)
        self._carry_out_markers()

    @precondition(lambda self: len(self.living()) > 1)
    @rule(data=st.data())
    def a_client_crashes(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.living()), label="client").is_gone = True

    @precondition(lambda self: any(moved.request for moved in self.moves))
    @rule(data=st.data())
    def an_end_arrives_again(self, data: st.DataObject) -> None:
        """Before version 2 an old EndTxn cannot be distinguished from a new one, the reason for KIP-890."""
        moved = data.draw(st.sampled_from([moved for moved in self.moves if moved.request]), label="moved")
        if self.version == 2 or moved.owner.current is moved:
            self._send_end(moved, is_lost=True)

    # -- markers, time, coordinators ----------------------------------------------------------------

    def _collect(self) -> None:
        for order in self.bench.orders():
            self.sent += [(order, partition) for partition in sorted(order.partitions)]

    def _carry_out_markers(self) -> None:
        self._collect()
        while self.sent:
            order, partition = self.sent.pop(0)
            self.bench.report(order, partition, self.bench.mark(order, partition))
            self._collect()

    @rule(data=st.data(), fate=st.sampled_from(["written", "written", "refused", "answer lost"]))
    def a_marker_arrives(self, data: st.DataObject, fate: str) -> None:
        """Deliver a marker, possibly of a former coordinator."""
        self._collect()
        if not self.sent:
            return
        order, partition = data.draw(st.sampled_from(self.sent), label="marker")
        self.sent.remove((order, partition))
        code = errors.NotLeaderOrFollower.code
        if fate != "refused":
            code = self.bench.mark(order, partition)
        if fate == "answer lost":
            code = errors.RequestTimedOut.code
        self.bench.report(order, partition, code)

    @rule(seconds=st.sampled_from([0.1, 0.1, 1.0, 9.0, 25.0]))
    def time_passes(self, seconds: float) -> None:
        self.bench.advance(seconds)

    @rule(keep_uncommitted=MOSTLY)
    def the_coordinator_moves(self, keep_uncommitted: bool) -> None:
        self._collect()
        self.bench.reload(keep_uncommitted=keep_uncommitted)

    @rule(at_once=MOSTLY)
    def its_log_is_replicated(self, at_once: bool) -> None:
        self.bench.log.commits_at_once = at_once
        self.bench.commit_all()

    # -- sequences that are rare at random ------------------------------------------------------------

    @precondition(lambda self: bool(self.living()))
    @rule(data=st.data())
    def a_batch_arrives_after_the_end(self, data: st.DataObject) -> None:
        """Deliver a batch after the end: the hanging transaction of KIP-890."""
        client = data.draw(st.sampled_from(self.living()), label="client")
        self._move(client, is_late=True)
        self._end(client, False, is_lost=False)
        self._carry_out_markers()
        for late in [late for late in self.late if late.has_answer]:
            self.late.remove(late)
            self._append(late)

    @precondition(lambda self: bool(self.living()))
    @rule(data=st.data())
    def a_decision_is_lost_with_its_coordinator(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.living()), label="client")
        self._move(client, is_late=False)
        self._carry_out_markers()
        self.bench.log.commits_at_once = False
        self._end(client, True, is_lost=False)
        self._collect()
        if self.sent:
            order, partition = self.sent.pop(0)
            self.bench.report(order, partition, self.bench.mark(order, partition))
        self.bench.log.commits_at_once = True
        self.bench.reload(keep_uncommitted=False)

    @precondition(lambda self: bool(self.living()))
    @rule(data=st.data())
    def an_old_coordinators_markers_come_late(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.living()), label="client")
        self._move(client, is_late=False)
        self._end(client, True, is_lost=False)
        self._collect()
        old, self.sent = self.sent, []
        self.bench.reload()
        self._carry_out_markers()
        if client.current is None and not client.is_gone:
            self._move(client, is_late=False)
        for order, partition in old:
            self.bench.mark(order, partition)

    @precondition(lambda self: bool(self.living()))
    @rule(data=st.data())
    def one_leader_takes_its_marker_and_one_does_not(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.living()), label="client")
        self._move(client, is_late=False)
        self._carry_out_markers()
        self._end(client, True, is_lost=False)
        self._collect()
        codes = [0, errors.NotLeaderOrFollower.code]
        for (order, partition), code in zip(self.sent, codes, strict=False):
            self.bench.report(order, partition, code or self.bench.mark(order, partition))
        self.sent.clear()

    @precondition(lambda self: self.version == 2 and bool(self.living()))
    @rule(data=st.data())
    def the_end_before_arrives_again(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.living()), label="client")
        before = [moved for moved in self.moves if moved.owner is client and moved.request]
        self._move(client, is_late=False)
        if before:
            self._send_end(before[-1], is_lost=True)

    # -- invariants ---------------------------------------------------------------------------------

    def visible(self) -> set[bytes]:
        return {value for partition in (A, B) for value in self.bench.committed_values(partition)}

    @invariant()
    def what_is_said_or_fenced_to_be_aborted_is_never_seen(self) -> None:
        """Aborted values are never read, and values that were read once stay visible."""
        visible = self.visible()
        assert self.seen <= visible
        self.seen = visible
        for moved in self.moves:
            if moved.outcome is False or moved.wish is False or moved.must_vanish:
                assert not visible & {value for _, value in moved.values}

    @invariant()
    def a_new_coordinator_would_know_the_same(self) -> None:
        from pykafka2.broker.coordinators.runtime import Entry
        from pykafka2.broker.coordinators.transactions.shard import TransactionShard

        other = TransactionShard(self.bench.settings, 1, self.bench.wall_ms, self.bench.new_producer_id)
        for entry in self.bench.log.entries:
            assert isinstance(entry, Entry)
            other.replay(entry.key, entry.value, None, 0.0)
        mine = {name: attrs.evolve(one, last_epoch=-1) for name, one in self.bench.shard.transactions.items()}
        assert mine == other.transactions

    @invariant()
    def every_decision_is_being_carried_out(self) -> None:
        ending = {name for name, one in self.bench.shard.transactions.items() if one.state.is_ending}
        assert ending == set(self.bench.shard.pending_markers)

    def teardown(self) -> None:
        """Heal all faults: no transaction is open, and each is visible in full or not at all."""
        self.bench.log.commits_at_once = True
        self.bench.commit_all()
        self._collect()
        for late in self.late:
            if late.has_answer:
                self._append(late)
        self._heal()
        assert not [
            one for one in self.bench.shard.transactions.values() if one.state is TransactionState.ONGOING
        ]
        self.what_is_said_or_fenced_to_be_aborted_is_never_seen()
        visible = self.visible()
        for partition in (A, B):
            log = self.bench.partition(partition)
            assert log.last_stable_offset == log.high_watermark == log.log_end_offset, "nothing is held back"
        for moved in self.moves:
            values = {value for _, value in moved.values}
            assert moved.outcome is not True or values <= visible, "said to be committed"
            assert values <= visible or not values & visible, "wholly or not at all"
            assert moved.wish is True or not values & visible, "no client ended it so"
        assert sum(map(int, visible)) == 0, "amounts move, none comes or goes"

    def _heal(self) -> None:
        for _ in range(20):
            self._carry_out_markers()
            if not self.sent:
                self.bench.advance(15.0)
                self._collect()
        assert not self.sent
        abandoned: Iterable[str] = self.bench.shard.pending_markers
        assert not list(abandoned)


Transactions.TestCase.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
TestTransactions = pytest.mark.gate(pytest.mark.slow(Transactions.TestCase))
