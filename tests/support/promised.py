"""What ``docs/stability.md`` promises, a line each, as the programs have it now.

``python -m tests.support.promised`` writes docs/promised.txt, when a version is released. A line that goes
breaks the promise.
"""

import inspect
import pkgutil
import re
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import htoolsd.api
from completions.make import programs
from ganeti_htools import client
from ganeti_htools.client import on_trio
from ganeti_htools.commandline.line import LOCAL
from ganeti_htools.commandline.parameters import OUTPUT
from ganeti_htools.commandline.programs import HAIL
from ganeti_htools.planning.options import names
from ganeti_htools.planning.tools import TOOLS
from ganeti_htools.simulator import program as simulator
from htoolsd.config import config
from htoolsd.metrics.declarations import METRICS
from htoolsd.socket.methods import Methods, methods_of
from tests.support.schemas import schemas

TOP = Path(__file__).parents[2]
FILE = TOP / "docs/promised.txt"
# Programs and documents that are not promised.
_FREE = {simulator.argument_parser().prog, "htoolsctl bundle", "htoolsctl-bundle"}

_PROGRAMS_OWN = {"help", "help_completion", "version", "wide"}  # no parameters of iallocators


def promised() -> list[str]:
    """Return the lines in order."""
    found = {
        *_options(),
        *_statuses(),
        *(f"key {key}" for key in re.findall(r"(?m)^ *([\w.]+) = ", config.describe())),
        *_methods(),
        *(f"json {line}" for name in schemas() for line in _document(name)),
        *(f"tag {tag}" for tag in re.findall(r"(?m)^\| \*\*([\w:]*[a-z])", _page("htools-tags.7"))),
        *(f"metric {each.name}" + "".join(f" {label}" for label in each.labels) for each in METRICS),
        *(f"python {line}" for name in client.__all__ for line in _interface(name, getattr(client, name))),
        *(f"python on_trio.{line}" for line in _interface("TrioDaemon", on_trio.TrioDaemon)),
        "python on_trio.connect",
    }
    return sorted(found)


def _page(name: str) -> str:
    return (TOP / f"man/{name}.md").read_text("utf-8")


def _options() -> Iterator[str]:
    for name, lines in programs().items():
        if name not in _FREE:
            words = (word for line in lines for word in line.split(" ")[0].split(","))
            yield from (f"option {name} {word}" for word in words if word[0] == "-")
            yield f"program {name}"
    for option in HAIL.all_options:
        if option.long.replace("-", "_") not in {*OUTPUT, *LOCAL, *_PROGRAMS_OWN}:
            yield f"parameter {option.long}"
    executable = (TOP / "iallocator/htoolsd").read_text("utf-8")
    yield from (f"parameter {name}" for name in re.findall('"--([a-z-]+)="', executable))


def _statuses() -> Iterator[str]:
    for path in TOP.glob("man/h*.[18].md"):
        name = path.name.partition(".")[0]
        section = _page(path.name.removesuffix(".md")).split("# EXIT STATUS\n")[1].split("\n# ")[0]
        text = re.sub(r"\d+ seconds \(.*?\)|\(\d\)", "", section, flags=re.DOTALL)
        if name not in _FREE:
            yield from (f"exit {name} {status}" for status in re.findall(r"(?<!\S)\d+\b", text))


def _methods() -> Iterator[str]:
    subjects: list[type] = [Methods]
    for each in pkgutil.iter_modules(htoolsd.api.__path__, "htoolsd.api."):
        subjects += filter(inspect.isclass, vars(import_module(each.name)).values())
    for cls in subjects:
        if not cls.__module__.startswith("htoolsd.") or issubclass(cls, tuple | Enum | Exception):
            continue
        for method in methods_of(cls.__new__(cls)):
            name = f"method {method.name} {method.version}"
            yield f"{name} for {method.role}"
            yield from (f"{name} {argument}" for argument in method.arguments)
    for tool, declared in TOOLS.items():
        yield from (f"method plan options {tool} {name}" for name in names(declared.options))


def _document(name: str) -> Iterator[str]:
    document = name.removesuffix(".json")
    if name != "common-1.json" and document.rpartition("-")[0] not in _FREE:
        yield from (f"{document} {line}" for line in _keys(name, schemas()[name], "", ()))


def _keys(file: str, schema: Any, path: str, within: tuple[str, ...]) -> Iterator[str]:
    """Yield the keys of a schema with their types, also of schemas that it refers to."""
    if (reference := schema.get("$ref")) is not None:
        name, _, pointer = reference.partition("#/$defs/")
        name = name or file
        if reference not in within:
            found = schemas()[name]["$defs"][pointer] if pointer else schemas()[name]
            yield from _keys(name, found, path, (*within, reference))
    if types := schema.get("type"):
        yield f"{path or '.'} {types if isinstance(types, str) else ' or '.join(sorted(types))}"
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _keys(file, each, path, within)
    for key, each in schema.get("properties", {}).items():
        yield from _keys(file, each, f"{path}.{key}", within)
    for key, place in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(key), dict):
            yield from _keys(file, schema[key], f"{path}{place}", within)


def _interface(name: str, value: Any) -> Iterator[str]:
    yield name
    if inspect.isclass(value):
        yield from (f"{name}.{key}" for key in getattr(value, "__annotations__", ()))
        for key, each in inspect.getmembers(value, callable):
            if key[0] != "_" and not issubclass(value, str | dict | BaseException):
                yield from _interface(f"{name}.{key}", each)
    elif callable(value):
        arguments = inspect.signature(value).parameters.keys() - {"self", "daemon"}
        yield from (f"{name}({argument})" for argument in arguments)


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in promised()), "utf-8")
