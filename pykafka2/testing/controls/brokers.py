"""Controls of brokers: crash, stop, start, pause, resume.

Part of `Controls` (controls/controls.py), which documents them.  Any thread except the cluster's own.
"""

from __future__ import annotations

from pykafka2.broker.process import Loss
from pykafka2.testing.running import Running


class BrokerControls:
    """`controls.crash_broker(1)`."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def crash_broker(
        self, broker_id: int, *, lose_unreplicated: bool = True, unnoticed: bool = False
    ) -> None:
        self._running.check()
        loss = Loss.UNREPLICATED if lose_unreplicated else Loss.NOTHING
        self._running.broker(broker_id).stop(crash=True, loss=loss, is_unnoticed=unnoticed)

    def kill_broker(self, broker_id: int, *, keep_unflushed: bool = False) -> None:
        self._running.check()
        loss = Loss.NOTHING if keep_unflushed else Loss.UNFLUSHED
        self._running.broker(broker_id).stop(crash=True, loss=loss)

    def stop_broker(self, broker_id: int) -> None:
        self._running.check()
        self._running.broker(broker_id).stop(crash=False)

    def restart_broker(self, broker_id: int) -> None:
        self._running.check()
        self._running.broker(broker_id).restart()
        with self._running.lock:
            for other in self._running.brokers:
                other.fetchers.retry()

    def start_all(self) -> None:
        """Resume paused brokers and start stopped ones."""
        for broker in self._running.brokers:
            if broker.is_paused:
                self.resume_broker(broker.id)
            if not broker.is_running:
                self.restart_broker(broker.id)

    def pause_broker(self, broker_id: int) -> None:
        self._running.check()
        with self._running.lock:
            self._running.broker(broker_id).pause()
            text = f"broker {broker_id} paused"
            self._running.events.note(self._running.now(), "broker", text, broker=broker_id, state="paused")

    def resume_broker(self, broker_id: int) -> None:
        self._running.check()
        with self._running.lock:
            self._running.broker(broker_id).resume()
            text = f"broker {broker_id} resumed"
            self._running.events.note(self._running.now(), "broker", text, broker=broker_id, state="resumed")
