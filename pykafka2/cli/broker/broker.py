"""Run a Kafka cluster for tests, in this process, until SIGTERM or Ctrl-C.

Prints one line, `bootstrap.servers=127.0.0.1:9092,...`, when clients can connect.  Data is kept in memory and
lost at the end, unless --data-dir is set.  A second signal ends the process at once, like a crash.

examples:
  pykafka2 broker                              three brokers on ports 9092, 9093 and 9094
  pykafka2 broker --brokers 1 --port 0         one broker on a free port
  pykafka2 broker --topic orders:6 --topic audit:1:1
                                               topics: name:partitions[:replication factor]
  pykafka2 broker --racks a,b,c                the brokers' racks, repeated if there are more brokers
  pykafka2 broker --config message.max.bytes=5000000 --no-auto-create
  pykafka2 broker --config log.cleanup.policy=compact
                                               topics are compacted, unless they set cleanup.policy
  pykafka2 broker --data-dir /var/tmp/kafka    keep topics and records on disk, also for the next start
  pykafka2 broker --as-version 3.9             respond like Apache Kafka 3.9: its API versions and features
  pykafka2 broker --quick                      short delays for tests, such as a group's first rebalance
  pykafka2 broker --host 0.0.0.0 --advertised-host kafka.test --advertised-port 19092
                                               addresses for clients, behind a proxy or in a container
  pykafka2 broker --listener PLAINTEXT://:9092 --listener SASL_SSL://:9095 --user ann:secret
                                               several listeners, each on consecutive ports; also prints
                                               listener.SASL_SSL=... for each, and ssl.ca=FILE
  pykafka2 broker --admin-port 9990            faults, quotas, compaction and views over HTTP; also prints
                                               admin=http://127.0.0.1:9990 token=... (docs/guides/testing.md)
                                               --admin-host 0.0.0.0 opens it in a container
  pykafka2 broker --user-file users.txt --admin-port 9990 --admin-token-file /run/secrets/token
                                               keep secrets out of the list of processes; or set the variables
                                               PYKAFKA2_BROKER_USERS, PYKAFKA2_BROKER_TOKEN_KEY and
                                               PYKAFKA2_BROKER_ADMIN_TOKEN
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from pykafka2.cli.broker.listeners import (
    listener_names,
    parsed_listeners,
    parsed_users,
    ports_from,
    secret,
)
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import AddSetting
from pykafka2.clock import FOREVER
from pykafka2.errors import ConfigurationError

if TYPE_CHECKING:
    from pykafka2.testing.arguments import Topic

DEFAULT_PORT = 9092
# Signals that arrive together are one: `timeout` signals its child, and then the child's process group.
SAME_SIGNAL_SECONDS = 0.2
SUMMARY = "run a Kafka cluster for tests until Ctrl-C"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--brokers", type=int, default=3, metavar="N", help="number of brokers (3)")
    parser.add_argument(
        "--port",
        type=int,
        default=None,
        help="port of the first broker; the others use the next ports; 0 for free ports (9092)",
    )
    parser.add_argument(
        "--listener",
        action="append",
        default=[],
        metavar="NAME[=PROTOCOL]://[HOST]:PORT",
        help="listen on this address with this security protocol (its name); the other brokers use the "
        "next ports; can be repeated",
    )
    parser.add_argument(
        "--advertised-listener",
        action="append",
        default=[],
        metavar="NAME://HOST:PORT",
        help="the address for clients of this listener; the other brokers use the next ports",
    )
    parser.add_argument(
        "--user",
        action="append",
        default=[],
        metavar="NAME:PASSWORD",
        help="add a user for PLAIN and SCRAM; can be repeated",
    )
    parser.add_argument(
        "--user-file",
        metavar="FILE",
        help="a file of users, one NAME:PASSWORD per line (or set PYKAFKA2_BROKER_USERS)",
    )
    token_key = parser.add_mutually_exclusive_group()
    token_key.add_argument(
        "--token-key", metavar="KEY", help="the HS256 key of OAUTHBEARER tokens (default: unsigned tokens)"
    )
    token_key.add_argument(
        "--token-key-file",
        metavar="FILE",
        help="a file whose first line is the key (or set PYKAFKA2_BROKER_TOKEN_KEY)",
    )
    parser.add_argument(
        "--data-dir",
        type=str,
        metavar="PATH",
        help="keep the cluster in this directory, in the format of Apache Kafka (default: in memory)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument(
        "--advertised-host",
        metavar="HOST",
        help="the brokers' host in responses to clients (--host); needed for --host 0.0.0.0",
    )
    parser.add_argument(
        "--advertised-port",
        type=int,
        metavar="PORT",
        help="the first broker's port in responses to clients; the others use the next ports (--port)",
    )
    parser.add_argument(
        "--first-broker-id",
        type=int,
        default=0,
        metavar="ID",
        help="the id of the first broker; the others use the next ids (0)",
    )
    parser.add_argument(
        "--racks",
        metavar="RACK[,RACK...]",
        help="the brokers' racks, repeated if there are more brokers (none)",
    )
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME:PARTITIONS[:REPLICAS]",
        help="create a topic; can be repeated",
    )
    parser.add_argument(
        "--auto-create",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="create a missing topic on its first use (auto.create.topics.enable)",
    )
    parser.add_argument(
        "--as-version",
        type=_release_name,
        metavar="RELEASE",
        help="respond like this release of Apache Kafka, from 2.8 to 4.4 (4.4)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="shorten delays for tests: a group's first rebalance, the expiry of transactions, ...",
    )
    parser.add_argument(
        "--serial",
        action="store_true",
        help="process one request of a connection at a time, as Apache Kafka does (channel.mode=serial)",
    )
    parser.add_argument(
        "--admin-port",
        type=int,
        metavar="PORT",
        help="offer the controls over HTTP and JSON at this port; 0 for a free port",
    )
    parser.add_argument(
        "--admin-host", metavar="HOST", help="the address that the admin port listens on (127.0.0.1)"
    )
    admin_token = parser.add_mutually_exclusive_group()
    admin_token.add_argument(
        "--admin-token", metavar="TOKEN", help="the token for requests to the admin port (random)"
    )
    admin_token.add_argument(
        "--admin-token-file",
        metavar="FILE",
        help="a file whose first line is the token; never printed (or set PYKAFKA2_BROKER_ADMIN_TOKEN)",
    )
    parser.add_argument(
        "--config",
        "-c",
        action=AddSetting,
        default=[],
        metavar="NAME=VALUE",
        help="a broker configuration by Kafka's name; can be repeated",
    )


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Run the cluster; return 0 after a signal to end, 1 if a port is taken.  Raise `ConfigurationError`
    for illegal arguments.
    """
    try:
        return _run(arguments)
    except ConfigurationError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        output.error(str(error))
        return 1


