"""The benchmark of what security costs still runs, and its tables have a row for each way of a client."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.producer.clients import CLIENTS as PRODUCERS
from benchmarks.security.__main__ import main, parse, plan_of
from benchmarks.security.logins import LOGINS
from benchmarks.security.report import targets
from benchmarks.security.runs import CLIENTS, LOG_IN, SEND, Cell, Run
from tests.benchmarks.commands import table_of


def test_every_target_ratio_is_played() -> None:
    plan = plan_of(parse([]))
    played = {(run.cell, run.client) for cell in plan.cells for run in plan.runs_of(cell)}
    for broker in ("apache", "bundled"):
        for target in targets(broker):
            assert (target.cell, target.one) in played
            assert (target.cell, target.other) in played
    assert set(CLIENTS[LOG_IN]) == set(LOGINS)
    assert set(CLIENTS[SEND]) <= set(PRODUCERS)


def test_each_client_gets_its_own_connection_options() -> None:
    options = {"security_protocol": "SASL_SSL", "ssl_cafile": "ca.pem", "sasl_mechanism": "SCRAM-SHA-256"}
    run = Run("any", Cell(), 1, "localhost:1", options=options)
    assert run.for_pykafka2() == {"bootstrap_servers": "localhost:1", **options}
    assert run.for_confluent() == {
        "bootstrap.servers": "localhost:1",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "ca.pem",
        "sasl.mechanisms": "SCRAM-SHA-256",
    }


def test_list_prints_the_planned_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--smoke"]) == 0
    shown = capsys.readouterr().out
    assert "pykafka2 send, TLS" in shown
    assert "22 runs" in shown


@pytest.mark.gate
@pytest.mark.slow
def test_the_command_writes_a_table(tmp_path: Path) -> None:
    few = ["--smoke", "--kind", SEND, "--kind", LOG_IN]
    table = table_of("security", *few, out=tmp_path / "cost.txt", clients=["pykafka2 send", "pykafka2"])
    for name in ("pykafka2 send, plaintext", "pykafka2 send, TLS", "pykafka2, SCRAM-SHA-256"):
        assert f"\n  {name} " in table
    assert "\ntargets\n" in table
