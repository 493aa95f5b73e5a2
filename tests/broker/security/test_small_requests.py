"""A request of at most 1 KB costs the broker at most a tenth of a second of processor time, and 50 MB.

The tests allow ten times as much.  A run prints the worst requests, and the cost of those that are exempt.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import attrs
import pytest

from pykafka2.broker.handlers.api import APIS
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.sasl import SaslHandshakeRequest
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.protocol.registry import API_KEYS
from pykafka2.testing import KafkaCluster, Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import USERS, address_of
from tests.broker.support.small_requests import Case, cases_of, has_cases_of_its_own
from tests.fuzz.making import GROUP, TOPIC, TRANSACTION
from tests.gate import examples

SECONDS, MEGABYTES = 1.0, 500.0

EXEMPT = {
    "CreateTopics: 1,000 partitions": "Apache Kafka makes as many logs",
    "CreateTopics: 10,000 partitions": "Apache Kafka makes as many logs",
    "CreateTopics: 50 topics of 200 partitions": "Apache Kafka makes as many logs",
    "CreatePartitions: 1,000": "Apache Kafka makes as many logs",
    "CreatePartitions: 10,000": "Apache Kafka makes as many logs",
}
"""Work that Apache Kafka does for the same request, too."""

IN_EVERY_RUN = ("ConsumerGroupHeartbeat", "IncrementalAlterConfigs", "ListTransactions", "SaslAuthenticate")
AFTERWARDS = b"".join(
    encode_request(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3, 2, "small")
)
"""A request that is sent after another one: its response means that the other one is finished."""


@attrs.define
class Cost:
    name: str
    seconds: float
    megabytes: float

    def __str__(self) -> str:
        return f"{self.seconds:.3f} s, {self.megabytes:.0f} MB: {self.name}"


def cost_of(address: str, case: Case, handshake: str | None = None, windows: int = 2) -> Cost:
    """Send one request. The cost includes what the broker still does after its response."""
    name, frame = case
    with RawClient(address) as wire:
        wire.socket.settimeout(0.2)  # some requests wait for others
        if handshake is not None:
            wire.call(SaslHandshakeRequest(mechanism=handshake), 1)
        before = memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        began = time.process_time()
        wire.socket.sendall(frame + AFTERWARDS)
        try:
            wire.receive_frame()
            wire.receive_frame()
        except (TimeoutError, ConnectionError):
            pass
        wait_until_idle(windows)
        return Cost(name, time.process_time() - began, memory("VmHWM") - before)


def wait_until_idle(windows: int = 2) -> None:
    quiet = 0
    while quiet < windows:
        began = time.process_time()
        time.sleep(0.005)
        quiet = quiet + 1 if time.process_time() - began < 0.002 else 0


def memory(field: str) -> float:
    """Megabytes of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    """A cluster that makes small requests expensive: long names, many records, compressed topics."""
    random = Random(1)
    topics: dict[str, int | Topic] = {
        TOPIC: 1,
        "large": 1,
        "raw": Topic(configs={"compression.type": "uncompressed"}),
        "compacted": Topic(configs={"cleanup.policy": "compact"}),
    }
    topics |= {"".join(random.choices("abcABC-_01", k=249)): 1 for _ in range(40)}
    config = {"group.initial.rebalance.delay.ms": 0}
    listeners = ["PLAINTEXT", "SASL_PLAINTEXT"]
    with KafkaCluster(1, topics, listeners=listeners, users=USERS, config=config) as cluster:
        with RawClient(address_of(cluster, "PLAINTEXT")) as wire:
            for kind, key in ((0, GROUP), (1, TRANSACTION)):
                found = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
                while wire.call(found, 6).coordinators[0].error_code:
                    time.sleep(0.01)
            for number in range(4):
                begin_transaction(wire, "".join(random.choices("abc", k=900)) + str(number))
            for _ in range(20):
                produce(wire, TOPIC, 0, batch([b"x" * 100] * 10))
                produce(wire, "large", 0, batch([b"x" * 900_000]))
        yield cluster


def begin_transaction(wire: RawClient, name: str) -> None:
    """Begin a transaction with a long id, which patterns of ListTransactions are matched with."""
    request = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    while wire.call(request, 5).error_code:
        time.sleep(0.01)


@pytest.fixture(scope="module")
def costs(request: pytest.FixtureRequest) -> Iterator[list[Cost]]:
    """The costs of all requests; the worst are printed at the end."""
    found: list[Cost] = []
    yield found
    counted = [cost for cost in found if cost.name not in EXEMPT]
    lines = [f"{len(found)} requests of at most 1 KB; the worst:"]
    lines += [f"  {cost}" for cost in sorted(counted, key=lambda cost: -cost.seconds)[:5]]
    lines += [f"  {cost}" for cost in sorted(counted, key=lambda cost: -cost.megabytes)[:2]]
    lines += [f"  exempt: {cost} ({EXEMPT[cost.name]})" for cost in found if cost.name in EXEMPT]
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", *lines, sep="\n")


def params() -> Iterator[object]:
    """Yield each API. Of those with the cases that their fields give alone, a third is the gate's."""
    for number, key in enumerate(sorted(APIS)):
        name = API_KEYS[key].name
        marks = [] if name in IN_EVERY_RUN else [pytest.mark.gate]
        if marks and not has_cases_of_its_own(name) and number % 3:
            marks.append(pytest.mark.long)
        yield pytest.param(key, id=name, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("key", list(params()))
def test_small_requests_cost_little(cluster: KafkaCluster, costs: list[Cost], key: int) -> None:
    is_login = API_KEYS[key].name == "SaslAuthenticate"
    address = address_of(cluster, "SASL_PLAINTEXT" if is_login else "PLAINTEXT")
    found: list[Cost] = []
    for handshake in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER") if is_login else (None,):
        for case in cases_of(key, examples(8)):
            if case[0] in EXEMPT:
                continue
            try:
                found.append(cost_of(address, case, handshake))
            except ConnectionRefusedError:  # UnregisterBroker and the like are allowed without access rules
                break
    assert len(found) > examples(8)
    costs += found
    expensive = [cost for cost in found if cost.seconds > SECONDS or cost.megabytes > MEGABYTES]
    assert [str(cost) for cost in expensive] == []


@pytest.mark.gate
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", EXEMPT)
def test_cost_of_work_that_apache_kafka_does_too_is_printed(
    cluster: KafkaCluster, costs: list[Cost], name: str
) -> None:
    api = name.partition(":")[0]
    (key,) = [key for key in APIS if API_KEYS[key].name == api]
    (case,) = [case for case in cases_of(key, 0) if case[0] == name]
    costs.append(cost_of(address_of(cluster, "PLAINTEXT"), case, windows=20))
