"""The promises of a share consumer in a fork, at a Ctrl-C and at a lost session; its explanations."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from pykafka2.errors import ForkedClientError
from pykafka2.testing import KafkaCluster
from tests.forks import in_child
from tests.share.world import QUICK, TOPICS, configure, consumer, fill, identity, take, wait_for_fetches

quick = pytest.mark.kafka(brokers=2, topics=TOPICS, config=QUICK)


@pytest.mark.gate
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@quick
def test_forked_child_cannot_accept_records_and_the_parent_keeps_them(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 1)
    with consumer(kafka_cluster, share_acknowledgement_mode="explicit") as one:
        inside, outside = take(one, 2)
        with inside:

            def is_refused() -> bool:
                with pytest.raises(ForkedClientError), outside:
                    pass
                with pytest.raises(ForkedClientError):
                    inside.__exit__(None, None, None)
                with pytest.raises(ForkedClientError):
                    one.poll()
                return True

            with ThreadPoolExecutor(1) as thread:  # it is inside a call, which the child cannot end
                thread.submit(one._core.lock.acquire).result()
                assert in_child(is_refused)
                thread.submit(one._core.lock.release).result()
        with outside:
            pass
        assert set(one.commit().values()) <= {None}
        assert not one.poll(200)


@pytest.mark.gate
@quick
def test_keyboard_interrupt_in_a_block_releases_the_record(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 1)
    with consumer(kafka_cluster, share_acknowledgement_mode="explicit") as one:
        first, second = take(one, 2)
        with pytest.raises(KeyboardInterrupt), first:
            raise KeyboardInterrupt
        with second:
            pass
        (again,) = take(one, 1)
        assert (identity([again]), again.delivery_count) == (identity([first]), 2)


@pytest.mark.gate
@quick
def test_lost_sessions_are_opened_again_and_their_records_return(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    sent = fill(kafka_cluster, 3)
    with consumer(kafka_cluster, share_acknowledgement_mode="explicit") as one:
        assert identity(take(one, 6)) == sent
        for broker in (0, 1):
            kafka_cluster.controls.crash_broker(broker)
            kafka_cluster.controls.restart_broker(broker)
        kafka_cluster.wait_until(lambda: one.health()["locks_lost"] == 6, what="the end of both sessions")
        again = take(one, 6)
        assert identity(again) == sent
        for record in again:
            with record:
                pass
        assert set(one.commit().values()) <= {None}


@pytest.mark.gate
@quick
def test_explain_health_and_metrics_name_held_locks(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 2)
    with consumer(kafka_cluster, share_acknowledgement_mode="explicit") as one:
        held = take(one, 4)
        one.acknowledge(held[0])
        with held[1]:
            words, health = one.explain(), one.health()
            assert "not acknowledged" in words
            assert "(1 in a `with` block, for " in words
            assert "the oldest, offset 0, was acquired " in words
            assert "acknowledged, and sent by the next poll() or commit()" in words
            assert "the first lock expires in" in words
            locks = health["locks"].values()
            assert [sum(of[state] for of in locks) for state in ("held", "decided")] == [3, 1]
            assert all(of["expires_in"] <= 15 and of["oldest_age"] >= 0 for of in locks)
            assert [of["oldest_offset"] for of in locks] == [0] * len(locks)
            assert sum(of["handled"] for of in locks) == 1
            assert [of["longest_handled"] >= 0 for of in locks if of["handled"]] == [True]
        one.commit()
        metrics = one.metrics()
        assert metrics["records-consumed-total"] == 4
        assert metrics["acknowledgements-send-total"] == 2
        assert metrics["acknowledgements-error-total"] == 0
        assert metrics["fetch-total"] >= 1
    assert one.explain() == "The share consumer is closed."


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=1, topics=TOPICS, config=QUICK)
def test_explain_names_the_broker_that_acknowledgements_wait_for(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 3)
    with consumer(kafka_cluster, share_acknowledgement_mode="explicit", max_poll_records=6) as one:
        held = take(one, 6)
        wait_for_fetches(one)
        kafka_cluster.controls.pause_broker(0)
        try:
            for record in held[:3]:
                with record:
                    pass
            kafka_cluster.wait_until(
                lambda: one.health()["brokers"][0]["in_flight"] == "acknowledge", what="the acknowledgements"
            )
            with held[3]:
                pass
            words, of_node = one.explain(), one.health()["brokers"][0]
            assert of_node["acknowledgements_waiting"] >= 1
            assert of_node["in_flight_for"] >= 0
            assert "Node 0: the acknowledge request of " in words
            assert "for node 0 wait" in words
            assert "for the response to this acknowledge." in words
        finally:
            kafka_cluster.controls.resume_broker(0)
        assert set(one.commit().values()) <= {None}
        assert one.health()["brokers"][0]["in_flight_for"] is None
