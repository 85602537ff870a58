"""How much the tests notice: small errors put into a package, and the share of them that its tests find.

    python -m tests.mutants --count 40 ganeti_htools/engine/moving daemon/htoolsd/sync

An error is another operator, condition, constant or deadline. The tests are those of the package in
``tests/unit``, those of ``tests/property`` that import the changed module, and the transcripts of the tools.
They run in a copy of the tree. The same count, seed and package give the same errors.
"""

import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
OPTIONS = "addopts=--import-mode=importlib -m 'not integration and not long'"  # in order
# Seconds after which tests that do not end have noticed the error.
PATIENCE = 300
SWAPPED = dict(
    pair.split("  ")
    for pair in (
        *("+  -", "-  +", "*  +", "/  *", "//  *", "&  |", "|  &", "and  or", "or  and"),
        *("<  <=", "<=  <", ">  >=", ">=  >", "==  !=", "!=  ==", "is  is not", "is not  is"),
        *("in  not in", "not in  in"),
    )
)


class Mutant(NamedTuple):
    """A part of a line of a file, by columns in UTF-8, and what stands there instead."""

    path: Path
    line: int
    begin: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """Return the content of the file with the error in it."""
        lines = source.splitlines(keepends=True)
        changed = lines[self.line - 1]
        lines[self.line - 1] = changed[: self.begin] + self.text.encode() + changed[self.end :]
        return b"".join(lines)


def _code(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but annotations."""
    yield tree
    for field, value in ast.iter_fields(tree):
        if field not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _code(child)


def _between(path: Path, lines: list[bytes], left: ast.expr, right: ast.expr) -> Iterator[Mutant]:
    """Yield the other operator, if it stands between its operands on a line."""
    begin = left.end_col_offset or 0
    between = lines[right.lineno - 1][begin : right.col_offset].decode()
    old = between.strip(" ()")
    if left.end_lineno == right.lineno and old in SWAPPED:
        at = begin + between.index(old)
        yield Mutant(path, right.lineno, at, at + len(old), SWAPPED[old])


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield all errors for a file."""
    source = (ROOT / path).read_bytes()
    lines, tree = source.splitlines(), ast.parse(source)

    def instead(value: ast.expr, text: str) -> Mutant:
        return Mutant(path, value.lineno, value.col_offset, value.end_col_offset or 0, text)

    for node in _code(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float()) as value):
                if name.isupper() and not isinstance(value.value, bool):
                    yield instead(value, 'float("inf")')
            case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
                yield from _between(path, lines, left, right)
            case ast.BoolOp(values=[*values]):
                for left, right in pairwise(values):
                    yield from _between(path, lines, left, right)
            case ast.Constant(value=bool(value)):
                yield instead(node, str(not value))
            case ast.Constant(value=int() | float() as number):
                yield instead(node, repr(number + 1))
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                if test.lineno == test.end_lineno:
                    yield instead(test, f"not ({ast.unparse(test)})")


def tests_of(path: Path) -> list[str]:
    """Return the tests of a module: its own, transcripts, those of its package, and searches."""
    parts = path.parts[1:-1] if path.parts[0] == "ganeti_htools" else ("daemon", *path.parts[2:-1])
    folder = Path("tests/unit", *parts)
    own = folder / f"test_{path.name}"
    module = ".".join(path.with_suffix("").parts).removeprefix("daemon.")
    package, _, name = module.rpartition(".")
    imports = (f"from {module} import", f"from {package} import {name}\n", f"import {module}\n")
    searches = [
        each.relative_to(ROOT)
        for each in sorted((ROOT / "tests/property").glob("test_*.py"))
        if any(words in each.read_text() for words in imports)
    ]
    transcripts = [Path("tests/transcripts")] if path.parts[0] == "ganeti_htools" else []
    return [str(each) for each in (own, *transcripts, folder, *searches) if (ROOT / each).exists()]


def passes(copy: Path, tests: list[str]) -> bool:
    """Tell whether tests pass in the copy."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-o", OPTIONS, *tests]
    environment = os.environ | {"PYTHONPATH": f"{copy}:{copy / 'daemon'}"}
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> None:
    """Print the survivors of each package and the share that was found."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="errors for each package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("packages", nargs="+", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for file in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, copy / file, follow_symlinks=False)
        for package in options.packages:
            every = [
                m for path in sorted((ROOT / package).glob("*.py")) for m in mutants(path.relative_to(ROOT))
            ]
            chosen = random.Random(f"{package} {options.seed}").sample(every, min(options.count, len(every)))
            found = 0
            for mutant in chosen:
                source = (copy / mutant.path).read_bytes()
                (copy / mutant.path).write_bytes(mutant.applied(source))
                survived = passes(copy, tests_of(mutant.path))
                (copy / mutant.path).write_bytes(source)
                found += not survived
                if survived:
                    changed = mutant.applied(source).splitlines()[mutant.line - 1].decode().strip()
                    print(f"{mutant.path}:{mutant.line}: {changed}", flush=True)
            print(f"{package}: {found} of {len(chosen)} found, {len(every)} possible", flush=True)


if __name__ == "__main__":
    main()
