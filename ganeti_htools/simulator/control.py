"""Orders for a running simulator: let jobs fail, lose nodes, slow down, give up the master role.

Calls have LUXI's form and framing. They have a socket of their own, because LUXI's goes away with the master
role.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import trio

from ganeti_htools.backends import text
from ganeti_htools.luxi.framing import FramingError, decode, encode
from ganeti_htools.model.errors import DataError
from ganeti_htools.simulator.connections import Faults
from ganeti_htools.simulator.jobs import Jobs
from ganeti_htools.simulator.world import lose_node, restore_node


class Mastership:
    """The master role, which tasks can wait for."""

    def __init__(self) -> None:
        self.held = True
        self._changed = trio.Event()

    def set(self, held: bool) -> None:
        """Take the role, or give it up."""
        self.held = held
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, held: bool) -> None:
        """Wait until the role is held, or is not."""
        while self.held is not held:
            await self._changed.wait()


class Control:
    """Carries out the orders."""

    def __init__(self, jobs: Jobs, faults: Faults, mastership: Mastership) -> None:
        self._jobs = jobs
        self._faults = faults
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
            "jobs": self._list_jobs,
            "lose": self._lose,
            "master": self._master,
            "odd": self._odd,
            "power": self._power,
            "slow": self._slow,
        }

    async def answer(self, message: bytes) -> tuple[bytes, bool]:
        """Carry out a call; return the answer, and True: the connection stays open."""
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
            return encode({"success": False, "result": f"{name}: wrong arguments"}), True
        return encode({"success": True, "result": result}), True

    def _boot_seconds(self, seconds: float) -> None:
        """Set the seconds until a node that is powered on answers."""
        self._jobs.behaviour.boot_seconds = _number(seconds)

    def _cluster(self) -> str:
        """Return the present cluster in the text format."""
        return text.dump(self._jobs.world.file_cluster())

    def _cut(self, answers: int) -> None:
        """Close the connection in the middle of the next so many answers."""
        self._faults.cuts = int(_number(answers))

    def _drop(self, requests: int) -> None:
        """Close the connection instead of answering the next so many requests."""
        self._faults.drops = int(_number(requests))

    def _fail(self, pattern: str, times: int | None = None) -> None:
        """Let opcodes fail whose summary matches: always, or so many times (0: never)."""
        self._jobs.behaviour.fail(pattern, inf if times is None else _number(times))

    def _find(self, name: str) -> None:
        """Let a lost node answer again."""
        self._jobs.change(restore_node(self._jobs.world, self._check_node(name)))

    def _finish(self) -> None:
        """Let the running opcodes end at once."""
        self._jobs.behaviour.finish()

    def _job_seconds(self, seconds: float) -> None:
        """Set the seconds that an opcode takes."""
        self._jobs.behaviour.seconds = _number(seconds)

    def _list_jobs(self) -> list[list[Any]]:
        """Return the number and the state of all jobs."""
        return [[job.number, job.state.value] for job in self._jobs.unarchived()]

    def _lose(self, name: str) -> None:
        """Let a node no longer answer."""
        self._jobs.change(lose_node(self._jobs.world, self._check_node(name)))

    def _master(self, held: bool) -> None:
        """Give up the master role (false), or take it back. Without it there is no socket, but jobs go on."""
        self._mastership.set(bool(held))

    def _odd(self, method: str, results: list[Any]) -> None:
        """Carry out the next requests of a method as usual, but answer with these results."""
        if not isinstance(method, str) or not isinstance(results, list):
            raise DataError("expected the name of a method, and a list of results")
        self._faults.odd[method] = results

    def _power(self, name: str, how: str) -> None:
        """Let the out-of-band program of a node work, fail, or be absent (``works``, ``fails``, ``none``)."""
        if how not in ("works", "fails", "none"):
            raise DataError(f"expected works, fails or none, not {how!r}")
        world, nodes = self._jobs.world, {self._check_node(name)}
        unpowered = world.unpowered | nodes if how == "none" else world.unpowered - nodes
        stuck = world.stuck | nodes if how == "fails" else world.stuck - nodes
        self._jobs.change(replace(world, unpowered=unpowered, stuck=stuck))

    def _slow(self, seconds: float) -> None:
        """Set the seconds before every answer."""
        self._faults.seconds = _number(seconds)

    def _check_node(self, name: str) -> str:
        if not isinstance(name, str) or self._jobs.world.node(name) is None:
            raise DataError(f"expected the name of a node, not {name!r}")
        return name


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1e9:
        raise DataError(f"expected a number from 0, not {value!r}")
    return float(value)
