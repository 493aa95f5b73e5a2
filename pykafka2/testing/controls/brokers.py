"""Controls of brokers: crash, stop, start, pause, resume.

A mixin of `Controls` (controls/controls.py).  Any thread except the cluster's own.
"""

from __future__ import annotations

from pykafka2.broker.base.arguments import check_flag
from pykafka2.broker.broker import Loss
from pykafka2.testing.running import Running


class BrokerControls:
    """`controls.crash_broker(1)`."""

    _running: Running

    def crash_broker(
        self, broker_id: int, *, lose_unreplicated: bool = True, unnoticed: bool = False
    ) -> None:
        """Kill a broker: its connections are reset, and its leaderships move to replicas in sync.

        With `lose_unreplicated` its logs are truncated to its high watermarks, as if later records had not
        reached the disk.  With `unnoticed` the controller fences it only after the broker's session has timed
        out (broker.session.timeout.ms); if it was the controller, the others also elect only then.  By
        default all brokers are notified at once, which is faster than Kafka.
        """
        self._running.check()
        check_flag("lose_unreplicated", lose_unreplicated)
        check_flag("unnoticed", unnoticed)
        loss = Loss.UNREPLICATED if lose_unreplicated else Loss.NOTHING
        self._running.broker(broker_id).stop(crash=True, loss=loss, is_unnoticed=unnoticed)

    def kill_broker(self, broker_id: int, *, keep_unflushed: bool = False) -> None:
        """Kill a broker like `crash_broker`, as a crash of its machine.  With `keep_unflushed` all records
        survive, as after kill -9.  Otherwise, with a data directory, exactly the records after each log's
        recovery point are lost, which the last flush has set (`flush_logs`); in memory, those above the high
        watermark that no `flush_logs` has covered.
        """
        self._running.check()
        check_flag("keep_unflushed", keep_unflushed)
        loss = Loss.NOTHING if keep_unflushed else Loss.UNFLUSHED
        self._running.broker(broker_id).stop(crash=True, loss=loss)

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker cleanly: its leaderships move first, and nothing is lost."""
        self._running.check()
        self._running.broker(broker_id).stop(crash=False)

    def restart_broker(self, broker_id: int) -> None:
        """Start a broker with the same port and logs; it joins as a follower.  Stop it first if it is
        running.
        """
        self._running.check()
        self._running.broker(broker_id).restart()
        with self._running.lock:
            for other in self._running.brokers:
                other.fetchers.retry()

    def _start_all_brokers(self) -> None:
        """Resume paused brokers and start stopped ones."""
        for broker in self._running.brokers:
            if broker.is_paused:
                self.resume_broker(broker.id)
            if not broker.is_running:
                self.restart_broker(broker.id)

    def pause_broker(self, broker_id: int) -> None:
        """Pause a broker, as by SIGSTOP: connections stay open, but it neither responds nor fetches.  The
        controller gets no heartbeats from it and fences it after its session timeout.
        """
        self._running.check()
        with self._running.lock:
            self._running.broker(broker_id).pause()
            text = f"broker {broker_id} paused"
            self._running.events.note(self._running.now(), "broker", text, broker=broker_id, state="paused")

    def resume_broker(self, broker_id: int) -> None:
        """Resume a paused broker; it handles received requests first, then newer metadata."""
        self._running.check()
        with self._running.lock:
            self._running.broker(broker_id).resume()
            text = f"broker {broker_id} resumed"
            self._running.events.note(self._running.now(), "broker", text, broker=broker_id, state="resumed")
