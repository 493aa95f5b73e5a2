"""Serve the lag of consumer groups and the state of the cluster to Prometheus, as kafka_exporter does.

examples:
  pykafka2 metrics serve                                 all groups and topics, on port 9308
  pykafka2 metrics serve --groups 'billing*' audit       only these groups
  pykafka2 metrics serve --help                          the paths, the metrics, and a configuration
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_isolation_level
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import MAX_INT16, Parser, UsageError, natural, rate
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.errors import KafkaError

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from pykafka2 import KafkaAdminClient

SUMMARY = "serve lag of groups, offsets and this client's metrics to Prometheus"
PORT = 9308
"""The port of kafka_exporter."""
TIMEOUT = 5.0
MAX_PORT = 2 * MAX_INT16 + 1
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

SERVE = f"""\
Prints the address when it serves, and ends with Ctrl-C or SIGTERM. Each scrape reads the cluster, in a few
requests for all groups. Nothing is written to the cluster.

paths:
  /metrics    kafka_consumergroup_lag, _current_offset and _members; kafka_topic_partition_current_offset,
              _oldest_offset, _leader, _replicas, _in_sync_replica and others; kafka_topic_partitions,
              kafka_brokers: the names and labels of kafka_exporter, so its dashboards and alerts work.
              kafka_admin_client_*: the metrics of this client.
              kafka_up is 0 while no broker responds; kafka_scrape_errors counts what could not be read.
  /healthz    200, or 503 if this process must be restarted
  /readyz     200, or 503 with the reason if no broker is connected

Prometheus, prometheus.yml:
  scrape_configs:
    - job_name: kafka
      static_configs: [{{targets: ["localhost:{PORT}"]}}]

The lag is the end of the partition minus the committed offset, as kafka-consumer-groups prints it. Records of
open transactions count; --isolation-level read_committed leaves them out, as `pykafka2 groups describe` does.
Partitions without a committed offset, and share and streams groups, have no lag.

  pykafka2 metrics serve -b kafka:9092
  pykafka2 metrics serve --host 0.0.0.0 --groups 'billing*' audit --topics 'orders*'
  curl -s localhost:{PORT}/metrics | grep kafka_consumergroup_lag
"""


def configure(parser: Parser) -> None:
    """Add the action."""
    add_actions(
        parser,
        Action("serve", "serve metrics over HTTP until Ctrl-C", _serve, _configure_serve, SERVE),
    )


run = run_action


def _configure_serve(parser: Parser) -> None:
    for name in ("groups", "topics"):
        parser.add_argument(
            f"--{name}",
            nargs="+",
            action="extend",
            default=[],
            metavar="PATTERN",
            help=f"only {name} that match, such as 'a*' (all)",
        )
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on, without a password (127.0.0.1)"
    )
    parser.add_argument("--port", type=_port, default=PORT, help=f"the port; 0 for a free port ({PORT})")
    parser.add_argument(
        "--timeout",
        type=rate,
        default=TIMEOUT,
        metavar="SECONDS",
        help=f"how long a scrape waits for brokers; below Prometheus's scrape_timeout ({TIMEOUT:g})",
    )
    add_isolation_level(parser, "read_uncommitted")
    parser.add_argument(
        "--sums",
        action="store_true",
        help="also serve kafka_consumergroup_lag_sum and _current_offset_sum, by group and topic",
    )


def _port(text: str) -> int:
    port = natural(text)
    if port > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; use a port from 0 to {MAX_PORT}")
    return port


def _serve(arguments: argparse.Namespace, output: Output) -> int:
    with connection.admin(arguments) as client:
        app = _app(arguments, client)
        try:
            server = _server(arguments.host, arguments.port, app)
        except OSError as error:
            output.error(f"cannot listen on {arguments.host}:{arguments.port}: {error.strerror or error}")
            return 1
        with server:
            try:
                _connect(client, arguments.timeout, output)
                host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
                url = f"http://{host}:{server.server_port}/metrics"
                if output.is_json:
                    output.json({"url": url})
                else:
                    output.line(url)
                sys.stdout.flush()
                server.serve_forever()
            except KeyboardInterrupt:  # the usual end, like SIGTERM
                return 0
    return 0


def _connect(client: KafkaAdminClient, timeout: float, output: Output) -> None:
    """Connect before the first scrape, so that /readyz is right; go on if no broker can be reached."""
    try:
        client.describe_cluster(timeout=timeout)
    except KafkaError as error:
        output.note(f"No broker responds, so kafka_up is 0 until one does: {error}")


def _app(arguments: argparse.Namespace, client: KafkaAdminClient) -> WsgiApp:
    """Return the WSGI application of all paths."""
    try:
        from prometheus_client import CollectorRegistry, make_wsgi_app
    except ModuleNotFoundError as error:
        raise UsageError(
            "metrics serve needs prometheus_client: python -m pip install 'pykafka2[prometheus]'"
        ) from error
    from pykafka2.contrib.probes import liveness, readiness
    from pykafka2.contrib.prometheus import ClientCollector, ClusterCollector

    registry = CollectorRegistry()
    registry.register(
        ClusterCollector(
            client,
            groups=arguments.groups,
            topics=arguments.topics,
            isolation_level=arguments.isolation_level,
            timeout=arguments.timeout,
            sums=arguments.sums,
        )
    )
    registry.register(ClientCollector(client))
    metrics: WsgiApp = make_wsgi_app(registry)
    probes = {"/healthz": liveness, "/readyz": readiness}

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return metrics(environ, start_response)
        if path in probes:
            reasons = probes[path](client)
            status, text = ("503 Service Unavailable", "\n".join(reasons)) if reasons else ("200 OK", "ok")
        elif path == "/":
            status, text = "200 OK", "/metrics /healthz /readyz"
        else:
            status, text = "404 Not Found", "use /metrics, /healthz or /readyz"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{text}\n".encode()]

    return app


def _server(host: str, port: int, app: WsgiApp) -> WSGIServer:
    """Return a server that listens. Imports are here, because `pykafka2 --help` imports this module."""
    import socket
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    class Server(ThreadingMixIn, WSGIServer):
        """Serves each request on a thread of its own, so that a probe never waits for a scrape."""

        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Print nothing for a caller that hung up. Other errors are those of a bug."""
            if not isinstance(sys.exception(), OSError):
                super().handle_error(request, client_address)

    class Handler(WSGIRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing for each request."""

    return make_server(host, port, app, Server, Handler)
