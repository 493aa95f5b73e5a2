"""The public signatures, checked by mypy as an application would see them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from mypy import api

from pykafka2 import KafkaConsumer, KafkaProducer, aio

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.slow
def test_applications_type_check(tmp_path: Path) -> None:
    out, err, status = api.run(
        [
            "--strict",
            "--config-file",
            str(ROOT / "pyproject.toml"),
            "--cache-dir",
            str(tmp_path),
            str(HERE / "uses.py"),
        ]
    )
    assert status == 0, out + err


def public_names(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_") and callable(getattr(cls, name))}


@pytest.mark.parametrize(
    ("on_the_loop", "blocking"),
    [(aio.KafkaProducer, KafkaProducer), (aio.KafkaConsumer, KafkaConsumer)],
    ids=["producer", "consumer"],
)
def test_the_asyncio_clients_have_the_names_of_the_blocking_ones(on_the_loop: type, blocking: type) -> None:
    assert public_names(on_the_loop) <= public_names(blocking)


@pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer])
def test_every_public_method_says_what_it_promises(client: type) -> None:
    silent = [name for name in public_names(client) if not inspect.getdoc(getattr(client, name))]
    assert silent == []
