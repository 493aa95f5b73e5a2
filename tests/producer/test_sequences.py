"""Sequence numbers: gapless per partition, wrapped, and restarted under the next epoch after a hole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.accumulator.batch_records import NO_IDENTITY, NO_SEQUENCE, Identity
from pykafka2.producer.idempotence import (
    LAST_EPOCH,
    IdempotentPolicy,
    IdentityPolicy,
    Sequences,
    next_sequence,
)
from tests.producer.rows import a_batch as open_batch
from tests.producer.rows import appended


def a_batch(order: int = 0, records: int = 1, partition: int = 0) -> ProducerBatch:
    batch = open_batch(partition=partition, order=order)
    for _ in range(records):
        appended(batch)
    batch.seal()
    return batch


def known(epoch: int = 0) -> Sequences:
    sequences = Sequences(IdempotentPolicy())
    sequences.on_identity(7, epoch)
    return sequences


def refused(sequences: Sequences, batch: ProducerBatch, sent_as: Identity) -> None:
    """Consequences of a response that the batch is out of order."""
    if sequences.is_in_turn(batch, sent_as):
        sequences.renumber(batch)


def started(*partitions: int) -> Sequences:
    """One record was written to each of these partitions, by default to number 0."""
    sequences = known()
    for partition in partitions or (0,):
        batch = a_batch(partition=partition)
        send(sequences, batch)
        sequences.on_written(batch)
    return sequences


def send(sequences: Sequences, *batches: ProducerBatch) -> None:
    for batch in batches:
        assert sequences.may_send(batch)
        sequences.assign(batch)


def test_batch_is_not_sent_before_the_producer_has_an_id() -> None:
    sequences = Sequences(IdempotentPolicy())
    assert not sequences.may_send(a_batch())
    sequences.on_identity(7, 0)
    assert sequences.may_send(a_batch())


def test_a_copy_may_come_late_if_any_of_those_before_it_may() -> None:
    sequences = started()
    lost, refused_one, behind = a_batch(1), a_batch(2), a_batch(3)
    send(sequences, lost, refused_one, behind)
    sequences.on_failed(lost, may_be_written=True)
    sequences.on_failed(refused_one, may_be_written=False)
    assert sequences.may_come_late(behind)


@given(st.integers(0, 2**31 - 1), st.integers(1, 10_000))
def test_the_number_after_the_largest_is_zero(sequence: int, records: int) -> None:
    expected = sequence
    expected = expected + records if expected + records <= 2**31 - 1 else expected + records - 2**31
    assert next_sequence(sequence, records) == expected


def test_batches_are_numbered_without_gap_in_each_partition() -> None:
    sequences = started(0, 1)
    batches = [a_batch(0, 3), a_batch(1, 2), a_batch(0, 4, partition=1)]
    send(sequences, *batches)
    assert [(*one.identity, one.base_sequence) for one in batches] == [
        (7, 0, 1),
        (7, 0, 4),
        (7, 0, 1),
    ]


def test_a_partition_gets_one_batch_until_the_broker_knows_the_producer() -> None:
    sequences = known()
    first, second, third = [a_batch(order) for order in range(3)]
    send(sequences, first)
    assert not sequences.may_send(second)
    assert sequences.may_send(a_batch(partition=1))
    sequences.on_written(first)
    send(sequences, second, third)


def test_at_most_five_are_unfinished_in_a_partition() -> None:
    sequences = started()
    first, *rest = [a_batch(order) for order in range(6)]
    send(sequences, first, *rest[:4])
    assert not sequences.may_send(rest[4])
    assert sequences.may_send(a_batch(partition=1))
    sequences.on_written(first)
    assert sequences.may_send(rest[4])


def test_five_are_counted_from_the_oldest_unfinished_on_done_or_not() -> None:
    """The story of simulation seed 511: the leader moves while its answers are on their way.

    The new leader has 1 to 4 by replication, takes 5 and 6, and knows a producer's last five batches only:
    when the retry of 1 arrives it is no duplicate any more but out of order, and written once more.
    """
    sequences = started()
    old = [a_batch(order) for order in range(4)]
    send(sequences, *old)
    to_the_new_leader = a_batch(4)
    send(sequences, to_the_new_leader)
    sequences.on_written(to_the_new_leader)
    assert not sequences.may_send(a_batch(5))
    sequences.on_written(old[1])
    assert not sequences.may_send(a_batch(5))
    sequences.on_written(old[0])
    assert sequences.may_send(a_batch(5))


def test_in_flight_limit_of_five_counts_renumbered_batches() -> None:
    sequences = started()
    first, second = a_batch(0), a_batch(1)
    send(sequences, first, second)
    refused(sequences, first, (7, 0))
    send(sequences, first)
    sequences.on_written(first)
    send(sequences, second, a_batch(2), a_batch(3), a_batch(4), a_batch(5))
    assert not sequences.may_send(a_batch(6))


def test_resent_batches_keep_their_bytes_and_order() -> None:
    sequences = started()
    first, second = a_batch(0), a_batch(1)
    send(sequences, first, second)
    bytes_before = second.bytes()
    assert not sequences.may_send(second)
    send(sequences, first)
    sequences.on_written(first)
    send(sequences, second)
    assert second.bytes() is bytes_before


def test_a_refusal_behind_an_unfinished_batch_changes_nothing() -> None:
    sequences = started()
    first, second = a_batch(0), a_batch(1)
    send(sequences, first, second)
    refused(sequences, second, (7, 0))
    assert sequences.identity == (7, 0)
    assert second.base_sequence == 2


def test_batches_behind_a_lost_batch_are_renumbered_under_the_next_epoch() -> None:
    sequences = started()
    lost, second, third = a_batch(0, 3), a_batch(1, 2), a_batch(2)
    send(sequences, lost, second, third)
    sequences.on_failed(lost, may_be_written=False)
    assert not sequences.may_send(a_batch(3))  # nothing new may follow a hole
    refused(sequences, second, (7, 0))
    refused(sequences, third, (7, 0))
    assert sequences.identity == (7, 1)
    assert sequences.may_send(second)
    assert (second.identity[1], second.base_sequence) == (1, 0)
    assert (third.identity[1], third.base_sequence) == (1, 2)
    # The answer to what was sent under the old epoch comes late, and is about numbers that are gone.
    refused(sequences, second, (7, 0))
    assert sequences.identity == (7, 1)


def test_after_a_lost_batch_with_nothing_behind_it_the_next_begins_under_the_next_epoch() -> None:
    sequences = known()
    lost, following = a_batch(0), a_batch(1)
    send(sequences, lost)
    sequences.on_failed(lost, may_be_written=False)
    send(sequences, following)
    assert (following.identity[1], following.base_sequence) == (1, 0)


def test_a_batch_that_was_never_numbered_leaves_no_hole() -> None:
    sequences = known()
    sequences.on_failed(a_batch(0), may_be_written=False)
    following = a_batch(1)
    send(sequences, following)
    assert (following.identity[1], following.base_sequence) == (0, 0)


def test_other_partitions_keep_the_old_epoch_until_nothing_of_theirs_is_unfinished() -> None:
    sequences = known()
    lost, other = a_batch(0), a_batch(0, partition=1)
    send(sequences, lost, other)
    sequences.on_failed(lost, may_be_written=False)
    send(sequences, a_batch(1))
    assert sequences.identity == (7, 1)
    later = a_batch(1, partition=1)
    assert not sequences.may_send(later)
    sequences.on_written(other)
    send(sequences, later)
    assert (later.identity[1], later.base_sequence) == (1, 0)


def test_past_the_last_epoch_a_new_id_is_needed() -> None:
    sequences = known(LAST_EPOCH)
    lost, following = a_batch(0), a_batch(1)
    send(sequences, lost)
    sequences.on_failed(lost, may_be_written=False)
    assert not sequences.may_send(following)
    assert sequences.identity == NO_IDENTITY
    sequences.on_identity(8, 0)
    send(sequences, following)
    assert (following.identity, following.base_sequence) == ((8, 0), 0)


def test_a_refusal_while_a_new_id_is_awaited_makes_none_up() -> None:
    sequences = known(LAST_EPOCH)
    batches = [a_batch(partition=partition) for partition in range(2)]
    send(sequences, *batches)
    for batch in batches:
        refused(sequences, batch, (7, LAST_EPOCH))
    assert sequences.identity == NO_IDENTITY
    sequences.on_identity(8, 0)
    assert sequences.may_send(batches[1])
    assert (batches[1].identity, batches[1].base_sequence) == ((8, 0), 0)


def test_an_unnumbered_batch_has_no_sequence() -> None:
    assert a_batch().base_sequence == NO_SEQUENCE


def test_a_policy_that_may_not_raise_the_epoch_stops_the_partition_behind_a_hole() -> None:
    sequences = Sequences(IdentityPolicy())
    sequences.on_identity(7, 3)
    lost, following = a_batch(0), a_batch(1)
    send(sequences, lost)
    sequences.on_failed(lost, may_be_written=False)
    assert not sequences.may_send(following)
    assert sequences.may_send(a_batch(0, partition=1))
    sequences.on_identity(7, 4)  # as a coordinator tells after it has ended the transaction
    send(sequences, following)
    assert (following.identity[1], following.base_sequence) == (4, 0)
