"""Declarations of the socket's methods, and arguments that several methods share.

A method is a coroutine of a class in ``htoolsd/api`` with the decorator :func:`method`. That is its only
declaration: the name of the coroutine is the name of the method, and ``htoolsctl methods`` shows the rest.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.socket.peer import PassedFile
from htoolsd.socket.roles import Role

Args = Mapping[str, object]
File = PassedFile | None
# Carries a method out, with the arguments of a call and the file that came with it. Raises RefusalError.
Handler = Callable[[Args, File], Awaitable[object]]
AnyHandler = TypeVar("AnyHandler", bound=Callable[[Any, Args, File], Awaitable[object]])

LONGEST = 1 << 16  # characters of all words together, or of the options of a plan
_SHOWN = 80  # characters of an unknown name in an error

_NO_ARGUMENTS: Mapping[str, str] = {}


class _Declaration(NamedTuple):
    version: int
    doc: str
    arguments: Mapping[str, str]
    role: Role
    recorded: bool


_declarations: dict[object, _Declaration] = {}


def method(
    doc: str,
    arguments: Mapping[str, str] = _NO_ARGUMENTS,
    *,
    role: Role,
    recorded: bool = False,
    version: int = 1,
) -> Callable[[AnyHandler], AnyHandler]:
    """Declare a coroutine as a method of the socket.

    ``arguments`` has the meaning of each argument by name. Callers need the ``role``. The history gets
    the calls of ``recorded`` methods. Raise ``version`` only when clients of the last version would
    misunderstand the answer.
    """

    def declare(function: AnyHandler) -> AnyHandler:
        _declarations[function] = _Declaration(version, doc, arguments, role, recorded)
        return function

    return declare


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the socket; see :func:`method`."""

    name: str
    version: int
    doc: str
    arguments: Mapping[str, str]
    role: Role
    run: Handler
    recorded: bool = False


def methods_of(*subjects: object) -> Iterator[Method]:
    """Yield the methods that the classes of these objects declare."""
    for subject in subjects:
        for name, function in vars(type(subject)).items():
            if callable(function) and function in _declarations:
                yield Method(name=name, run=getattr(subject, name), **_declarations[function]._asdict())


class Methods:
    """The methods by name, including ``methods`` itself."""

    def __init__(self) -> None:
        self._by_name: dict[str, Method] = {}
        self.add(*methods_of(self))

    def add(self, *methods: Method) -> None:
        """Add methods."""
        self._by_name |= {method.name: method for method in methods}

    async def run(self, name: str, args: Args, file: File) -> object:
        """Return the result of a method. Raises RefusalError."""
        found = self.find(name)
        if found is None:
            why = f"there is no method {name[:_SHOWN]!r}; the method 'methods' lists all"
            raise RefusalError(Refusal.METHOD, why)
        for argument in args:
            if argument not in found.arguments:
                why = f"{name}: there is no argument {argument[:_SHOWN]!r}"
                raise RefusalError(Refusal.ARGUMENTS, why)
        return await found.run(args, file)

    def find(self, name: str) -> Method | None:
        """Return the method of this name."""
        return self._by_name.get(name)

    @method("Lists the methods of the socket.", role=Role.READ)
    async def methods(self, _args: Args, _file: File) -> object:
        return [
            {
                "name": each.name,
                "version": each.version,
                "role": str(each.role),
                "doc": each.doc,
                "arguments": dict(each.arguments),
            }
            for each in sorted(self._by_name.values(), key=lambda each: each.name)
        ]


def words(method: str, args: Args) -> list[str]:
    """Return the argument ``arguments``, a command line. Raises RefusalError."""
    given = args.get("arguments", [])
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        raise RefusalError(Refusal.ARGUMENTS, f"{method}: arguments: expected a list of strings")
    if sum(map(len, given)) > LONGEST:
        raise RefusalError(Refusal.ARGUMENTS, f"{method}: arguments: longer than {LONGEST} characters")
    return given


def flag(method: str, args: Args, name: str, default: bool = False) -> bool:
    """Return an optional argument that is true or false. Raises RefusalError."""
    found = args.get(name, default)
    if not isinstance(found, bool):
        raise RefusalError(Refusal.ARGUMENTS, f"{method}: {name}: expected true or false")
    return found
