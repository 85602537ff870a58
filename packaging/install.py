#!/usr/bin/env python3
"""Installs the checkout below a prefix, or removes it again; run by ``make install`` and ``make uninstall``.

``pyproject.toml`` lists programs, ``setup.cfg`` data files. Programs and packages are in PREFIX/lib/htoolsd,
apart from other packages of Python. If Python lacks dependencies, they are installed there as well, from
wheels with the hashes of ``requirements.txt``, which ``packaging/lock`` writes.
"""

import argparse
import configparser
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]
PREFIX = "/usr/local"  # in the unit and in the hook
OWN = ("lib/htoolsd", "share/doc/htoolsd", "share/htoolsd")  # directories with nobody else's files
PYTHON_PATH, PROGRAM_PATH = "lib/htoolsd/python", "lib/htoolsd/bin"
COMPLETIONS = "share/bash-completion/completions"
CONFIGURATION = "etc/htoolsd.toml"

PROGRAM = """\
#!{python} -I
import os.path
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../python"))
from {module} import {function}

sys.exit({function}())
"""

# Prints the first requirement that the interpreter does not satisfy.
CHECK = """
import re, sys
from importlib.metadata import PackageNotFoundError, version
def numbers(text): return [int(number) for number in re.findall("[0-9]+", text)]
for requirement in sys.argv[1:]:
    name, _, least = requirement.partition(">=")
    try:
        if numbers(version(name)) < numbers(least):
            sys.exit(f"{requirement} (found: {version(name)})")
    except PackageNotFoundError:
        sys.exit(requirement)
"""


def programs() -> dict[str, tuple[str, str]]:
    """Return the module and the function of each program."""
    scripts = ((name, target.partition(":")) for name, target in PROJECT["scripts"].items())
    return {name: (module, function) for name, (module, _, function) in scripts}


def data_files() -> Iterator[tuple[str, Path]]:
    """Yield the files beside the packages, each with its place below the prefix."""
    config = configparser.ConfigParser()
    config.read(TOP / "setup.cfg")
    for directory, patterns in config["options.data_files"].items():
        for pattern in patterns.split():
            for file in sorted(TOP.glob(pattern)):
                yield f"{directory}/{file.name}", file


def links() -> Iterator[tuple[str, str]]:
    """Yield the links below the prefix, each with what it names."""
    for name in programs():
        yield f"bin/{name}", f"../{PROGRAM_PATH}/{name}"
        yield f"{COMPLETIONS}/{name}", "htoolsd.bash"


def install(root: Path, prefix: str, python: str, dependencies: str) -> None:
    """Install everything below a root directory, which is not part of the installed paths.

    Raises CalledProcessError if pip fails; it has said why.
    """
    remove(root, prefix)
    top = root / prefix.lstrip("/")
    packages = top / PYTHON_PATH
    if dependencies == "all" or (dependencies == "missing" and lacks_dependencies(python)):
        install_dependencies(packages, python)
    for package, source in (("ganeti_htools", TOP), ("htoolsd", TOP / "daemon")):
        shutil.copytree(source / package, packages / package, ignore=shutil.ignore_patterns("__pycache__"))
    sys.path.insert(0, str(TOP))
    from ganeti_htools.version import build

    if not (packages / "ganeti_htools/BUILD").exists():
        write(packages / "ganeti_htools/BUILD", f"{build()}\n")
    write(packages / f"htoolsd-{PROJECT['version']}.dist-info" / "METADATA", metadata())
    for name, (module, function) in programs().items():
        text = PROGRAM.format(python=python, module=module, function=function)
        write(top / PROGRAM_PATH / name, text, mode=0o755)
    for name, file in data_files():
        text = file.read_text("utf-8")
        if file.suffix == ".service" or "hooks" in name:
            text = text.replace(f"{PREFIX}/", f"{prefix}/")
        write(top / name, text, mode=0o755 if os.access(file, os.X_OK) else 0o644)
    for name, target in links():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).symlink_to(target)
    if not (root / CONFIGURATION).exists():
        write(root / CONFIGURATION, (TOP / "systemd/htoolsd.toml").read_text("utf-8"))


def lacks_dependencies(python: str) -> bool:
    """Whether an interpreter lacks a dependency, which is printed."""
    check = subprocess.run(
        [python, "-I", "-c", CHECK, *PROJECT["dependencies"]], stderr=subprocess.PIPE, text=True
    )
    if check.returncode:
        print(f"{python} lacks {check.stderr.strip()}: installing the dependencies from wheels")
    return check.returncode != 0


def install_dependencies(packages: Path, python: str) -> None:
    """Install all dependencies from wheels. Raises CalledProcessError."""
    pip = [
        python,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        "--no-compile",
        "--no-deps",
    ]
    pip += [
        "--only-binary=:all:",
        "--require-hashes",
        "--requirement",
        str(TOP / "packaging/requirements.txt"),
    ]
    subprocess.run([*pip, "--target", str(packages)], check=True)
    shutil.rmtree(packages / "bin", ignore_errors=True)  # programs of dependencies


def metadata() -> str:
    """Return what is read of Python's package metadata: programs print the version and where to report."""
    lines = ["Metadata-Version: 2.1", "Name: htoolsd", f"Version: {PROJECT['version']}"]
    lines += [f"Project-URL: {name}, {url}" for name, url in PROJECT["urls"].items()]
    lines += [f"Requires-Dist: {each}" for each in PROJECT["dependencies"]]
    return "".join(f"{line}\n" for line in lines)


def remove(root: Path, prefix: str) -> None:
    """Remove everything below a root directory but the configuration."""
    top = root / prefix.lstrip("/")
    for name in (*dict(data_files()), *dict(links())):
        (top / name).unlink(missing_ok=True)
    for name in OWN:
        shutil.rmtree(top / name, ignore_errors=True)


def write(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)


def main() -> int:
    """Install or remove; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path("/"), help="install below this directory")
    parser.add_argument("--prefix", default=PREFIX)
    parser.add_argument("--python", default="/usr/bin/python3", help="the interpreter of the programs")
    parser.add_argument("--dependencies", choices=("missing", "all", "none"), default="missing")
    parser.add_argument("--remove", action="store_true")
    chosen = parser.parse_args()
    if " " in chosen.python:  # Linux splits the first line of a program there
        parser.error(f"--python={chosen.python}: expected a path without blanks; make a link to it")
    os.umask(0o022)
    try:
        if chosen.remove:
            remove(chosen.root, chosen.prefix)
        else:
            install(chosen.root, chosen.prefix, chosen.python, chosen.dependencies)
    except subprocess.CalledProcessError:
        return 1
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
