"""Draws docs/images/dashboard.svg: the panels of examples/observability/dashboard.json, from a real run.

    python -m benchmarks.dashboard

Needs `prometheus` (Debian's package of this name) and the extras `bench` and `prometheus`. For three minutes
two producers and two groups work on three brokers; one consumer leaves, one stops for 40 seconds, and one
broker crashes. Prometheus scrapes the clients and `pykafka2 metrics serve`, and evaluates the expressions.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server

from benchmarks.side_by_side.drawing import save
from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.contrib.prometheus import ClientCollector
from pykafka2.testing import KafkaCluster

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "images" / "dashboard.svg"
BOARD = ROOT / "examples" / "observability" / "dashboard.json"
SECONDS = 180
PAUSE, LEAVE, CRASH, RESTART = range(40, 80), 70, 120, 145
PORT = 19090
CONFIG = """
global: {{scrape_interval: 2s}}
scrape_configs:
  - job_name: kafka
    static_configs: [{{targets: ["{cluster}"]}}]
  - job_name: services
    static_configs: [{{targets: ["{clients}"]}}]
"""


class Run:
    """The clients on their threads; `second` is the time since the start."""

    def __init__(self, servers: str) -> None:
        self.began = time.monotonic()
        self.servers = servers
        self.collector = ClientCollector()
        self._threads: list[threading.Thread] = []

    @property
    def second(self) -> int:
        return int(time.monotonic() - self.began)

    def start(self, work: Callable[..., None], *arguments: Any) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments))
        self._threads[-1].start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def produce(self, client_id: str, topic: str, per_second: int) -> None:
        with KafkaProducer(bootstrap_servers=self.servers, client_id=client_id, acks="all") as producer:
            self.collector.add(producer)
            while self.second < SECONDS:
                producer.send(topic, b"x" * 200)
                time.sleep(1 / per_second)

    def consume(self, client_id: str, group: str, topic: str, pause: range, last: int) -> None:
        with KafkaConsumer(
            topic,
            bootstrap_servers=self.servers,
            client_id=client_id,
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=1000,
        ) as consumer:
            self.collector.add(consumer)
            while self.second < last:
                if self.second in pause:
                    time.sleep(0.5)
                else:
                    consumer.poll(200, max_records=100)


def measure(cluster: KafkaCluster, folder: Path) -> None:
    """Run everything, then draw what Prometheus has, which runs until then."""
    run = Run(cluster.bootstrap_servers)
    began = time.time()
    registry = CollectorRegistry()
    registry.register(run.collector)
    clients, _ = start_http_server(0, "127.0.0.1", registry)
    serve = [sys.executable, "-m", "pykafka2.cli", "metrics", "serve", "--port", "0", "-b", run.servers]
    exporter = subprocess.Popen([*serve, "--topics", "orders", "bills"], stdout=subprocess.PIPE, text=True)
    assert exporter.stdout is not None
    address = urllib.parse.urlsplit(exporter.stdout.readline().strip()).netloc
    config = CONFIG.format(cluster=address, clients=f"127.0.0.1:{clients.server_port}")
    (folder / "prometheus.yml").write_text(config)
    prometheus = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{PORT}",
            "--log.level=warn",
        ]
    )
    try:
        run.start(run.produce, "shop", "orders", 200)
        run.start(run.produce, "till", "bills", 60)
        run.start(run.consume, "billing-1", "billing", "orders", range(0), SECONDS)
        run.start(run.consume, "billing-2", "billing", "orders", range(0), LEAVE)
        run.start(run.consume, "archive-1", "archive", "bills", PAUSE, SECONDS)
        for at, control in ((CRASH, "crash_broker"), (RESTART, "restart_broker")):
            time.sleep(max(0, at - run.second))
            getattr(cluster.controls, control)(2)
        run.join()
        draw(began, time.time())
    finally:
        for process in (prometheus, exporter):
            process.terminate()
            process.wait()
        clients.shutdown()


def queried(expression: str, began: float, ended: float) -> list[dict[str, Any]]:
    """Return the series of an expression: labels in `metric`, pairs of time and text in `values`."""
    arguments = urllib.parse.urlencode({"query": expression, "start": began, "end": ended, "step": 1})
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/api/v1/query_range?{arguments}") as response:
        result: list[dict[str, Any]] = json.load(response)["data"]["result"]
        return result


def draw(began: float, ended: float) -> None:
    """Draw each panel of the dashboard where its grid has it."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    board = json.loads(BOARD.read_text(encoding="utf-8"))
    figure, places = plt.subplots(3, 3, figsize=(15, 10))
    for panel in board["panels"]:
        axes = places[panel["gridPos"]["y"] // 8][panel["gridPos"]["x"] // 8]
        for target in panel["targets"]:
            for series in queried(target["expr"], began, ended):
                labels = series["metric"]
                name = re.sub(r"{{(\w+)}}", lambda found, of=labels: of[found[1]], target["legendFormat"])
                points = [(at - began, float(value)) for at, value in series["values"]]
                axes.plot(*zip(*with_gaps(points), strict=True), label=name, linewidth=1.2)
        unit = panel["fieldConfig"]["defaults"]["unit"]
        axes.set_title(panel["title"] + (f" ({unit})" if unit != "short" else ""), fontsize=10)
        axes.set_ylim(bottom=0, top=axes.get_ylim()[1] * 1.25)  # the legend is above the lines
        axes.set_xlim(0, ended - began)
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="upper left", ncols=2, frameon=False)
    figure.suptitle(f"seconds of a run on {time.strftime('%Y-%m-%d')}, commit {commit()}", fontsize=9, y=0.01)
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    save(figure, TARGET)


def with_gaps(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Add a nan where samples are missing, so that no line is drawn there."""
    found = points[:1]
    for at, value in points[1:]:
        if at - found[-1][0] > 5:
            found.append((at - 1, float("nan")))
        found.append((at, value))
    return found


def commit() -> str:
    words = ["git", "merge-base", "main", "HEAD"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout[:8]


if __name__ == "__main__":
    with (
        KafkaCluster(brokers=3, topics={"orders": 6, "bills": 3}) as cluster,
        tempfile.TemporaryDirectory() as folder,
        suppress(KeyboardInterrupt),
    ):
        measure(cluster, Path(folder))