def _run(arguments: argparse.Namespace) -> int:
    from pykafka2.testing.api import LOOPBACK
    from pykafka2.testing.cluster import KafkaCluster

    if arguments.listener and arguments.port is not None:
        raise ConfigurationError("--port cannot be combined with --listener; set the ports in --listener")
    for option in ("admin_host", "admin_token", "admin_token_file"):
        if getattr(arguments, option) is not None and arguments.admin_port is None:
            raise ConfigurationError(f"--{option.replace('_', '-')} needs --admin-port")
    admin_token = secret("--admin-token", arguments.admin_token, arguments.admin_token_file, os.environ)
    cluster = KafkaCluster(
        brokers=arguments.brokers,
        topics=_topics(arguments.topic),
        config=_config(arguments),
        host=arguments.host,
        ports=None if arguments.listener else _first_ports(arguments),
        listeners=parsed_listeners(arguments.listener, arguments.advertised_listener, arguments.brokers),
        users=parsed_users(arguments.user, arguments.user_file, os.environ),
        token_key=secret("--token-key", arguments.token_key, arguments.token_key_file, os.environ),
        data_dir=arguments.data_dir,
        as_version=arguments.as_version,
        first_broker_id=arguments.first_broker_id,
        racks=_racks(arguments.racks),
        advertised_host=arguments.advertised_host,
        advertised_ports=ports_from("--advertised-port", arguments.advertised_port or 0, arguments.brokers),
    )
    # Without an admin port the history cannot be read, and would only use memory.
    cluster.history.is_on = arguments.admin_port is not None
    received: list[int] = []
    with _Signals(received.append) as signals, cluster, frozen_objects():
        signals.notify = cluster.runtime.notify
        print(f"bootstrap.servers={cluster.bootstrap_servers}", flush=True)
        if arguments.listener:
            for name in listener_names(arguments.listener):
                print(f"listener.{name}={cluster.bootstrap_servers_of(name)}", flush=True)
        if cluster.has_authority:
            print(f"ssl.ca={cluster.ca_file}", flush=True)
        if arguments.admin_port is not None:
            port = cluster.open_admin_port(
                arguments.admin_port, admin_token, host=arguments.admin_host or LOOPBACK
            )
            # A token of a file or a variable must not get into the log of a container.
            shown = "" if admin_token != arguments.admin_token else f" token={port.token}"
            print(f"admin=http://{port.address}{shown}", flush=True)
        cluster.runtime.wait_until(lambda: bool(received) or cluster.loops.has_failed, FOREVER)
        cluster.check()
    print(f"pykafka2 broker: ended by {signal.Signals(received[0]).name}", file=sys.stderr)
    return 0


