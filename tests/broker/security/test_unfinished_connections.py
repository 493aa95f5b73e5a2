"""A thousand connections with incomplete frames: memory stays bounded, and others are served."""

from __future__ import annotations

import resource
import socket
import struct
import time

import pytest

from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import USERS, address_of, log_in

CROWD = 1000
MAX_GROWTH_BYTES = 64 << 20


@pytest.mark.gate
@pytest.mark.slow
def test_unfinished_frames_cost_little_memory_and_delay_no_other_client() -> None:
    """Each has sent the largest accepted length of a frame, and a few of its bytes."""
    with (
        KafkaCluster(1, listeners=["SASL_PLAINTEXT"], users=USERS) as cluster,
        RawClient(address_of(cluster, "SASL_PLAINTEXT")) as user,
    ):
        log_in(user)
        host, _, port = address_of(cluster, "SASL_PLAINTEXT").rpartition(":")
        alone = slowest(user)
        before = resident_bytes()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * CROWD)), hard))
        crowd: list[socket.socket] = []
        try:
            for _ in range(CROWD):
                crowd.append(socket.create_connection((host, int(port))))
                crowd[-1].sendall(struct.pack(">ihh", 524_288, 18, 3))
            cluster.wait_until(lambda: len(cluster.connections()) == CROWD + 1)
            among_them = slowest(user)
            grown = resident_bytes() - before
        finally:
            for one in crowd:
                one.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        cluster.wait_until(lambda: len(cluster.connections()) == 1)
    assert grown < MAX_GROWTH_BYTES
    # The limit is generous, as the machine can be busy.
    assert among_them < max(20 * alone, 0.25)


def slowest(user: RawClient) -> float:
    """Return the 99th percentile of round trips in seconds."""
    times = []
    for _ in range(200):
        began = time.perf_counter()
        user.call(MetadataRequest(topics=[]), 12)
        times.append(time.perf_counter() - began)
    return sorted(times)[197]


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
