"""Orders for a running simulator: let jobs fail, lose nodes, slow down, stop being the master.

Calls have LUXI's form and framing, on a socket of their own, because LUXI's goes away with the master role.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import trio

from ganeti_htools.backends import text
from ganeti_htools.luxi.framing import FramingError, decode, encode
from ganeti_htools.model.errors import DataError
from ganeti_htools.simulator.jobs import Jobs
from ganeti_htools.simulator.serving import Trouble
from ganeti_htools.simulator.world import find, lose


class Mastership:
    """Whether this is the master node; changes can be waited for."""

    def __init__(self) -> None:
        self.held = True
        self._changed = trio.Event()

    def give(self, held: bool) -> None:
        """Hand the role over, or back."""
        self.held = held
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, held: bool) -> None:
        """Wait until this is, or is not, the master."""
        while self.held is not held:
            await self._changed.wait()


class Control:
    """Carries out the orders."""

    def __init__(self, jobs: Jobs, trouble: Trouble, mastership: Mastership) -> None:
        self._jobs = jobs
        self._trouble = trouble
        self._mastership = mastership
        self._methods: Mapping[str, Callable[..., Any]] = {
            "boot_seconds": self._boot_seconds,
            "cluster": self._cluster,
            "cut": self._cut,
            "drop": self._drop,
            "fail": self._fail,
            "find": self._find,
            "finish": self._finish,
            "job_seconds": self._job_seconds,
            "jobs": self._tell_jobs,
            "lose": self._lose,
            "master": self._master,
            "odd": self._odd,
            "power": self._power,
            "slow": self._slow,
        }

    async def answer(self, message: bytes) -> tuple[bytes, bool]:
        """The answer to a call, and True: the conversation goes on."""
        try:
            call = decode(message)
            match call:
                case {"method": str(name), "args": list(args)} if name in self._methods:
                    result = self._methods[name](*args)
                case _:
                    raise DataError(f"expected method and args; methods are {', '.join(self._methods)}")
        except (DataError, FramingError) as error:
            return encode({"success": False, "result": str(error)}), True
        except TypeError:
            return encode({"success": False, "result": f"{name}: these are not its arguments"}), True
        return encode({"success": True, "result": result}), True

    def _boot_seconds(self, seconds: float) -> None:
        """How long a node that is powered on does not answer, from now on."""
        self._jobs.behaviour.boot_seconds = _number(seconds)

    def _cluster(self) -> str:
        """The cluster as it is now, in the text format."""
        return text.dump(self._jobs.world.described())

    def _cut(self, answers: int) -> None:
        """Close the connection in the middle of the next answers."""
        self._trouble.cuts = int(_number(answers))

    def _drop(self, requests: int) -> None:
        """Close the connection instead of listening to the next requests."""
        self._trouble.drops = int(_number(requests))

    def _fail(self, pattern: str, times: int | None = None) -> None:
        """Let opcodes fail whose summary matches: always, or ``times`` times (0: never)."""
        self._jobs.behaviour.fail(pattern, inf if times is None else _number(times))

    def _find(self, name: str) -> None:
        """A lost node answers again."""
        self._jobs.change(find(self._jobs.world, self._known(name)))

    def _finish(self) -> None:
        """Let the opcodes under way take no longer."""
        self._jobs.behaviour.finish()

    def _job_seconds(self, seconds: float) -> None:
        """How long an opcode takes from now on."""
        self._jobs.behaviour.seconds = _number(seconds)

    def _tell_jobs(self) -> list[list[Any]]:
        """All jobs: number and state."""
        return [[job.number, job.state.value] for job in self._jobs.known()]

    def _lose(self, name: str) -> None:
        """A node does not answer any more."""
        self._jobs.change(lose(self._jobs.world, self._known(name)))

    def _master(self, held: bool) -> None:
        """Hand the master role over (false): the socket goes away, jobs go on. Or take it back."""
        self._mastership.give(bool(held))

    def _odd(self, method: str, results: list[Any]) -> None:
        """Do the next requests of a method as usual, and answer them with these results."""
        if not isinstance(method, str) or not isinstance(results, list):
            raise DataError("expected the name of a method, and a list of results")
        self._trouble.odd[method] = results

    def _power(self, name: str, how: str) -> None:
        """The out-of-band program of a node ``works``, ``fails``, or there is ``none``."""
        if how not in ("works", "fails", "none"):
            raise DataError(f"expected works, fails or none, not {how!r}")
        world, nodes = self._jobs.world, {self._known(name)}
        unpowered = world.unpowered | nodes if how == "none" else world.unpowered - nodes
        stuck = world.stuck | nodes if how == "fails" else world.stuck - nodes
        self._jobs.change(replace(world, unpowered=unpowered, stuck=stuck))

    def _slow(self, seconds: float) -> None:
        """Wait this long before every answer."""
        self._trouble.seconds = _number(seconds)

    def _known(self, name: str) -> str:
        if not isinstance(name, str) or self._jobs.world.node(name) is None:
            raise DataError(f"expected the name of a node, not {name!r}")
        return name


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1e9:
        raise DataError(f"expected a number from 0, not {value!r}")
    return float(value)
