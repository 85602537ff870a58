"""Plans are made by the tool itself or by htoolsd (``-D``), and carried out (``-X``) by whoever made them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ganeti_htools.cli.terminal.saying import undeterred
from ganeti_htools.commandline.line import CommandLine

if TYPE_CHECKING:
    from ganeti_htools.execution.review import Check
    from ganeti_htools.execution.run import Run
    from ganeti_htools.execution.wording import Say


def of_daemon(line: CommandLine, tool: str, options: Any, generations: Mapping[str, int] | None) -> Any:
    """The plan that htoolsd makes (:func:`.by_daemon.plan`); None where the tool makes it itself."""
    if line.daemon is None:
        return None
    from ganeti_htools.cli.runs import by_daemon  # seldom needed

    return by_daemon.plan(line, tool, options, generations)


def carry_out(
    line: CommandLine,
    told: Any,
    begin: "Callable[[], Run]",
    reviewer: "Callable[[Say], Check]",
    tell: "Say",
) -> Mapping[str, Any]:
    """Carry a plan out, by htoolsd if that has ``told`` it; the run's record. Raises HtoolsError.

    Of a plan that the tool has made itself, ``begin`` makes the run and ``reviewer`` what checks its rest.
    """
    say = undeterred(tell)
    if told is not None:
        from ganeti_htools.cli.runs import by_daemon

        return by_daemon.carry_out(line, told["id"], say)
    from ganeti_htools.cli.runs import over_luxi  # what talks to Ganeti takes long to load

    return over_luxi.carry_out(line, begin(), reviewer(say), say)
