"""The methods of the socket, each with a description that makes it usable without a manual."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from ganeti_htools.client.protocol import Refusal, RefusalError
from htoolsd.socket.peer import PassedFile

Args = Mapping[str, object]
File = PassedFile | None
# Carries a method out: gets the arguments of a call and the file that came with it. Raises RefusalError.
Handler = Callable[[Args, File], Awaitable[object]]

LONGEST = 1 << 16  # characters of all words together, or of the options that a plan keeps


def words(name: str, args: Args) -> list[str]:
    """The ``arguments`` of a call, a command line. Raises RefusalError."""
    given = args.get("arguments", [])
    if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
        raise RefusalError(Refusal.ARGUMENTS, f"{name}: arguments: expected a list of strings")
    if sum(map(len, given)) > LONGEST:
        raise RefusalError(Refusal.ARGUMENTS, f"{name}: arguments: longer than {LONGEST} characters")
    return given


@dataclass(frozen=True, slots=True)
class Method:
    """What can be asked for. ``version`` goes up when callers would not understand the answer any more."""

    name: str
    version: int
    doc: str
    arguments: Mapping[str, str]  # name: meaning
    run: Handler


class Methods:
    """The methods by name, ``methods`` itself among them."""

    def __init__(self) -> None:
        self._by_name: dict[str, Method] = {}
        self.add(Method("methods", 1, "Lists what can be asked for.", {}, self._list))

    def add(self, *methods: Method) -> None:
        """Let these be asked for."""
        self._by_name |= {method.name: method for method in methods}

    async def run(self, name: str, args: Args, file: File) -> object:
        """The result of a method. Raises RefusalError."""
        method = self._by_name.get(name)
        if method is None:
            raise RefusalError(Refusal.METHOD, f"there is no method {name[:80]!r}; methods lists them")
        for argument in args:
            if argument not in method.arguments:
                raise RefusalError(Refusal.ARGUMENTS, f"{name}: takes no argument {argument[:80]!r}")
        return await method.run(args, file)

    async def _list(self, _args: Args, _file: File) -> object:
        return [
            {
                "name": method.name,
                "version": method.version,
                "doc": method.doc,
                "arguments": dict(method.arguments),
            }
            for method in sorted(self._by_name.values(), key=lambda method: method.name)
        ]
