"""The check of a configuration: all its errors at once, and warnings."""

import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ganeti_htools.model.errors import DataError, HtoolsError
from ganeti_htools.sources.source import Source, read
from htoolsd.config.config import Config, exposes_password, load
from htoolsd.config.http import read_token
from htoolsd.config.keys import ConfigError, program_problem
from htoolsd.config.ledger import has_password
from htoolsd.socket.listening import group_number
from htoolsd.socket.roles import resolve
from htoolsd.store.records import UnavailableError

_USER = "htoolsd"  # of the systemd unit


@contextmanager
def daemon_user(path: str | None, given: Mapping[str, str | None]) -> Iterator[None]:
    """Let root have only the rights of the daemon's user."""
    user = _daemon_user(path, given) if os.geteuid() == 0 else None
    if user is None:
        yield
        return
    groups = os.getgroups()
    os.setgroups(os.getgrouplist(user.pw_name, user.pw_gid))
    os.setegid(user.pw_gid)
    os.seteuid(user.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _daemon_user(path: str | None, given: Mapping[str, str | None]) -> pwd.struct_passwd | None:
    """Return the owner of the state directory, or else the user of the package; None for root."""
    try:
        directory = load(path, given).state_dir
    except ConfigError as error:
        directory = Config(**error.valid).state_dir
    except HtoolsError:
        directory = Config().state_dir
    try:
        owner = os.stat(directory).st_uid
    except OSError:  # the daemon has never run
        return next((user for user in pwd.getpwall() if user.pw_name == _USER), None)
    return next((user for user in pwd.getpwall() if user.pw_uid == owner != 0), None)


def check(
    path: str | None, given: Mapping[str, str | None], online: bool = False
) -> tuple[list[str], list[str]]:
    """Return the errors and the warnings of a configuration.

    ``path`` and ``given`` are as in :func:`.config.load`. The ledger's server is asked for an answer,
    ``online`` also the source of load.
    """
    errors, warnings = list[str](), list[str]()
    try:
        config = load(path, given)
    except ConfigError as error:
        errors += error.lines
        config = Config(**error.valid)  # options of the command line do not matter below
    except HtoolsError as error:
        return [str(error)], []
    try:
        group_number(config.group)
    except HtoolsError as error:
        errors.append(str(error))
    errors += (f"{path}: {error}" for error in resolve(config.roles, 0)[1])
    if config.http.token_file:
        try:
            read_token(config.http.token_file)
        except DataError as error:
            errors.append(f"{path}: http: token_file: {error}")
    if config.ledger:
        from htoolsd.store.database import check_server  # importing SQLAlchemy takes long

        try:
            check_server(config.ledger)
        except DataError as error:
            errors.append(f"{path}: ledger: {error}")
        except UnavailableError as error:
            warnings.append(f"ledger: {error}")
    errors += (f"{path}: load: {line}" for line in _load_errors(config, online))
    if exposes_password(path, config):
        what = "the ledger's password" if has_password(config.ledger) else "the address of [notify]"
        warnings.append(f"{path}: other users can read {what}; chmod o-r {path}")
    if (problem := config.notify.problem()) is not None:
        warnings.append(f"notify: {problem}")
    if (problem := program_problem(config.witness.program)) is not None:
        warnings.append(f"witness: {problem}")
    return errors, warnings


def _load_errors(config: Config, online: bool) -> Sequence[str]:
    """Return the errors of the table ``[load]``, and those of the source if it is asked."""
    settings = config.load
    if settings.source == "none":
        return ()
    if settings.source == "program" and (problem := program_problem(settings.program)) is not None:
        return [problem]
    from htoolsd.load.measured_load import errors_of_source  # importing NumPy and httpx takes long

    try:
        if settings.source == "prometheus":
            from htoolsd.load.prometheus import Prometheus

            Prometheus(settings).client()
        if online:
            import trio

            cluster = read(Source(luxi=config.luxi), lambda _line: None).cluster
            return trio.run(errors_of_source, settings, cluster)
    except HtoolsError as error:
        return [str(error)]
    return ()
