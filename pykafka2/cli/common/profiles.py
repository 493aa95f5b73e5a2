"""Profiles: named sets of client options in a TOML file, `~/.config/pykafka2/profiles.toml`.

    [local]
    bootstrap.servers = "localhost:9092"

    [production]
    bootstrap.servers = "kafka1.example.com:9093,kafka2.example.com:9093"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.username = "ann"
    sasl.password.command = "pass show kafka/production"

The value of an option with `.command` is the first line that the command prints: the file needs no secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pykafka2.cli.common.parsing import UsageError, nearest

COMMAND_SUFFIX = ".command"
COMMAND_TIMEOUT = 60.0


def profiles_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the file: PYKAFKA2_PROFILES, or in XDG_CONFIG_HOME or ~/.config."""
    if environment.get("PYKAFKA2_PROFILES"):
        return Path(environment["PYKAFKA2_PROFILES"])
    config = environment.get("XDG_CONFIG_HOME")
    return (Path(config) if config else Path.home() / ".config") / "pykafka2" / "profiles.toml"


def read_profile(path: Path, name: str) -> dict[str, object]:
    """Return the options of a profile by dotted name. Raise `UsageError`, which shows no value."""
    import tomllib

    try:
        profiles = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--profile {name}: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--profile {name}: {path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        place = str(error).rpartition("(")[2].rstrip(")")  # the other words can quote a value
        raise UsageError(f"--profile {name}: {path} is not valid TOML {place}") from None
    profile = profiles.get(name)
    if not isinstance(profile, dict):
        known = sorted(key for key, value in profiles.items() if isinstance(value, dict))
        close = nearest([name], known)
        more = f"; did you mean {close[0]}?" if close else f". It has: {', '.join(known) or 'no profile'}"
        raise UsageError(f"--profile {name}: {path} has no profile {name!r}{more}")
    options = dict(_flattened(profile, ""))
    for key in [key for key in options if key.endswith(COMMAND_SUFFIX)]:
        options[key.removesuffix(COMMAND_SUFFIX)] = _printed(str(options.pop(key)), name, key)
    return options


def _flattened(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Iterate over the values by dotted name; TOML reads `a.b = 1` as a table in a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _printed(command: str, profile: str, key: str) -> str:
    import shlex
    import subprocess

    try:
        done = subprocess.run(  # noqa: S603 (the command is the user's own)
            shlex.split(command), stdout=subprocess.PIPE, timeout=COMMAND_TIMEOUT, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"--profile {profile}: the command of {key} failed: {type(error).__name__}"
        ) from None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    if done.returncode or not lines:
        raise UsageError(
            f"--profile {profile}: the command of {key} ended with status {done.returncode} and printed "
            f"{len(lines)} lines; it must print the value"
        )
    return lines[0]
