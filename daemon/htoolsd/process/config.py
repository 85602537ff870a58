"""The configuration: command line first, then the TOML file, then these defaults."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ganeti_htools.backends.fields import Fields
from ganeti_htools.backends.storage import pool
from ganeti_htools.client.protocol import DEFAULT_SOCKET
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import Pool
from htoolsd import reading

_LARGEST = 1 << 20  # bytes of the file
_HEAD = """\
# Configuration of htoolsd(8), which looks for it where --config says, usually in /etc/htoolsd.toml.
#
# Every key is here, with the value that it has anyway. Sizes are MiB, durations are seconds.
# Check it with "htoolsd --config /etc/htoolsd.toml --check-config"; SIGHUP ("systemctl reload htoolsd")
# lets a running daemon read it again.
"""


def _key(default: Any, doc: str, fixed: bool = False, choices: tuple[str, ...] = ()) -> Any:
    """A key; a ``fixed`` one is read when the daemon starts and needs a restart to change.

    If there are ``choices``, its value is one of them.
    """
    return field(default=default, metadata={"doc": doc, "fixed": fixed, "choices": choices})


@dataclass(frozen=True, slots=True)
class Config:
    """Every key of the configuration file. All durations are in seconds."""

    socket: str = _key(DEFAULT_SOCKET, "Unix socket to serve on", fixed=True)
    group: str = _key(
        "", "group whose members may connect; empty: the group the daemon runs with", fixed=True
    )
    state_dir: str = _key(
        "/var/lib/htoolsd", "directory of the lock and of what must survive a restart", fixed=True
    )
    luxi: str = _key("", "socket of Ganeti's luxid; empty: where Ganeti has it", fixed=True)
    ssconf_dir: str = _key("", "directory that tells the master node; empty: where Ganeti has it", fixed=True)
    config_seconds: float = _key(5.0, "how often Ganeti's configuration is asked for")
    live_seconds: float = _key(300.0, "how often all nodes are asked for live data, at least")
    storage: str = _key(
        "never",
        "are nodes asked for storage units, by jobs: never, when-needed (something names others), always",
        choices=("never", "when-needed", "always"),
    )
    storage_seconds: float = _key(600.0, "how often each node is asked for them")
    pool: tuple[Pool, ...] = _key(
        (), "pools of whose room no node tells: tables of type, key, total, reserved"
    )
    history_days: float = _key(90.0, "how long decisions and plans are kept in the history, days")
    history_mib: int = _key(256, "how large the history may be, MiB")
    connections: int = _key(
        200, "clients connected at the same time; idle ones give way, then more are refused"
    )
    connections_per_user: int = _key(100, "the same for one user")
    message_mib: int = _key(16, "longest message that a client may send, MiB")
    request_mib: int = _key(16, "longest request file that is read, MiB")
    idle_seconds: float = _key(60.0, "how long a client may take to send a whole message")
    write_seconds: float = _key(10.0, "how long a client may take to accept an answer")
    wait_seconds: float = _key(30.0, "how long a decision may wait for those before it")
    decision_seconds: float = _key(60.0, "how long a decision may take, then it is given up")
    stop_seconds: float = _key(30.0, "how long a stop waits for what is under way")


def describe() -> str:
    """The keys with their defaults and meaning, one a line."""
    return "\n".join(
        f"  {key.name + ' = ' + _toml(key.default):<45} {key.metadata['doc']}" for key in fields(Config)
    )


def sample() -> str:
    """A configuration file that lists every key and sets none."""
    return _HEAD + "".join(f"\n{_explained(key)}" for key in fields(Config))


def _explained(key: Any) -> str:
    restart = " (takes a restart)" if key.metadata["fixed"] else ""
    return f"# {key.metadata['doc']}{restart}\n# {key.name} = {_toml(key.default)}\n"


def reloaded(old: Config, new: Config) -> tuple[Config, list[str]]:
    """The configuration of a running daemon after a reload, and the changed keys that need a restart."""
    held = [key.name for key in fields(Config) if key.metadata["fixed"]]
    waiting = [key for key in held if getattr(new, key) != getattr(old, key)]
    return replace(new, **{key: getattr(old, key) for key in held}), waiting


def load(path: str | None, given: Mapping[str, str | None]) -> Config:
    """The configuration from the file at ``path`` (None: no file) and the command line's values.

    Raises DataError naming the file and the key.
    """
    values = _read(path) if path is not None else {}
    values.update({key: value for key, value in given.items() if value is not None})
    return Config(**values)


def _read(path: str) -> dict[str, Any]:
    try:
        values = tomllib.loads(reading.whole(path, _LARGEST).decode())
    except OSError as err:
        raise DataError(f"{path}: {err.strerror}") from None
    except (ValueError, RecursionError) as err:
        raise DataError(f"{path}: not TOML: {err}") from None
    known = {key.name: key for key in fields(Config)}
    for key, value in values.items():
        if key not in known:
            raise DataError(f"{path}: unknown key '{key}'; known are {', '.join(known)}")
        values[key] = _checked(f"{path}: {key}", value, known[key].default)
        choices = known[key].metadata["choices"]
        if choices and value not in choices:
            raise DataError(f"{path}: {key}: expected one of {', '.join(choices)}, not '{value}'")
    return values


def _checked(name: str, value: object, default: object) -> object:
    if isinstance(default, tuple):
        if not isinstance(value, list):
            raise DataError(f"{name}: expected tables, each as [[pool]]")
        return tuple(pool(Fields(f"{name} {place}", table)) for place, table in enumerate(value, 1))
    if isinstance(default, str):
        if not isinstance(value, str):
            raise DataError(f"{name}: expected a string")
        return value
    numbers = (int,) if isinstance(default, int) else (int, float)
    if not isinstance(value, numbers) or isinstance(value, bool) or not 0 < value < 1e9:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise DataError(f"{name}: expected {kind} greater than 0")
    return value


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return str(list(value))
    return f'"{value}"' if isinstance(value, str) else str(value)


if __name__ == "__main__":  # python -m htoolsd.process.config >systemd/htoolsd.toml
    print(sample(), end="")
