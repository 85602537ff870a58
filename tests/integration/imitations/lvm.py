#!/usr/bin/python3 -IS
"""Stands for lvs, vgs, lvcreate and the like: one volume group per node, in a file, without any disk.

The file maps a volume's name to its size in MiB, its minor number. Knows what Ganeti's node daemon asks.
"""

import argparse
import fcntl
import json
import os
import sys
from pathlib import Path

GROUP = "xenvg"
TOTAL = 204800  # MiB
EXTENT = 4


def main() -> int:
    """Be the program that this was called as; the exit status."""
    with open(os.environ["GANETI_ROOTDIR"] + "/volumes", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        volumes: dict[str, list[int]] = json.loads(file.read() or "{}")
        try:
            change(Path(sys.argv[0]).name, volumes)
        except KeyError as err:
            print(f"  Failed to find logical volume {GROUP}/{err}", file=sys.stderr)
            return 5
        file.truncate(0)
        json.dump(volumes, file)
    return 0


def change(program: str, volumes: dict[str, list[int]]) -> None:
    """Carry out the command line, or print what it asks for. Raises KeyError without such a volume."""
    options, names = understand()
    used = sum(size for size, _minor in volumes.values())
    space = {
        "vg_name": GROUP,
        "vg_attr": "wz--n-",
        "pv_name": "/dev/none",
        "pv_attr": "a--",
        **dict.fromkeys(("vg_size", "pv_size", "size"), mib(TOTAL, options.units)),
        **dict.fromkeys(("vg_free", "pv_free"), mib(TOTAL - used, options.units)),
        "name": GROUP,
        "vg_extent_size": mib(EXTENT, options.units),
        "stripes": "1",
        "tags": "",
        "lv_attr": "-wi-ao",
        "lv_kernel_major": "253",
        "devices": "/dev/none(0)",
    }
    match program:
        case "vgs" | "pvs":
            show(options, space)
        case "lvs":
            for name in names or volumes:
                size, minor = volumes[name]
                volume = {"lv_name": name, "lv_size": mib(size, options.units), "lv_kernel_minor": str(minor)}
                show(options, space | volume)
        case "lvcreate":
            volumes[options.name] = [int(options.size.removesuffix("m")), len(volumes)]
            Path("/dev", GROUP, options.name).touch()  # mirrors have the same name on both nodes, so it stays
        case "lvremove":
            for name in names:
                del volumes[name]
        case "lvrename":
            old, new = names
            volumes[new] = volumes.pop(old)
            Path("/dev", GROUP, new).touch()
        case "blockdev":  # it is asked for sectors
            print(volumes[names[0]][0] * 2048)


def understand() -> tuple[argparse.Namespace, list[str]]:
    """The options that matter, and the volumes named."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-o", "--options", dest="fields", default="")
    parser.add_argument("-n", "--name")
    parser.add_argument("-L", "--size")
    parser.add_argument("--units", default="m")
    parser.add_argument("--separator", default=" ")
    parser.add_argument("--addtag")
    parser.add_argument("--deltag")
    options, rest = parser.parse_known_args()
    paths = [Path(word) for word in rest if not word.startswith("-")]
    return options, [path.name for path in paths if path.name != GROUP and path != Path("/dev/none")]


def mib(size: int, unit: str) -> str:
    """A size as these programs print it."""
    return f"{size * {'m': 1, 'k': 1024}[unit]}.00"


def show(options: argparse.Namespace, values: dict[str, str]) -> None:
    """A line with the fields asked for."""
    print("  " + options.separator.join(values[field] for field in options.fields.split(",")))


if __name__ == "__main__":
    sys.exit(main())
