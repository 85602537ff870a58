"""``htools``: all tools in one program; its name or the variable HTOOLS tells which (``htools(1)``)."""

import os
import sys
import textwrap
from importlib import import_module

ROLES = {
    "hail": "decides iallocator requests: where instances are placed, moved or evacuated to",
    "hbal": "plans the moves that balance a cluster",
    "hcheck": "tells whether a cluster is healthy and whether balancing would help",
    "hinfo": "shows groups, nodes and instances of a cluster",
    "hregroup": "repairs, empties and balances node groups with the room of others",
    "hroller": "groups nodes that can be rebooted together",
    "hscan": "saves clusters for the other tools",
    "hspace": "counts how many more instances fit on a cluster",
    "hsqueeze": "plans which nodes can be powered down, or have to be powered up",
}


def main() -> int:
    """Run the tool that is asked for; its exit status."""
    name = os.environ.get("HTOOLS", os.path.basename(sys.argv[0])).lower()
    if name not in ROLES:
        sys.stderr.write(_unknown(name))
        return 1
    status: int = import_module(f"ganeti_htools.cli.{name}").main()
    return status


def _unknown(name: str) -> str:
    width = max(map(len, ROLES))
    lines = [
        line
        for role, summary in ROLES.items()
        for line in textwrap.wrap(
            summary,
            79,
            initial_indent=f" {role:{width}} - ",
            subsequent_indent=" " * (width + 4),
        )
    ]
    return "".join(
        f"{line}\n"
        for line in (
            f"Unrecognised personality '{name}'.",
            "This program has to be run under one of these names, for example by a symbolic link:",
            *lines,
            "",
            "Error: Rename or link the program, or set HTOOLS to one of these names.",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
