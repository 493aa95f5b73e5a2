"""`register_metrics`: metrics of the application that clients push to brokers (KIP-1076)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1 import metrics_pb2

from pykafka2 import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    KafkaShareConsumer,
    Metric,
    MetricKind,
    aio,
)
from pykafka2.admin import ConfigResource
from pykafka2.broker.observed.telemetry import TelemetryPush
from pykafka2.errors import ClientClosed, IllegalArgument
from pykafka2.testing import KafkaCluster
from tests.aio.running import run
from tests.cluster.test_telemetry_steps import Bench, metric, values

DEPTH, DONE = "org.apache.kafka.shop.queue.depth", "org.apache.kafka.shop.orders.done.total"


class Shop:
    """An application with two metrics."""

    def __init__(self, depth: float = 3, done: float = 0, tags: dict[str, str] | None = None) -> None:
        self.depth = depth
        self.done = done
        self.tags = tags or {}

    def rows(self) -> list[Metric]:
        return [
            Metric(
                "queue-depth", "shop-metrics", self.depth, MetricKind.GAUGE, "orders", self.tags, "Waiting."
            ),
            Metric(
                "orders-done-total", "shop-metrics", self.done, MetricKind.COUNTER, "orders", self.tags, ""
            ),
        ]


# ---------------------------------------------------------------------- what is pushed


def test_registered_metrics_are_pushed_with_those_of_the_client() -> None:
    bench, shop, other = Bench(), Shop(done=2), Shop(depth=9, tags={"shop": "b"})
    bench.telemetry.added.update({shop.rows: None, other.rows: None})
    bench.subscribe()
    send = bench.push()
    found = values(send)
    assert (found[DEPTH], found[DONE], found["org.apache.kafka.app.queued"]) == (3.0, 2.0, 5.0)
    bench.accept(send)
    shop.done = 6
    assert values(bench.push())[DONE] == 4.0  # a delta, as the client's totals


def test_values_of_two_functions_with_one_name_are_one_metric() -> None:
    bench = Bench()
    for shop in ("a", "b"):
        bench.telemetry.added[Shop(tags={"shop": shop}).rows] = None
    bench.subscribe()
    read = metrics_pb2.MetricsData.FromString(bench.push().request.metrics)
    (group,) = read.resource_metrics
    (scope,) = group.scope_metrics
    (depths,) = [one for one in scope.metrics if one.name == DEPTH]
    assert len(depths.gauge.data_points) == 2


def test_only_subscribed_prefixes_of_registered_metrics_are_pushed() -> None:
    bench = Bench()
    bench.telemetry.added[Shop().rows] = None
    bench.subscribe(requested_metrics=["org.apache.kafka.shop.q"])
    assert values(bench.push()) == {DEPTH: 3.0}


def test_metric_of_the_client_is_not_replaced() -> None:
    bench = Bench()
    bench.telemetry.added[lambda: [metric("queued", 77.0)]] = None
    bench.subscribe()
    assert values(bench.push())["org.apache.kafka.app.queued"] == 5.0


async def _coroutine() -> list[Metric]:
    return []


@pytest.mark.parametrize(
    "rows",
    [
        lambda: 1 / 0,
        lambda: None,
        lambda: [5],
        lambda: [metric("a", "much")],  # type: ignore[arg-type]
        lambda: [metric("a", 10**400)],
        lambda: [Metric("a", "b", 1.0, "odd", "", {}, "")],  # type: ignore[arg-type]
        lambda: [Metric("a", "b", 1.0, MetricKind.GAUGE, "", None, "")],  # type: ignore[arg-type]
    ],
    ids=["raises", "None", "no rows", "no number", "too large", "no kind", "no tags"],
)
def test_function_that_fails_is_logged_once_and_the_rest_is_pushed(
    rows: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench()
    bench.telemetry.added.update({rows: None, Shop().rows: None})
    bench.subscribe()
    for _ in range(3):
        send = bench.push()
        assert values(send)[DEPTH] == 3.0
        bench.accept(send)
    assert caplog.text.count("are not pushed") == 1


def test_odd_values_names_and_tags_are_pushed_as_text_and_numbers() -> None:
    def rows() -> Iterable[Metric]:
        yield Metric("nan", "odd", float("nan"), MetricKind.GAUGE, "", {}, "")
        yield Metric("nan-total", "odd", float("nan"), MetricKind.COUNTER, "", {}, "")
        yield Metric("inf", "odd", float("inf"), MetricKind.GAUGE, "", {}, "")
        yield Metric("bool", "odd", True, MetricKind.GAUGE, "", {}, "")
        yield Metric("\udc80\n", "", -1, MetricKind.COUNTER, "\ud800", {"\udc80": 5}, "")  # type: ignore[dict-item]

    bench = Bench()
    bench.telemetry.added[rows] = None
    bench.subscribe(requested_metrics=["org.apache.kafka.odd", "org.apache.kafka.."])
    assert values(bench.push()) == {
        "org.apache.kafka.odd.inf": float("inf"),
        "org.apache.kafka.odd.bool": 1.0,
    }


# ---------------------------------------------------------------------- every client


def subscribed(cluster: KafkaCluster) -> str:
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        options = {"metrics": "org.apache.kafka.shop.", "interval.ms": "60000"}
        admin.alter_configs({ConfigResource("CLIENT_METRICS", "shop"): options})
    return cluster.bootstrap_servers


def last_depths(cluster: KafkaCluster, client_id: str) -> list[float | None]:
    pushes: list[TelemetryPush] = cluster.telemetry(client_id)
    return [point.value for point in pushes[-1].metrics if point.name == DEPTH]


telemetry = pytest.mark.kafka(brokers=1, topics={"orders": 1}, config={"client.telemetry": True})
pytestmark = pytest.mark.gate


@telemetry
@pytest.mark.slow
def test_every_client_pushes_registered_metrics_at_its_close(kafka_cluster: KafkaCluster) -> None:
    options: dict[str, Any] = {"bootstrap_servers": subscribed(kafka_cluster), "enable_metrics_push": True}
    clients: dict[str, Any] = {
        "producer": KafkaProducer(**options, client_id="producer", transactional_id="t"),
        "consumer": KafkaConsumer(**options, client_id="consumer"),
        "share": KafkaShareConsumer(**options, client_id="share", group_id="s", client_rack="r"),
        "admin": KafkaAdminClient(**options, client_id="admin"),
    }
    one, two = Shop(1), Shop(2, tags={"shop": "b"})
    for client in clients.values():
        client.register_metrics(one.rows)
        client.register_metrics(two.rows)
        client.register_metrics(two.rows)
        client.unregister_metrics(one.rows)
        client.unregister_metrics(one.rows)
        assert len(client.client_instance_id()) == 22
        with pytest.raises(IllegalArgument, match="pass a function that returns metrics"):
            client.register_metrics(one.rows())
        with pytest.raises(IllegalArgument, match="async"):
            client.register_metrics(_coroutine)
        client.close()
        with pytest.raises(ClientClosed):
            client.register_metrics(one.rows)
        client.unregister_metrics(two.rows)
    labels = {"producer": {"transactional_id": "t"}, "share": {"group_id": "s", "client_rack": "r"}}
    for client_id in clients:
        assert last_depths(kafka_cluster, client_id) == [2.0], client_id
        resource = dict(kafka_cluster.telemetry(client_id)[-1].metrics[0].resource)
        assert (len(resource.pop("group_member_id", "")) > 0) == (client_id == "share")
        assert resource == labels.get(client_id, {})


@telemetry
@pytest.mark.slow
def test_every_asyncio_client_has_an_instance_id_and_pushes_registered_metrics(
    kafka_cluster: KafkaCluster,
) -> None:
    options: dict[str, Any] = {"bootstrap_servers": subscribed(kafka_cluster), "enable_metrics_push": True}
    ids: list[str] = []

    async def program() -> None:
        clients: tuple[Any, ...] = (
            aio.KafkaProducer(**options, client_id="producer"),
            aio.KafkaConsumer(**options, client_id="consumer"),
            aio.KafkaShareConsumer(**options, client_id="share", group_id="s"),
            aio.KafkaAdminClient(**options, client_id="admin"),
        )
        one, two = Shop(1), Shop(2)
        for client in clients:
            client.register_metrics(one.rows)
            client.register_metrics(two.rows)
            client.unregister_metrics(one.rows)
            # A cancelled call leaves the client as it was.
            waiting = asyncio.create_task(client.client_instance_id())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            ids.append(await client.client_instance_id())
            assert await client.client_instance_id() == ids[-1]
            await client.close()
            with pytest.raises(ClientClosed):
                await client.client_instance_id()
            with pytest.raises(ClientClosed):
                client.register_metrics(one.rows)

    run(program())
    assert len({*ids}) == 4
    for number, client_id in enumerate(("producer", "consumer", "share", "admin")):
        assert last_depths(kafka_cluster, client_id) == [2.0], client_id
        assert kafka_cluster.telemetry(client_id)[-1].client_instance_id == ids[number]


def test_clients_without_telemetry_accept_metrics_and_never_read_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    with KafkaProducer(bootstrap_servers="127.0.0.1:1", enable_metrics_push=False) as producer:
        producer.register_metrics(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        producer.unregister_metrics(list)
    assert "are not pushed" not in caplog.text
