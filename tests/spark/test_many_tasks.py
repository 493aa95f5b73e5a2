"""A batch of very many tasks: its decision fits into the ledger under default limits, also in a recovery."""

from __future__ import annotations

import pytest

from spark_connector.sink.exactly_once import ledger as ledger_module
from spark_connector.sink.exactly_once.ledger_state import Phase
from spark_connector.sink.exactly_once.runner import Cluster
from spark_connector.sink.task import MOST_TASKS
from tests.spark.test_batch_identity import decided
from tests.spark.test_exactly_once import World, _hooked, world

__all__ = ["_hooked", "world"]  # fixtures


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [10_000, MOST_TASKS])
def test_decision_of_many_tasks_is_written_and_read_by_the_next_run(world: World, tasks: int) -> None:
    state = decided(tasks)
    ledger = Cluster(world.options(), state.sink).ledger
    ledger.own(None)
    ledger.write(state)
    ledger_module._read.clear()
    found = ledger.own("the next run")
    assert found == state
    ledger.write(found.ended((1, tasks - 1)))
    ledger_module._read.clear()
    found = ledger.own(None, fresh=True)
    assert (found.phase, found.missing, found.rows) == (Phase.REDO, (1, tasks - 1), state.rows)
