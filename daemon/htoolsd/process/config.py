"""The configuration: command line first, then the TOML file, then these defaults."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from typing import Any

from ganeti_htools.backends.fields import Fields
from ganeti_htools.backends.storage import pool
from ganeti_htools.client.protocol import DEFAULT_SOCKET
from ganeti_htools.files import read_regular_file
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.storage import Pool
from htoolsd.keys import check_table, key, one_of, text
from htoolsd.policies.settings import RebalanceSettings, RedistributeSettings, SqueezeSettings

_LARGEST = 1 << 20  # bytes of the file
_HEAD = """\
# Configuration of htoolsd(8), which looks for it where --config says, usually in /etc/htoolsd.toml.
#
# Every key is here, with the value that it has anyway. Sizes are MiB, durations are seconds.
# Check it with "htoolsd --config /etc/htoolsd.toml --check-config"; SIGHUP ("systemctl reload htoolsd")
# lets a running daemon read it again.
"""


def _pools(name: str, value: object) -> tuple[Pool, ...]:
    if not isinstance(value, list):
        raise DataError(f"{name}: expected tables, each as [[pool]]")
    return tuple(pool(Fields(f"{name} {place}", each)) for place, each in enumerate(value, 1))


def _ledger(name: str, value: object) -> str:
    if text(name, value) and not text(name, value).startswith("postgresql://"):
        raise DataError(f"{name}: expected postgresql://USER@HOST/DATABASE or nothing")
    return text(name, value)


@dataclass(frozen=True, slots=True)
class Config:
    """Every key of the configuration file, tables last. All durations are in seconds."""

    socket: str = key(DEFAULT_SOCKET, "Unix socket to serve on", fixed=True)
    group: str = key("", "group whose members may connect; empty: the group the daemon runs with", fixed=True)
    state_dir: str = key(
        "/var/lib/htoolsd", "directory of the lock and of what must survive a restart", fixed=True
    )
    luxi: str = key("", "socket of Ganeti's luxid; empty: where Ganeti has it", fixed=True)
    ssconf_dir: str = key("", "directory that tells the master node; empty: where Ganeti has it", fixed=True)
    config_seconds: float = key(5.0, "how often Ganeti's configuration is asked for")
    live_seconds: float = key(300.0, "how often all nodes are asked for live data, at least")
    storage: str = key(
        "never",
        "are nodes asked for storage units, by jobs: never, when-needed (something names others), always",
        read=one_of("never", "when-needed", "always"),
    )
    storage_seconds: float = key(600.0, "how often each node is asked for them")
    pool: tuple[Pool, ...] = key(
        (), "pools of whose room no node tells: tables of type, key, total, reserved, provider", read=_pools
    )
    history_days: float = key(90.0, "how long decisions and plans are kept in the history, days")
    history_mib: int = key(256, "how large the history may be, MiB")
    ledger: str = key(
        "",
        "the ledger's database, postgresql://...; empty: ledger.sqlite in the state directory",
        fixed=True,
        read=_ledger,
    )
    claims: str = key(
        "auto",
        "do decisions claim what they promise: auto (where Ganeti is followed), always, never",
        read=one_of("auto", "always", "never"),
    )
    claim_seconds: float = key(600.0, "how long a claim lasts, its job's time not counted")
    connections: int = key(
        200, "clients connected at the same time; idle ones give way, then more are refused"
    )
    connections_per_user: int = key(100, "the same for one user")
    message_mib: int = key(16, "longest message that a client may send, MiB")
    request_mib: int = key(16, "longest request file that is read, MiB")
    idle_seconds: float = key(60.0, "how long a client may take to send a whole message")
    write_seconds: float = key(10.0, "how long a client may take to accept an answer")
    wait_seconds: float = key(30.0, "how long a decision may wait for those before it")
    decision_seconds: float = key(60.0, "how long a decision may take, then it is given up")
    stop_seconds: float = key(30.0, "how long a stop waits for what is under way")
    redistribute: RedistributeSettings = key(RedistributeSettings(), "the policy that repairs node groups")  # noqa: RUF009
    squeeze: SqueezeSettings = key(SqueezeSettings(), "the policy that powers nodes down and up")  # noqa: RUF009
    rebalance: RebalanceSettings = key(RebalanceSettings(), "the policy that balances node groups")  # noqa: RUF009


def _parts() -> Iterator[tuple[str, list[Field[Any]]]]:
    """The keys outside of tables, and after them those of each table with its name."""
    tables = [each for each in fields(Config) if is_dataclass(each.default)]
    yield "", [each for each in fields(Config) if each not in tables]
    for each in tables:
        yield each.name, list(fields(each.default))  # type: ignore[arg-type]


def describe() -> str:
    """The keys with their defaults and meaning, one a line; those of a table as ``table.key``."""
    return "\n".join(
        f"  {f'{head}.' * bool(head) + _assigned(each):<45} {each.metadata['doc']}"
        for head, keys in _parts()
        for each in keys
    )


def sample() -> str:
    """A configuration file that lists every key and sets none."""
    written = _HEAD
    for head, keys in _parts():
        written += f"\n[{head}]\n" if head else ""
        written += "".join(f"\n{_explained(each)}" for each in keys)
    return written


def _explained(found: Field[Any]) -> str:
    restart = " (takes a restart)" if found.metadata["fixed"] else ""
    return f"# {found.metadata['doc']}{restart}\n# {_assigned(found)}\n"


def _assigned(found: Field[Any]) -> str:
    return f"{found.name} = {_toml(found.default)}"


def reloaded(old: Config, new: Config) -> tuple[Config, list[str]]:
    """The configuration of a running daemon after a reload, and the changed keys that need a restart."""
    held = [each.name for each in fields(Config) if each.metadata["fixed"]]
    waiting = [name for name in held if getattr(new, name) != getattr(old, name)]
    return replace(new, **{name: getattr(old, name) for name in held}), waiting


def load(path: str | None, given: Mapping[str, str | None]) -> Config:
    """The configuration from the file at ``path`` (None: no file) and the command line's values.

    Raises DataError naming the file and the key.
    """
    values = _read(path) if path is not None else {}
    values.update({name: value for name, value in given.items() if value is not None})
    return Config(**values)


def _read(path: str) -> dict[str, Any]:
    try:
        values = tomllib.loads(read_regular_file(path, _LARGEST).decode())
    except OSError as err:
        raise DataError(f"{path}: {err.strerror}") from None
    except (ValueError, RecursionError) as err:
        raise DataError(f"{path}: not TOML: {err}") from None
    return check_table(Config, path, values)


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return str(list(value))
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


if __name__ == "__main__":  # python -m htoolsd.process.config >systemd/htoolsd.toml
    print(sample(), end="")
