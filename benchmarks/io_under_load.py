"""How fast large fetches arrive while the application computes.

    python benchmarks/io_under_load.py [--seconds 3] [--frame-mib 6] [--tls]

A process of its own serves fetch-like frames; here the main thread computes in pure Python all the time, so
that the driver's IO thread gets the interpreter only when the switch interval (5 ms) lets it. Side by side:
reads of 64 KiB, as most clients do them, and ours (network/frames.py): up to 4 MiB straight into a frame's
own buffer. Both run on the same driver, channel and transport; `idle` is with an idle main thread. On a busy
machine the figures mean little: other processes take the processor from the computing thread, too.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs

from pykafka2.driver.channel import Channel
from pykafka2.driver.driver import Driver
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.errors import KafkaError
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.frames import FrameReader
from pykafka2.network.tls import TlsContext
from pykafka2.network.transport import SocketOptions

MIB = 1 << 20
REQUEST = struct.Struct(">i")


class SmallReads:
    """The baseline: 64 KiB a read, frames put together from them."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(64 * 1024))
        self._parts = bytearray()

    def buffer(self) -> memoryview:
        return self._buffer

    def received(self, count: int) -> list[bytes]:
        self._parts += self._buffer[:count]
        frames = []
        while len(self._parts) >= 4:
            (size,) = REQUEST.unpack_from(self._parts)
            if len(self._parts) < 4 + size:
                break
            frames.append(bytes(self._parts[4 : 4 + size]))
            del self._parts[: 4 + size]
        return frames


@attrs.define
class Fetcher:
    """Asks for the next frame as soon as one has come, as the fetcher does: one in flight per broker."""

    reader: SmallReads | FrameReader
    frame_bytes: int
    channel: Channel | None = None
    frames: int = 0
    reads: int = 0
    error: KafkaError | None = None

    def on_open(self, now: float) -> None:
        self._ask(1)

    def buffer(self) -> memoryview:
        return self.reader.buffer()

    def on_received(self, count: int, now: float) -> None:
        self.reads += 1
        complete = len(self.reader.received(count))
        self.frames += complete
        self._ask(complete)

    def on_written(self, now: float) -> bool:
        return False

    def on_close(self, error: KafkaError, now: float) -> None:
        self.error = error

    def _ask(self, times: int) -> None:
        if self.channel is not None:
            self.channel.write([REQUEST.pack(self.frame_bytes)] * times)


def compute_until(deadline: float) -> None:
    """An application at work: never lets go of the interpreter by itself."""
    total = 0
    while time.perf_counter() < deadline:
        for number in range(1000):
            total += number * number % 7


def measure(
    port: int,
    reader: SmallReads | FrameReader,
    seconds: float,
    *,
    frame: int,
    load: bool,
    tls: TlsContext | None,
) -> tuple[float, float]:
    """MB/s, and reads per second."""
    runtime = ThreadRuntime()
    driver = Driver(runtime, "io-under-load")
    fetcher = Fetcher(reader, frame)

    def connect(now: float) -> None:
        endpoint = Endpoint("127.0.0.1", port)
        fetcher.channel = driver.open(
            endpoint, fetcher, options=SocketOptions(), tls=tls, server_name="localhost"
        )

    driver.call_soon(connect)
    if not driver.wait_until(lambda: fetcher.frames > 4 or fetcher.error is not None, 10.0) or fetcher.error:
        raise SystemExit(f"no frame came: {fetcher.error}")
    frames, reads, started = fetcher.frames, fetcher.reads, time.perf_counter()
    if load:
        compute_until(started + seconds)
    else:
        time.sleep(seconds)
    elapsed = time.perf_counter() - started
    frames, reads = fetcher.frames - frames, fetcher.reads - reads
    driver.close()
    runtime.close()
    return frames * frame / 1e6 / elapsed, reads / elapsed


def serve(cert_file: str | None) -> None:
    """The other process: for each four bytes, a frame of that size."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(8)
    print(listening.getsockname()[1], flush=True)
    context = None
    if cert_file:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert_file)
    frames: dict[int, bytes] = {}
    while True:
        connection, _ = listening.accept()
        try:
            stream = context.wrap_socket(connection, server_side=True) if context else connection
            with stream:
                while True:
                    request = stream.recv(4)
                    if len(request) < 4:
                        break
                    (size,) = REQUEST.unpack(request)
                    frame = frames.setdefault(size, REQUEST.pack(size) + bytes(size))
                    stream.sendall(frame)
        except OSError:
            pass  # the client has measured enough


def certificates(folder: Path) -> tuple[str, str]:
    import trustme

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    issued = authority.issue_cert("localhost").private_key_and_cert_chain_pem
    issued.write_to_path(str(folder / "broker.pem"))
    return str(folder / "ca.pem"), str(folder / "broker.pem")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3.0, help="per figure")
    parser.add_argument("--frame-mib", type=float, default=6.0, help="6 partitions of 1 MiB, say")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--serve", nargs="?", const="", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve or None)
        return
    frame = int(options.frame_mib * MIB)
    with tempfile.TemporaryDirectory() as folder:
        tls, command = None, [sys.executable, __file__, "--serve"]
        if options.tls:
            ca_file, cert_file = certificates(Path(folder))
            tls = TlsContext(ca_file=ca_file)
            command.append(cert_file)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            try:
                report(port, options.seconds, frame, tls)
            finally:
                server.kill()


def report(port: int, seconds: float, frame: int, tls: TlsContext | None) -> None:
    print(f"frames of {frame / MIB:g} MiB{' over TLS' if tls else ''}, {seconds:g} s a figure")
    print(f"{'':24}{'computing':>12}{'reads/s':>10}{'idle':>12}{'reads/s':>10}")
    figures: dict[str, float] = {}
    for name in ("reads of 64 KiB", "pykafka2"):
        row = []
        for load in (True, False):
            reader = SmallReads() if name != "pykafka2" else FrameReader("server", 256 * MIB)
            row.append(measure(port, reader, seconds, frame=frame, load=load, tls=tls))
        (busy, busy_reads), (idle, idle_reads) = row
        figures[name] = busy
        print(f"{name:24}{busy:>7.0f} MB/s{busy_reads:>10.0f}{idle:>7.0f} MB/s{idle_reads:>10.0f}")
    ratio = figures["pykafka2"] / (figures["reads of 64 KiB"] or float("inf"))
    print(f"while computing, ours is {ratio:.1f} times as fast")


if __name__ == "__main__":
    main()
