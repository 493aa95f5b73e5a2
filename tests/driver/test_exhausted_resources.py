"""Clients where the system has nothing left for them: a typed error that says of what, and nothing else."""

from __future__ import annotations

import errno
import os
import sys
import threading
from typing import Any, NoReturn

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.errors import ClientNotStarted

clients = pytest.mark.parametrize("client", [KafkaProducer, KafkaConsumer, KafkaAdminClient])


@clients
def test_no_file_descriptor_is_left(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    def refuse(*arguments: object) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "eventfd", refuse)
    with pytest.raises(ClientNotStarted, match="too many open files; raise its limit"):
        client(bootstrap_servers="127.0.0.1:9")
    assert unraisable == []


@clients
def test_no_thread_is_left(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(ClientNotStarted, match="no thread left"):
        client(bootstrap_servers="127.0.0.1:9")


@clients
def test_daemon_threads_are_disabled_as_in_a_subinterpreter(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> NoReturn:
        raise RuntimeError("daemon threads are disabled in this (sub)interpreter")

    monkeypatch.setattr(threading, "Thread", refuse)
    with pytest.raises(ClientNotStarted, match="daemon threads are disabled"):
        client(bootstrap_servers="127.0.0.1:9")
