"""Declarations of the socket's methods.

A method is a coroutine of a class in ``htoolsd/api`` with the decorator :func:`method`. That is its only
declaration: the coroutine's name and parameters are those of the method, and ``htoolsctl methods`` shows the
rest. The hint of a parameter declares type, check and meaning of an argument (:mod:`ganeti_htools.records`).
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from typing import Annotated, Any

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import DataError
from ganeti_htools.records import JSON, Valid, meaning
from htoolsd.socket.peer import PassedFile
from htoolsd.socket.roles import Role

Args = Mapping[str, object]
File = PassedFile | None
# Carries a method out, with the arguments of a call and the file that came with it. Raises RefusalError.
Handler = Callable[[Args, File], Awaitable[object]]
_CallHandler = Callable[[Any, Args, File], Awaitable[object]]  # a handler that is not bound to its subject

Name = Annotated[str, Valid("a name", lambda name: 0 < len(name) <= 512 and name.isprintable())]

OPTION_CHARACTERS = 1 << 16  # characters of the options of a decision or a plan
_SHOWN = 80  # characters of an unknown name in an error


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


_declarations: dict[object, Callable[..., Method]] = {}


def method(
    doc: str, *, role: Role, recorded: bool = False, version: int = 1
) -> Callable[[Callable[..., Awaitable[object]]], _CallHandler]:
    """Declare a coroutine as a method of the socket; it is then called with the arguments and file of a call.

    Its parameters declare the arguments; ``file`` is the passed file. Callers need the
    ``role``. The history gets the calls of ``recorded`` methods. Raise ``version`` only when clients of the
    last version would misunderstand the answer.
    """

    def declare(function: Callable[..., Awaitable[object]]) -> _CallHandler:
        parameters = dict(signature(function).parameters)
        del parameters["self"]
        takes_file = parameters.pop("file", None) is not None

        async def run(self: Any, args: Args, file: File) -> object:
            given: dict[str, Any] = {"file": file} if takes_file else {}
            try:
                for name, parameter in parameters.items():
                    if name in args or parameter.default is Parameter.empty:
                        where = f"{function.__name__}: {name}"
                        given[name] = JSON.read(parameter.annotation, where, args.get(name))
            except DataError as error:
                raise RefusalError(Refusal.ARGUMENTS, str(error)) from None
            return await function(self, **given)

        arguments = {
            name: meaning(each.annotation) + ("" if each.default is Parameter.empty else "; optional")
            for name, each in parameters.items()
        }
        _declarations[run] = partial(
            Method, version=version, doc=doc, arguments=arguments, role=role, recorded=recorded
        )
        return run

    return declare


def methods_of(*subjects: object) -> Iterator[Method]:
    """Yield the methods that the classes of these objects declare."""
    for subject in subjects:
        for name, function in vars(type(subject)).items():
            if callable(function) and function in _declarations:
                yield _declarations[function](name=name, run=getattr(subject, name))


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
    async def methods(self) -> object:
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
