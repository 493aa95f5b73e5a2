"""Frames that are not requests, and what a broker says it can do."""

from __future__ import annotations

import struct

from .side import Side, scenario


def header(
    key: int, version: int, correlation_id: int = 7, client: bytes = b"odd", tags: bytes = b""
) -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, len(client)) + client + tags


@scenario
def hostile_frames(side: Side) -> None:
    """Each costs its one connection."""
    side.frame("unknown API key", header(999, 0))
    side.frame("negative API key", header(-1, 0))
    side.frame("Metadata v99", header(3, 99, tags=b"\0") + b"\0" * 8)
    side.frame("Metadata v-1", header(3, -1) + b"\0" * 8)
    side.frame("ApiVersions v99", header(18, 99, tags=b"\0") + b"whatever")
    side.frame("ApiVersions v99 without a body", header(18, 99))
    side.frame("ApiVersions v-1", header(18, -1))
    side.bytes("size -1", struct.pack(">i", -1))
    side.bytes("size 2^31-1", struct.pack(">i", 2**31 - 1))
    side.bytes("size just above the maximum", struct.pack(">i", 104_857_601))
    side.bytes("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    side.bytes("TLS", bytes.fromhex("16030100c8010000c40303") + bytes(60))
    side.frame("an empty frame", b"")
    side.frame("two bytes", b"\0\3")
    side.frame("a header cut short", header(3, 1)[:9])
    side.frame("a client id longer than the frame", struct.pack(">hhih", 3, 1, 7, 1000) + b"x")
    side.frame("a body cut short", header(3, 1) + struct.pack(">i", 1))
    side.frame("an array of 2^31-1 names", header(3, 1) + struct.pack(">i", 2**31 - 1))
    side.frame("an array of -2 names", header(3, 1) + struct.pack(">i", -2))
    side.frame("bytes after the body", header(18, 0) + b"more")
    side.frame("a raft request", header(52, 0, tags=b"\0") + b"\0" * 8)
    for key, version in {
        "AlterPartition": (56, 3),
        "Envelope": (58, 0),
        "BrokerRegistration": (62, 4),
        "BrokerHeartbeat": (63, 1),
        "AllocateProducerIds": (67, 0),
    }.items():
        side.frame(f"{key}, which is for controllers", header(*version, tags=b"\0") + b"\0" * 40)
    side.frame("ApiVersions v0", header(18, 0)[:12] + b"")
    side.ask("others are served", "Metadata", 12, topics=[])


@scenario
def api_versions_refused(side: Side) -> None:
    for name, version in (
        ("", "1"),
        ("name", ""),
        ("-name", "1"),
        ("na me", "1"),
        ("name!", "1"),
        ("a.b-c", "1.0-x"),
    ):
        answer = side.quietly(
            "ApiVersions",
            3,
            client=f"{name}{version}",
            client_software_name=name,
            client_software_version=version,
        )
        side.note(f"software {name!r} {version!r}", answer.error_code)
        side.note("with how many APIs", "some" if answer.api_keys else "none")


@scenario
def api_versions_advertised(side: Side) -> None:
    """Every API with its range, and the features."""
    answer = side.quietly("ApiVersions", 4, client_software_name="odd", client_software_version="1")
    for one in sorted(answer.api_keys, key=lambda one: one.api_key):
        side.note_fixed(f"API {one.api_key}", f"{one.min_version}-{one.max_version}")
    for feature in sorted(answer.supported_features, key=lambda one: one.name):
        side.note_fixed(f"supported {feature.name}", f"{feature.min_version}-{feature.max_version}")
    for level in sorted(answer.finalized_features, key=lambda one: one.name):
        side.note_fixed(f"finalized {level.name}", f"{level.min_version_level}-{level.max_version_level}")
