"""Transcripts: commands of the tools and what they print, in ``tests/transcripts/``.

They have the form of the documents (tests/support/documents.py). The output is compared with its empty lines;
an exit status other than 0 stands below it in brackets. JSON has fewer lines than in what the tools print.
Tools run in the process of the tests.

``python -m tests.support.transcripts FILE...`` writes the output of all commands anew.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import chdir
from importlib import import_module
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ganeti_htools.commandline.programs import PROGRAMS
from tests.support import installed_ganeti
from tests.support.documents import Block, sessions
from tests.support.programs import ROOT

TRANSCRIPTS = sorted((ROOT / "tests" / "transcripts").glob("*.md"))


def _run_tool(name: str, arguments: list[str]) -> str:
    """Return what a tool prints on both streams, and its exit status unless that is 0."""
    printed = BytesIO()
    stream = TextIOWrapper(printed, encoding="utf-8", write_through=True)
    with patch.multiple(sys, stdout=stream, stderr=stream):
        try:
            status = import_module(f"ganeti_htools.cli.{name}").main(arguments)
        except SystemExit as ended:
            status = ended.code
    return json_in_fewer_lines(printed.getvalue().decode()) + (f"[{status}]\n" if status else "")


def json_in_fewer_lines(printed: str) -> str:
    """Return output with its JSON document, if there is one, in lines of up to 100 columns."""
    if (begin := re.search(r"^[\[{]$", printed, re.MULTILINE)) is None:
        return printed
    document, end = json.JSONDecoder().raw_decode(printed, begin.start())
    return printed[: begin.start()] + _fitted(document, "") + printed[end:]


def _fitted(value: Any, indent: str) -> str:
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= 100 or not isinstance(value, dict | list):
        return line
    inner = f"{indent}  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_fitted(part, inner)}" for key, part in value.items()]
    else:
        parts = [_fitted(part, inner) for part in value]
    opening, closing = line[0], line[-1]
    lines = ",\n".join(f"{inner}{part}" for part in parts)
    return f"{opening}\n{lines}\n{indent}{closing}"


def _run(command: str) -> str:
    """Return what a command of a shell prints. A tool is its first word, or there is none."""
    first, pipe, rest = command.partition(" | ")
    name, *arguments = shlex.split(first, comments=True)
    printed = ""
    if name in PROGRAMS or name == "htoolsctl":
        printed = _run_tool(name, arguments)
        if not pipe:
            return printed
        command = rest
    done = subprocess.run(
        ["bash", "-c", command], input=printed, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.stdout


def _lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in textwrap.dedent(text).splitlines()).strip("\n")


def matches(expected: str, printed: str) -> bool:
    """Tell whether something is printed as expected, where ``...`` stands for any text."""
    return (
        re.fullmatch(re.escape(_lines(expected)).replace(r"\.\.\.", ".*"), _lines(printed), re.DOTALL)
        is not None
    )


def played(document: str) -> Iterator[tuple[Block, Block | None, str]]:
    """Yield the blocks of commands of a transcript, the block of their output, and what they print now."""
    for session in sessions(document):
        with tempfile.TemporaryDirectory() as name, chdir(name):
            for block, following in zip(session.blocks, [*session.blocks[1:], None], strict=True):
                if block.kind == "file":
                    # A cluster's last sections may be empty.
                    Path(block.argument).write_text(f"{block.text}\n\n\n\n\n", "utf-8")
                elif block.kind != "output":
                    commands = block.text.replace("\\\n", " ").splitlines()
                    output = following if following is not None and following.kind == "output" else None
                    yield block, output, "".join(map(_run, commands))


def write(path: Path) -> None:
    """Write what the commands of a transcript print into it, where that is not what it says."""
    document = path.read_text("utf-8")
    lines = document.splitlines()
    for block, output, printed in reversed(list(played(document))):
        if not matches(output.text if output else "", printed):
            shown = textwrap.indent(_lines(printed), "    ").splitlines()
            first, last = (output.first, output.last) if output else (block.last, block.last)
            lines[first:last] = shown if output else ["", "<!-- output -->", "", *shown]
    path.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    installed_ganeti.ignore()
    for argument in sys.argv[1:]:
        write(Path(argument))
