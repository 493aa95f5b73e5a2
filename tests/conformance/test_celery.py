"""Celery's workers on Apache Kafka: the tasks of killed ones, results and remote control."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("celery")

from tests.contrib.test_celery import Workers, check_killed_worker, check_results

from .real_kafka import RealKafka

pytestmark = [pytest.mark.real_kafka, pytest.mark.long]


@pytest.fixture
def workers(real_kafka: RealKafka, tmp_path: Path) -> Iterator[Workers]:
    with Workers(real_kafka.bootstrap_servers, tmp_path) as workers:
        yield workers


def test_killed_worker_loses_no_task_on_apache_kafka(workers: Workers) -> None:
    check_killed_worker(workers)


def test_results_and_remote_control_on_apache_kafka(workers: Workers) -> None:
    check_results(workers)