@contextmanager
def frozen_objects() -> Iterator[None]:
    """Keep the garbage collector off the modules and the started brokers: a pass over them takes 16 ms."""
    if not hasattr(gc, "freeze"):  # PyPy
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _release_name(text: str) -> str:
    """Return the name of a known release; argparse reports any other and exits with status 2."""
    from pykafka2.broker.base.features import RELEASES, unknown_release

    if text not in RELEASES:
        raise argparse.ArgumentTypeError(unknown_release(text))
    return text


class _Signals:
    """While in the with block, the first SIGTERM or SIGINT ends the wait, and the next one the process."""

    def __init__(self, on_signal: Callable[[int], object]) -> None:
        self.notify: Callable[[], object] = lambda: None
        self._on_signal = on_signal
        self._received_at: float | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Signals:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._received_at is None:
            self._received_at = now
            self._on_signal(number)
            self.notify()
        elif now > self._received_at + SAME_SIGNAL_SECONDS:
            name = signal.Signals(number).name
            # Not print(): the signal can have interrupted a write to the same buffer.
            os.write(2, f"pykafka2 broker: ended at once by a second signal ({name})\n".encode())
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def _topics(texts: list[str]) -> dict[str, Topic]:
    topics: dict[str, Topic] = {}
    for text in texts:
        name, topic = _topic(text)
        if name in topics:
            raise ConfigurationError(f"--topic {text}: {name} is set twice")
        topics[name] = topic
    return topics


def _topic(text: str) -> tuple[str, Topic]:
    name, *numbers = text.split(":")
    if not name or len(numbers) > 2 or not all(number.isdigit() for number in numbers):
        raise ConfigurationError(
            f"--topic {text}: write name:partitions or name:partitions:replication factor, such as orders:6:3"
        )
    from pykafka2.testing.arguments import Topic

    counts = [int(number) for number in numbers]
    return name, Topic(counts[0] if counts else 1, counts[1] if len(counts) > 1 else None)


def _racks(text: str | None) -> list[str] | None:
    if text is None:
        return None
    racks = [rack.strip() for rack in text.split(",")]
    if not all(racks):
        raise ConfigurationError(f"--racks {text!r}: a rack has no name. Write --racks a,b,c.")
    return racks


def _config(arguments: argparse.Namespace) -> dict[str, object]:
    from pykafka2.testing.quick import QUICK

    config: dict[str, object] = {
        **(QUICK if arguments.quick else {}),
        "auto.create.topics.enable": arguments.auto_create,
    }
    if arguments.serial:
        config["channel.mode"] = "serial"
    for text in arguments.config:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigurationError(f"--config {text}: write name=value, such as num.partitions=6")
        config[name] = value
    return config


def _first_ports(arguments: argparse.Namespace) -> list[int]:
    port = DEFAULT_PORT if arguments.port is None else arguments.port
    return ports_from("--port", port, arguments.brokers)
