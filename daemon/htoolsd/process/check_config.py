"""The check of a configuration: all its errors at once, and warnings."""

from collections.abc import Mapping

from ganeti_htools.model.errors import DataError, HtoolsError
from htoolsd.config_keys import ConfigError
from htoolsd.http.settings import read_token
from htoolsd.ledger.records import UnavailableError, has_password
from htoolsd.process.config import Config, exposes_password, load
from htoolsd.socket.listening import group_number
from htoolsd.socket.roles import resolve


def check(path: str | None, given: Mapping[str, str | None]) -> tuple[list[str], list[str]]:
    """Return the errors and the warnings of a configuration.

    ``path`` and ``given`` are as in :func:`.config.load`. The ledger's server is asked for an answer.
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
        from htoolsd.ledger.database import check_server  # importing SQLAlchemy takes long

        try:
            check_server(config.ledger)
        except DataError as error:
            errors.append(f"{path}: ledger: {error}")
        except UnavailableError as error:
            warnings.append(f"ledger: {error}")
    if exposes_password(path, config):
        what = "the ledger's password" if has_password(config.ledger) else "the address of [notify]"
        warnings.append(f"{path}: other users can read {what}; chmod o-r {path}")
    if (problem := config.notify.problem()) is not None:
        warnings.append(f"notify: {problem}")
    return errors, warnings
