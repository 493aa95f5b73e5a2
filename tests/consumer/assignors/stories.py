"""Groups over several rebalances, made from a seed: the input of Kafka's assignors, and then of ours.

A member's id is one character whose number says its place, because Kafka's sticky assignors take members in
the order of a Java hash table, which is that of ids only for such.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from pykafka2.consumer.assignors.assignor import Assignment, Assignor, LastAssignment, MemberSubscription

Answers = Mapping[str, Assignment]

FIRST_ID: Final = 0x100


@attrs.define(frozen=True)
class Question:
    """The input about a group: racks by broker, brokers by topic and partition, members by id."""

    racks: tuple[str | None, ...]
    replicas: Mapping[str, tuple[tuple[int, ...], ...]]
    members: Mapping[str, MemberSubscription]


@attrs.define(frozen=True)
class Shape:
    """How large a group is and what happens to it."""

    members: int
    topics: int
    partitions: int
    rebalances: int
    read_the_same: bool
    has_racks: bool
    are_static: bool = False


def member_id(place: int) -> str:
    return chr(FIRST_ID + place)


def play(
    shape: Shape, seed: int, assignor: Assignor, ask: Callable[[Question], Answers]
) -> Iterator[tuple[Question, Answers]]:
    """Each rebalance of a group; in the next one members own what `ask` has answered in this."""
    rng = random.Random(seed)
    racks = tuple(rng.choice("abc") if shape.has_racks else None for _ in range(4))
    topics = [f"t{number:02}" for number in range(shape.topics)]
    replicas = {topic: _placed(rng, rng.randint(1, shape.partitions)) for topic in topics}
    members = {place: _member(rng, shape, topics, place) for place in range(shape.members)}
    last: dict[int, LastAssignment] = {}
    for generation in range(1, shape.rebalances + 1):
        subscribed = {
            member_id(place): _subscription(member, assignor, last.get(place), generation - 1)
            for place, member in sorted(members.items())
        }
        question = Question(racks, dict(replicas), subscribed)
        answers = ask(question)
        yield question, answers
        last = {place: LastAssignment(answers[member_id(place)].partitions, generation) for place in members}
        _change(rng, shape, topics, replicas, members)


def _placed(rng: random.Random, count: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(rng.sample(range(4), rng.randint(1, 2))) for _ in range(count))


def _member(rng: random.Random, shape: Shape, topics: Sequence[str], place: int) -> MemberSubscription:
    mine = topics if shape.read_the_same else sorted(rng.sample(topics, rng.randint(1, len(topics))))
    return MemberSubscription(
        tuple(mine),
        rack=rng.choice(["a", "b", "c", None]) if shape.has_racks else None,
        instance_id=f"static-{1000 - place}" if shape.are_static and rng.random() < 0.5 else None,
    )


def _subscription(
    member: MemberSubscription, assignor: Assignor, last: LastAssignment | None, generation: int
) -> MemberSubscription:
    """The member's own claim; a member that gave up all partitions has only its user data to report them."""
    user_data = assignor.user_data(frozenset(member.topics), last)
    if last is None:
        return attrs.evolve(member, user_data=user_data)
    return attrs.evolve(member, user_data=user_data, owned=last.partitions, generation=generation)


def _change(
    rng: random.Random,
    shape: Shape,
    topics: Sequence[str],
    replicas: dict[str, tuple[tuple[int, ...], ...]],
    members: dict[int, MemberSubscription],
) -> None:
    """Some members leave, some come, one reads something else, a topic grows."""
    for place in rng.sample(sorted(members), min(len(members) - 1, rng.randint(0, 1 + len(members) // 4))):
        del members[place]
    absent = [place for place in range(shape.members) if place not in members]
    for place in rng.sample(absent, rng.randint(0, len(absent))):
        members[place] = _member(rng, shape, topics, place)
    if not shape.read_the_same:
        place = rng.choice(sorted(members))
        members[place] = attrs.evolve(_member(rng, shape, topics, place), rack=members[place].rack)
    grown = rng.choice(topics)
    replicas[grown] += _placed(rng, rng.randint(0, 3))


def compact(answers: Answers) -> dict[str, str]:
    """An answer as the golden file has it: `{"Ā": "t00:0,3 t01:7"}`."""
    lines: dict[str, str] = {}
    for member, assignment in sorted(answers.items()):
        numbers: dict[str, list[str]] = {}
        for one in sorted(assignment.partitions):
            numbers.setdefault(one.topic, []).append(str(one.partition))
        lines[member] = " ".join(f"{topic}:{','.join(some)}" for topic, some in numbers.items())
    return lines
