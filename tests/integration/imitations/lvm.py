#!/usr/bin/python3 -IS
"""Stands for lvs, vgs, lvcreate and the like: the volume groups of a node, in a file, without any disk.

The file has a line for each volume: GROUP/NAME, its size in MiB, its minor number and its tag. Knows what the
node daemon asks. A job runs dozens of these programs, so they import little.
"""

import fcntl
import os
import sys

ROOT = os.environ["GANETI_ROOTDIR"]
COMMON = {"xenvg": 204800}  # MiB
# Two more groups, which differ from node to node; some nodes lack one.
OTHERS = {
    "node1": {"ssdvg": 16384, "hddvg": 65536},
    "node2": {"ssdvg": 8192, "hddvg": 131072},
    "node3": {"hddvg": 131072},
    "node4": {"ssdvg": 16384, "hddvg": 65536},
    "node5": {"ssdvg": 32768},
    "node6": {},
}
GROUPS = COMMON | OTHERS[os.path.basename(ROOT)]
EXTENT = 4
UNTAGGED = "-"

Volumes = dict[str, tuple[int, int, str]]
Options = dict[str, str]
VALUED = {
    "-o": "fields",
    "--options": "fields",
    "-n": "name",
    "--name": "name",
    "-L": "size",
    "--size": "size",
    "--units": "units",
    "--separator": "separator",
    "--addtag": "tag",
    "--deltag": "old",
}


class LvmError(Exception):
    """What is wrong with a command."""


def main() -> int:
    """Be the program that this was called as; the exit status."""
    with open(f"{ROOT}/volumes", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        rows = map(str.split, file)
        volumes = {name: (int(size), int(minor), tag) for name, size, minor, tag in rows}
        before = str(volumes)
        try:
            change(os.path.basename(sys.argv[0]), volumes)
        except LvmError as error:
            print(f"  {error}", file=sys.stderr)
            return 5
        if str(volumes) != before:
            file.truncate(0)
            file.writelines(f"{name} {size} {minor} {tag}\n" for name, (size, minor, tag) in volumes.items())
    return 0


def change(program: str, volumes: Volumes) -> None:
    """Carry out the command line, or print what it asks for. Raises LvmError."""
    options, names = understand()
    match program:
        case "vgs" | "pvs":
            for group in GROUPS:
                show(options, space(group, volumes, options["units"]))
        case "lvs":
            for volume in listed(names, volumes):
                size, minor, tag = volumes[volume]
                group, name = volume.split("/")
                own = {"lv_name": name, "lv_size": mib(size, options["units"]), "lv_kernel_minor": str(minor)}
                own |= {"tags": tag.replace(UNTAGGED, "")}
                show(options, space(group, volumes, options["units"]) | own)
        case "lvcreate":
            group, name, size = names[0], options["name"], int(options["size"].removesuffix("m"))
            if group not in GROUPS:
                raise LvmError(f'Volume group "{group}" not found')
            if f"{group}/{name}" in volumes:
                raise LvmError(f'Logical Volume "{name}" already exists in volume group "{group}"')
            if size > free(group, volumes):
                raise LvmError(f'Volume group "{group}" has insufficient free space')
            volumes[f"{group}/{name}"] = size, len(volumes), UNTAGGED
            touch(f"/dev/{group}/{name}")  # mirrors have the same name on both nodes, so it stays
        case "lvchange":
            (name,) = names
            if "tag" in options:
                size, minor, _ = volumes[existing(name, volumes)]
                volumes[name] = size, minor, options["tag"]
        case "lvremove":
            for name in names:
                for volume in tagged(name, volumes) if name.startswith("@") else [existing(name, volumes)]:
                    del volumes[volume]
        case "lvrename":
            group, old, new = names
            volumes[f"{group}/{new}"] = volumes.pop(existing(f"{group}/{old}", volumes))
            touch(f"/dev/{group}/{new}")
        case "blockdev":  # it is asked for sectors
            print(volumes[existing(names[0], volumes)][0] * 2048)


def listed(names: list[str], volumes: Volumes) -> list[str]:
    """The volumes that are named, or whose group is; all if nothing is. Raises LvmError."""
    single = [existing(name, volumes) for name in names if name not in GROUPS]
    return single + [volume for volume in volumes if not names or volume.split("/")[0] in names]


def existing(name: str, volumes: Volumes) -> str:
    """A volume that there is. Raises LvmError if there is none of that name."""
    if name not in volumes:
        raise LvmError(f'Failed to find logical volume "{name}"')
    return name


def tagged(tag: str, volumes: Volumes) -> list[str]:
    """The volumes with a tag, which is given as @TAG."""
    return [volume for volume, (_size, _minor, own) in volumes.items() if tag == f"@{own}"]


def free(group: str, volumes: Volumes) -> int:
    """What is free in a volume group, in MiB."""
    return GROUPS[group] - sum(size for name, (size, *_) in volumes.items() if name.startswith(f"{group}/"))


def space(group: str, volumes: Volumes, unit: str) -> dict[str, str]:
    """The fields that a volume group, its only disk and its volumes have."""
    return {
        "vg_name": group,
        "vg_attr": "wz--n-",
        "pv_name": f"/dev/disk-{group}",
        "pv_attr": "a--",
        **dict.fromkeys(("vg_size", "pv_size", "size"), mib(GROUPS[group], unit)),
        **dict.fromkeys(("vg_free", "pv_free"), mib(free(group, volumes), unit)),
        "name": group,
        "vg_extent_size": mib(EXTENT, unit),
        "stripes": "1",
        "tags": "",
        "lv_attr": "-wi-ao",
        "lv_kernel_major": "253",
        "devices": f"/dev/disk-{group}(0)",
    }


def touch(path: str) -> None:
    """Have an empty file."""
    with open(path, "a"):
        pass


def understand() -> tuple[Options, list[str]]:
    """The options that matter, and the groups and volumes named."""
    options, names = {"fields": "", "units": "m", "separator": " "}, []
    words = iter(sys.argv[1:])
    for word in words:
        option, sign, value = word.partition("=")
        # A value may follow a letter at once.
        if not option.startswith("--") and option[:2] in VALUED and len(option) > 2:
            options[VALUED[option[:2]]] = word[2:]
        elif option in VALUED:
            options[VALUED[option]] = value if sign else next(words)
        elif not word.startswith("-"):
            names.append(word.removeprefix("/dev/"))
    return options, names


def mib(size: int, unit: str) -> str:
    """A size as these programs print it."""
    return f"{size * {'m': 1, 'k': 1024}[unit]}.00"


def show(options: Options, values: dict[str, str]) -> None:
    """A line with the fields asked for."""
    print("  " + options["separator"].join(values[field] for field in options["fields"].split(",")))


if __name__ == "__main__":
    sys.exit(main())
