"""The states of transactions: their table, and every event in every state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import attrs
import pytest

from pykafka2 import errors
from pykafka2.broker.coordinators.replay import Producer
from pykafka2.broker.coordinators.transactions.state import LEGAL_MOVES, STATES, Transaction, TransactionState
from pykafka2.errors import CorruptData, IllegalTransition
from pykafka2.protocol.messages.transaction_records import TransactionLogValue
from tests.broker.support.transactions import A, B, ShardTransactions

NAMES = {
    0: "ok",
    errors.ConcurrentTransactions.code: "CONCURRENT",
    errors.ProducerFenced.code: "FENCED",
    errors.InvalidTxnState.code: "INVALID_STATE",
    errors.InvalidProducerIdMapping.code: "WRONG_ID",
}

EPOCH = 5
PRODUCER_ID = 1001


def in_state(state: TransactionState, version: int) -> tuple[ShardTransactions, Producer]:
    """Return a coordinator with a transaction in this state, and its producer."""
    bench = ShardTransactions(transaction_version=version)
    bench.begin()
    has_partitions = state in (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    )
    bench.shard.transactions[bench.name] = attrs.evolve(
        bench.transaction,
        state=state,
        epoch=EPOCH,
        partitions=frozenset({A}) if has_partitions else frozenset(),
        started_ms=bench.wall_ms(0) if has_partitions else -1,
        client_version=version,
    )
    return bench, Producer(PRODUCER_ID, EPOCH)


Event = Callable[[ShardTransactions, Producer], int]


def code_of(codes: set[int]) -> int:
    (code,) = codes
    return code


def before(producer: Producer) -> Producer:
    return Producer(producer.id, producer.epoch - 1)


def after(producer: Producer) -> Producer:
    return Producer(producer.id, producer.epoch + 1)


EVENTS: dict[str, Event] = {
    "init": lambda bench, producer: bench.init().error_code,
    "init, current epoch": lambda bench, producer: bench.init(producer).error_code,
    "init, old epoch": lambda bench, producer: bench.init(before(producer)).error_code,
    "add": lambda bench, producer: code_of(bench.add(producer, (B,))),
    "add, old epoch": lambda bench, producer: code_of(bench.add(before(producer), (B,))),
    "add, other id": lambda bench, producer: code_of(bench.add(Producer(7, producer.epoch), (B,))),
    "commit": lambda bench, producer: bench.end(producer, version=4).error_code,
    "abort": lambda bench, producer: bench.end(producer, committed=False, version=4).error_code,
    "commit, old epoch": lambda bench, producer: bench.end(before(producer), version=4).error_code,
    "commit, other id": lambda bench, producer: bench.end(Producer(7, EPOCH), version=4).error_code,
    "commit v2": lambda bench, producer: bench.end(producer).error_code,
    "abort v2": lambda bench, producer: bench.end(producer, committed=False).error_code,
    "commit v2, retry": lambda bench, producer: bench.end(before(producer)).error_code,
    "abort v2, retry": lambda bench, producer: bench.end(before(producer), committed=False).error_code,
    "commit v2, future epoch": lambda bench, producer: bench.end(after(producer)).error_code,
    "commit v2, other id": lambda bench, producer: bench.end(Producer(7, EPOCH)).error_code,
}

# The response, and the state afterwards ("-": unchanged), in these states: Empty, Ongoing, PrepareCommit and
# PrepareAbort (which stay while markers are pending), CompleteCommit, CompleteAbort.
MATRIX: dict[str, list[str]] = {
    "init": ["ok Empty", "CONCURRENT PrepareAbort", "CONCURRENT", "ok Empty", "ok Empty"],
    "init, current epoch": ["ok Empty", "CONCURRENT PrepareAbort", "CONCURRENT", "ok Empty", "ok Empty"],
    # While a transaction is open Kafka fences its producer, before it checks the epoch.
    "init, old epoch": ["FENCED Empty", "CONCURRENT PrepareAbort", "CONCURRENT", "FENCED -", "FENCED -"],
    "add": ["ok Ongoing", "ok Ongoing", "CONCURRENT", "ok Ongoing", "ok Ongoing"],
    "add, old epoch": ["FENCED -"] * 2 + ["FENCED"] + ["FENCED -"] * 2,
    "add, other id": ["WRONG_ID -"] * 2 + ["WRONG_ID"] + ["WRONG_ID -"] * 2,
    "commit": ["INVALID_STATE -", "ok PrepareCommit", "CONCURRENT", "ok -", "INVALID_STATE -"],
    "abort": ["INVALID_STATE -", "ok PrepareAbort", "CONCURRENT", "INVALID_STATE -", "ok -"],
    "commit, old epoch": ["FENCED -"] * 2 + ["FENCED"] + ["FENCED -"] * 2,
    "commit, other id": ["WRONG_ID -"] * 2 + ["WRONG_ID"] + ["WRONG_ID -"] * 2,
    "commit v2": [
        "INVALID_STATE -",
        "ok PrepareCommit",
        "CONCURRENT",
        "INVALID_STATE -",
        "INVALID_STATE -",
    ],
    "abort v2": [
        "ok CompleteAbort",
        "ok PrepareAbort",
        "CONCURRENT",
        "ok CompleteAbort",
        "ok CompleteAbort",
    ],
    "commit v2, retry": ["FENCED -", "FENCED -", "CONCURRENT", "ok -", "INVALID_STATE -"],
    "abort v2, retry": ["FENCED -", "FENCED -", "CONCURRENT", "INVALID_STATE -", "ok -"],
    "commit v2, future epoch": ["FENCED -", "FENCED -", "CONCURRENT", "FENCED -", "FENCED -"],
    # With version 2 each request meanwhile gets CONCURRENT_TRANSACTIONS, before other checks.
    "commit v2, other id": ["WRONG_ID -", "WRONG_ID -", "CONCURRENT", "WRONG_ID -", "WRONG_ID -"],
}

RECORDED_STATES = [
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
]
COLUMN = [0, 1, 2, 2, 3, 4]


def cases() -> Iterator[tuple[TransactionState, str, str, int]]:
    for (state, column), event in product(zip(RECORDED_STATES, COLUMN, strict=True), EVENTS):
        for version in (1, 2):
            yield state, event, MATRIX[event][column], version


@pytest.mark.parametrize(("state", "event", "expected", "version"), list(cases()))
def test_every_event_in_every_state(state: TransactionState, event: str, expected: str, version: int) -> None:
    bench, producer = in_state(state, version)
    response, _, becomes = expected.partition(" ")
    records = len(bench.log.entries)
    transaction = bench.transaction
    assert NAMES[EVENTS[event](bench, producer)] == response
    if becomes in ("", "-") or becomes == state.value:
        assert bench.transaction.state is state
    else:
        assert bench.state == becomes
    if response == "ok" and becomes not in ("", "-"):
        assert len(bench.log.entries) > records
    elif becomes in ("", "-"):
        assert bench.transaction == transaction
        assert len(bench.log.entries) == records


def test_end_of_an_unknown_transactional_id_gets_invalid_producer_id_mapping() -> None:
    bench = ShardTransactions()
    code = errors.InvalidProducerIdMapping.code
    assert bench.end(Producer(1, 0)).error_code == code
    assert bench.end(Producer(1, 0), version=4).error_code == code
    assert bench.add(Producer(1, 0)) == {code}
    assert bench.add_offsets(Producer(1, 0)) == code


@pytest.mark.parametrize(("state", "target"), list(product(STATES, STATES)))
def test_transaction_state_changes_follow_the_table_or_raise(
    state: TransactionState, target: TransactionState
) -> None:
    transaction = Transaction(id="t", producer_id=1, timeout_ms=1, updated_ms=0, state=state)
    if target in LEGAL_MOVES[state]:
        assert transaction.moved_to(target).state is target
    else:
        with pytest.raises(IllegalTransition):
            transaction.moved_to(target)
    assert transaction.state is state


def test_states_have_kafkas_names_and_numbers() -> None:
    assert [(state.number, state.value) for state in STATES] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]


@pytest.mark.parametrize("number", [-1, 6, 7, 8])
def test_record_with_an_invalid_state_is_corrupt(number: int) -> None:
    value: TransactionLogValue = Transaction(id="t", producer_id=1, timeout_ms=1, updated_ms=0).to_value(1)
    value.transaction_status = number
    with pytest.raises(CorruptData):
        Transaction.from_value("t", value)


@pytest.mark.parametrize("state", RECORDED_STATES)
def test_transaction_record_keeps_all_fields_but_the_last_epoch(state: TransactionState) -> None:
    transaction = Transaction(
        id="t",
        producer_id=9,
        previous_producer_id=8,
        next_producer_id=10,
        epoch=3,
        last_epoch=2,
        timeout_ms=1000,
        state=state,
        partitions=frozenset() if state is TransactionState.EMPTY else frozenset({A, B, ("u", 7)}),
        started_ms=11,
        updated_ms=12,
        client_version=2,
    )
    value = TransactionLogValue.decode(transaction.to_value(1).encode(1), 1)
    assert Transaction.from_value("t", value) == attrs.evolve(transaction, last_epoch=-1)
