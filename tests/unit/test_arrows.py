"""Imports go one way: packages import only what the table allows, and modules never import in a circle.

Every import statement counts, also inside a function (for start-up time only) and under TYPE_CHECKING.
"""

import ast
from collections.abc import Mapping, Set
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {"ganeti_htools": ROOT / "ganeti_htools", "htoolsd": ROOT / "daemon" / "htoolsd"}

_LIBRARY = (
    "model engine backends luxi client sources execution planning deciding pages records files nursery"
    " streams sockets program_paths version judge anonymity programs recording witness"
)

# The packages that each package may import besides itself; the lowest packages come first. Names are below
# ganeti_htools unless they begin with htoolsd. A name includes everything below it, and may name one module.
MAY_IMPORT = {
    "machine": "",
    "model": "",
    "version": "",
    "nursery": "",
    "streams": "",
    "program_paths": "",
    "sockets": "",
    "files": "model",
    "engine.rules": "model",
    "engine.redundancy": "model engine.rules",
    "engine.moving": "model engine.rules",
    "engine.allocation": "model engine.rules engine.redundancy engine.moving",
    "engine.balancing": "model engine.rules engine.redundancy engine.moving",
    "engine.capacity": "model engine.rules engine.redundancy engine.allocation",
    "engine.maintenance": (
        "model engine.rules engine.redundancy engine.moving engine.allocation engine.balancing"
    ),
    "engine.squeezing": "model engine.rules engine.redundancy engine.moving engine.balancing",
    "engine.repair": "model",
    "engine.groups": (
        "model engine.rules engine.redundancy engine.moving engine.allocation engine.balancing"
        " engine.capacity"
    ),
    "engine": (
        "model engine.rules engine.redundancy engine.moving engine.allocation engine.balancing"
        " engine.capacity engine.maintenance engine.squeezing engine.groups engine.repair"
    ),
    "engine.explaining": "model engine",
    "luxi": "model",
    "backends": "model luxi",
    "records": "model backends",
    # Written apart from the engine, to judge what it plans.
    "judge": "model backends",
    "anonymity": "model backends",
    "client": "model backends luxi sockets",
    "simulator": "model engine backends luxi files nursery sockets streams version",
    "sources": "model backends luxi client files nursery",
    "execution": "model records engine.repair luxi nursery",
    "planning.view": "model engine",
    "planning": "model records engine backends luxi execution sources version planning.view",
    "deciding": "model engine backends luxi sources planning.view",
    "pages": "model engine planning version",
    "commandline": "model backends version sources planning",
    "programs": "model nursery",
    "recording": "model records backends deciding commandline",
    "witness": "model backends engine deciding commandline files nursery programs recording",
    "cli.terminal": f"{_LIBRARY} commandline",
    "cli.report": f"{_LIBRARY} commandline cli.terminal",
    "cli.ctl": f"{_LIBRARY} commandline cli.terminal cli.report",
    "cli.cluster": f"{_LIBRARY} commandline cli.terminal",
    "cli.runs": f"{_LIBRARY} commandline cli.terminal cli.report cli.cluster",
    "cli": f"{_LIBRARY} commandline cli.terminal cli.report cli.ctl cli.cluster cli.runs",
    "htoolsd.disposal": "",
    "htoolsd.tasks": "model",
    "htoolsd.events": "htoolsd.tasks",
    "htoolsd.marks": "",
    "htoolsd.config": "model backends records client files version",
    "htoolsd.damaged_files": "",
    "htoolsd.threads": "client",
    "htoolsd.history": f"{_LIBRARY} htoolsd.config htoolsd.damaged_files htoolsd.events",
    "htoolsd.socket": (
        "model backends records luxi client nursery sockets"
        " htoolsd.config htoolsd.disposal htoolsd.events htoolsd.history"
    ),
    "htoolsd.sync": (
        "model backends luxi sources files nursery"
        " htoolsd.config htoolsd.damaged_files htoolsd.disposal htoolsd.events"
        " programs htoolsd.threads"
    ),
    "htoolsd.load": (
        "model backends records sources files nursery planning.view"
        " htoolsd.config htoolsd.damaged_files htoolsd.marks htoolsd.sync htoolsd.threads programs"
    ),
    "htoolsd.plans": (
        f"{_LIBRARY} htoolsd.config htoolsd.damaged_files htoolsd.events htoolsd.history htoolsd.sync"
        " htoolsd.claims htoolsd.follow htoolsd.helper htoolsd.store htoolsd.tasks htoolsd.threads"
    ),
    "htoolsd.notify": (
        "model records files nursery programs htoolsd.config htoolsd.damaged_files htoolsd.events"
        " htoolsd.history htoolsd.sync htoolsd.tasks htoolsd.threads"
    ),
    "htoolsd.helper": "model engine judge planning pages version",
    "htoolsd.metrics": (f"{_LIBRARY} commandline htoolsd.helper htoolsd.history htoolsd.plans htoolsd.sync"),
    "htoolsd.store": "model files htoolsd.config htoolsd.damaged_files",
    "htoolsd.store.state_copies": "htoolsd.store htoolsd.sync",
    "htoolsd.follow": (
        f"{_LIBRARY} htoolsd.config htoolsd.events htoolsd.marks htoolsd.sync htoolsd.store htoolsd.threads"
    ),
    "htoolsd.claims": (
        f"{_LIBRARY} htoolsd.config htoolsd.events htoolsd.sync htoolsd.store htoolsd.follow htoolsd.threads"
    ),
    "htoolsd.policies": (
        f"{_LIBRARY} htoolsd.config htoolsd.damaged_files htoolsd.events htoolsd.tasks htoolsd.threads"
        " htoolsd.sync htoolsd.plans htoolsd.history htoolsd.claims htoolsd.store.state_copies"
    ),
    "htoolsd.recording": "model recording htoolsd.config htoolsd.events htoolsd.tasks htoolsd.threads",
    "htoolsd.witness": f"{_LIBRARY} htoolsd.config htoolsd.threads",
    "htoolsd.api": (
        f"{_LIBRARY} commandline htoolsd.config htoolsd.damaged_files htoolsd.events htoolsd.tasks"
        " htoolsd.threads htoolsd.socket htoolsd.sync htoolsd.plans htoolsd.history htoolsd.store"
        " htoolsd.follow htoolsd.claims htoolsd.policies htoolsd.metrics htoolsd.notify htoolsd.helper"
        " htoolsd.load htoolsd.marks htoolsd.recording htoolsd.witness"
    ),
    "htoolsd.http": (
        f"{_LIBRARY} htoolsd.config htoolsd.socket htoolsd.metrics htoolsd.api htoolsd.tasks htoolsd.threads"
    ),
    "htoolsd.process": (
        f"{_LIBRARY} htoolsd.tasks htoolsd.events htoolsd.threads htoolsd.socket htoolsd.sync htoolsd.plans"
        " htoolsd.history htoolsd.api htoolsd.config htoolsd.store htoolsd.follow htoolsd.claims"
        " htoolsd.policies htoolsd.metrics htoolsd.http htoolsd.notify htoolsd.disposal htoolsd.load"
        " htoolsd.marks htoolsd.recording htoolsd.witness"
    ),
    "htoolsd.__main__": "htoolsd.process",
}


