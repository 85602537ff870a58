"""The report of a tool as a page in a file (``--html``)."""

import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ganeti_htools.cli.terminal.messages import say
from ganeti_htools.commandline.line import CommandLine
from ganeti_htools.files import write_text
from ganeti_htools.model.errors import HtoolsError
from ganeti_htools.model.state import State

if TYPE_CHECKING:
    from ganeti_htools.pages.markup import Markup
    from ganeti_htools.pages.moves import Jobsets


def check_page(line: CommandLine) -> None:
    """Raises HtoolsError if there will be no report to write as a page."""
    if line.html is not None and line.explain is not None:
        raise HtoolsError("--html: a page is about a plan; --explain makes none")


def write_page(
    line: CommandLine,
    title: str,
    before: State,
    after: State | None = None,
    jobsets: "Jobsets | None" = None,
    notes: Sequence[str] = (),
    more: "Callable[[], Iterable[Markup]]" = tuple,
    sentence: str = "",
    figures: Mapping[str, str] | None = None,
    time_of_moves: str = "",
) -> None:
    """Write a page to the file of ``--html``, if that is given. Raises HtoolsError.

    ``after`` is the state after a plan, ``jobsets`` are its moves, ``notes`` lines about it, and
    ``more`` makes further sections. ``sentence`` begins the answer, ``figures`` replace the usual
    ones, ``time_of_moves`` says how long the moves take.
    """
    if line.html is None:
        return
    from ganeti_htools.pages.page import cluster_page  # seldom needed

    made = time.strftime("%Y-%m-%d %H:%M %z")
    executable = jobsets and not line.exec and (line.daemon is not None or line.luxi is not None)
    command = _execution() if executable else ""
    answer = sentence, figures, time_of_moves, command, _tools(line)
    write_text(line.html, cluster_page(title, made, before, after, jobsets, notes, more(), *answer))
    say(f"The report has been written to file '{line.html}'\n")


def _execution() -> str:
    """Return the command that carries out the plan of this command."""
    words = sys.argv[1:]
    pages = [
        at for at, word in enumerate(words) if len(word) > 3 and "--html".startswith(word.partition("=")[0])
    ]
    for at in reversed(pages):
        del words[at : at + (1 if "=" in words[at] else 2)]
    return shlex.join([_program(Path(sys.argv[0]).name), *words, "-X"])


def _tools(line: CommandLine) -> dict[str, str]:
    """Return the beginning of commands by which other tools read the same cluster."""
    sources = {"-t": line.text_data, "-m": line.master or None, "-L": line.luxi, "-D": line.daemon}
    given = [(option, value) for option, value in sources.items() if value is not None]
    if len(given) != 1:
        return {}
    (option, value) = given[0]
    return {name: shlex.join([_program(name), f"{option}{value}"]) for name in ("hbal", "hcheck")}


def _program(name: str) -> str:
    """Return the name of a tool, with its path where a shell finds another one."""
    ours = Path(sys.argv[0]).with_name(name)
    found = shutil.which(name)
    return name if not ours.exists() or (found and ours.samefile(found)) else str(ours.absolute())
