"""A coordinator can refuse every kind of request, whatever modules the broker has loaded by then."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pykafka2.broker.coordinators import refusals

# In a process of its own, as other tests load both coordinators.
ALONE = """
from pykafka2.broker.coordinators.refusals import refusal
from pykafka2.protocol.messages.group import HeartbeatRequest
from pykafka2.protocol.messages.transaction import InitProducerIdRequest

heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
init = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000)
print(refusal(heartbeat, 4, 14).error_code, refusal(init, 4, 14).error_code)
"""


@pytest.mark.slow
def test_both_kinds_of_coordinators_refuse_without_a_coordinator_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert done.stdout.split() == ["14", "14"], done.stderr


def test_each_request_of_a_coordinator_has_one_refusal() -> None:
    both = refusals.groups.REFUSERS.keys() & refusals.transactions.REFUSERS.keys()
    assert both == set()
    assert len(refusals.groups.REFUSERS) > 10
    assert len(refusals.transactions.REFUSERS) > 4