def package_of(module: str) -> str:
    """The table entry that a module belongs to; empty if there is none."""
    name = module.removeprefix("ganeti_htools.")
    while name and name not in MAY_IMPORT:
        name = name.rpartition(".")[0]
    return name


def allowed(package: str) -> set[str]:
    """The table entries that a package may import; all that are not pure may use the machine."""
    pure = package == "machine" or package.split(".")[0] in ("model", "engine", "backends", "pages")
    named = MAY_IMPORT[package].split() + ["machine"] * (not pure)
    below = tuple(f"{name}." for name in named)
    return {other for other in MAY_IMPORT if other in named or other.startswith(below)} - {package}


def modules() -> dict[str, Path]:
    """Our modules by name, with their files."""
    found = {}
    for name, root in SOURCES.items():
        for path in root.rglob("*.py"):
            parts = [name, *path.relative_to(root).with_suffix("").parts]
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


@cache  # parsing all modules takes long
def imports(module: str, text: str) -> list[tuple[int, str]]:
    """Find every module of ours that a module imports anywhere, with the line."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                targets = [alias.name for alias in names]
            case ast.ImportFrom(module=source, names=names, level=level):
                above = ".".join(module.split(".")[:-level]) if level else ""
                origin = ".".join(part for part in (above, source) if part)
                whole = [f"{origin}.{alias.name}" for alias in names]
                targets = [name if name in MODULES else origin for name in whole]
            case _:
                continue
        found += [(node.lineno, target) for target in targets if target.split(".")[0] in SOURCES]
    return found


def violations(module: str, file: str, text: str) -> list[str]:
    """Describe each forbidden import of a module in one line."""
    package = package_of(module)
    if not package:
        return [f"{file}: {module} belongs to no package of the table"]
    may = allowed(package)
    return [
        f"{file}:{line}: {module} imports {target}; {package} may import only: {MAY_IMPORT[package]}"
        for line, target in imports(module, text)
        if package_of(target) not in may | {package}
    ]


def circles(graph: Mapping[str, Set[str]]) -> list[set[str]]:
    """Find circles in a graph of imports, until the rest has none. Circles that share a module are one."""
    rest = {name: set(targets) - {name} for name, targets in graph.items()}
    found: list[set[str]] = []
    while True:
        try:
            TopologicalSorter(rest).prepare()
        except CycleError as error:
            circle = set(error.args[1])
            merged = [other for other in found if other & circle]
            found = [other for other in found if not other & circle] + [circle.union(*merged)]
            target, module = error.args[1][:2]  # ``module`` imports ``target``
            rest[module].discard(target)
        else:
            return found


def import_graph() -> dict[str, set[str]]:
    """The modules of ours that each module imports."""
    return {
        module: {target for _, target in imports(module, path.read_text())}
        for module, path in MODULES.items()
    }


def test_every_import_is_allowed() -> None:
    found = []
    for module, path in sorted(MODULES.items()):
        file = str(path.relative_to(ROOT))
        if module not in SOURCES:  # the packages' own __init__ import nothing of ours
            found += violations(module, file, path.read_text())
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize("module", SOURCES)
def test_outermost_package_imports_nothing_of_ours(module: str) -> None:
    assert not list(imports(module, MODULES[module].read_text()))


def test_table_names_every_package() -> None:
    assert {package_of(module) for module in MODULES} - {""} == set(MAY_IMPORT)
    names = {name for words in MAY_IMPORT.values() for name in words.split()}
    assert names <= set(MAY_IMPORT)


def test_table_has_no_circle() -> None:
    TopologicalSorter({package: allowed(package) for package in MAY_IMPORT}).prepare()


def test_no_module_imports_itself_through_others() -> None:
    found = circles(import_graph())
    assert not [" -> ".join(sorted(circle)) for circle in found]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [{"a", "b"}]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d"}}, [{"a", "b", "c"}, {"d", "e"}]),
        ({"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}, [{"a", "b", "c"}]),
    ],
)
def test_circles_are_found(graph: dict[str, set[str]], expected: list[set[str]]) -> None:
    assert sorted(circles(graph), key=sorted) == expected


@pytest.mark.parametrize("name", ["htoolsd", "htoolsd_fallback.py"])
def test_executable_imports_nothing_of_ours(name: str) -> None:
    text = (ROOT / "iallocator" / name).read_text()
    assert not list(imports("iallocator", text))
    modules = [line.split()[1] for line in text.splitlines() if line.split()[:1] in (["import"], ["from"])]
    assert modules
    assert not [module for module in modules if "htools" in module and module != "htoolsd_fallback"]


FORBIDDEN = [
    "import ganeti_htools.cli.hbal",
    "from ganeti_htools.cli import hbal",
    "from ganeti_htools import cli",
    "from ganeti_htools.cli.hbal import main",
    "def f():\n    import ganeti_htools.cli",
    "if TYPE_CHECKING:\n    from ganeti_htools.cli.hbal import main",
    "try:\n    pass\nfinally:\n    from ..cli import hbal",
]


@pytest.mark.parametrize("text", FORBIDDEN)
def test_forbidden_import_is_reported(text: str) -> None:
    (problem,) = violations("ganeti_htools.engine.decide", "decide.py", text)
    assert problem.startswith(f"decide.py:{text.count(chr(10)) + 1}: ganeti_htools.engine.decide imports ")
    assert "; engine may import only: model engine.rules" in problem


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("ganeti_htools.engine.rules.score", "import ganeti_htools.engine.balancing.balance"),
        ("ganeti_htools.cli.hbal", "from htoolsd.sync import model"),
        ("ganeti_htools.planning.view", "from ganeti_htools.commandline.line import CommandLine"),
        ("ganeti_htools.model.state", "from ganeti_htools.engine.rules import score"),
        ("ganeti_htools.luxi.opcodes", "from ganeti_htools.engine.rules import score"),
        ("ganeti_htools.backends.text", "from ganeti_htools.engine.decide import Decision"),
        ("ganeti_htools.execution.jobs", "from ganeti_htools.engine.balancing import recheck"),
        ("ganeti_htools.commandline.plans", "from ganeti_htools.engine.balancing import balance"),
        ("htoolsd.sync.model", "from htoolsd.plans.plan import Plan"),
        ("htoolsd.plans.plans", "from htoolsd.process.service import main"),
    ],
)
def test_import_between_rooms_is_reported(module: str, text: str) -> None:
    assert len(violations(module, "file.py", text)) == 1
