#!/usr/bin/python3 -IS
"""Stands for DRBD 8.4's drbdsetup, and keeps what is in /proc/drbd where there is DRBD.

A file has the devices of all nodes, "NODE MINOR" and what is known of that end. Copying takes no time. A job
runs dozens of these programs, so they import little.
"""

import fcntl
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ALL, NODE = os.path.split(os.environ["GANETI_ROOTDIR"])
Devices = dict[str, dict[str, str]]


def main() -> int:
    """Carry out one command; the exit status."""
    with open(f"{ALL}/drbd", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        rows = [line.rstrip("\n").split("\t") for line in file]
        devices = {key: dict(zip(known[::2], known[1::2], strict=True)) for key, *known in rows}
        before = str(devices)
        if error := change(devices, *sys.argv[1:]):
            print(error, file=sys.stderr)
            return 10
        if str(devices) != before:
            file.truncate(0)
            for key, device in devices.items():
                print(key, *(word for known in device.items() for word in known), sep="\t", file=file)
            for node in os.listdir(ALL):
                if node.startswith("node"):
                    with open(f"{ALL}/{node}/drbd.new", "w") as status:
                        status.writelines(f"{line}\n" for line in proc(devices, node))
                    os.rename(status.name, f"{ALL}/{node}/drbd")
    return 0


def change(devices: Devices, command: str, *arguments: str) -> str | None:
    """Change the devices; what is wrong, if anything is."""
    if command == "new-minor":
        devices.setdefault(f"{NODE} {arguments[1]}", {"role": "Secondary"})
        return None
    if command == "disconnect":
        local, remote = arguments
        keys = [key for key, end in devices.items() if ends(end) == (local, remote)]
        if not keys:
            return "(162) Invalid configuration request"
        for name in ("local", "remote", "two"):
            devices[keys[0]].pop(name, None)
        return None
    key = f"{NODE} {arguments[0].removeprefix('resource')}"
    device = devices.get(key)
    if device is None:
        return None if command == "new-resource" else f"{command}: (127) Device minor not allocated"
    match command:
        case "attach":
            device.update(data=arguments[1], meta=arguments[2])
        case "detach":
            del device["data"], device["meta"]
        case "connect":
            device.update(local=arguments[1], remote=arguments[2])
            device["two"] = "yes" if "--allow-two-primaries" in arguments else ""
        case "primary":
            other = peer(devices, device)
            if other and other["role"] == "Primary" and not (device["two"] and other["two"]):
                return "(-1) Multiple primaries not allowed by config"
            device["role"] = "Primary"
        case "secondary":
            device["role"] = "Secondary"
        case "down":
            del devices[key]
        case "show":
            print(shown(device, key.split()[1]))
    return None


def ends(device: dict[str, str]) -> tuple[str | None, str | None]:
    """Both addresses of a connection."""
    return device.get("local"), device.get("remote")


def peer(devices: Devices, device: dict[str, str]) -> dict[str, str] | None:
    """The other end, if both want to talk to each other."""
    local, remote = ends(device)
    return next((end for end in devices.values() if local and ends(end) == (remote, local)), None)


def proc(devices: Devices, node: str) -> "Iterator[str]":
    """The lines of a node's /proc/drbd."""
    yield "version: 8.4.11 (api:1/proto:86-101)"
    yield "srcversion: 0000000000000000000000"
    for key, device in sorted(devices.items()):
        if not key.startswith(f"{node} "):
            continue
        other = peer(devices, device)
        state = "Connected" if other else "WFConnection" if "local" in device else "StandAlone"
        roles = f"{device['role']}/{other['role'] if other else 'Unknown'}"
        disks = f"{disk(device)}/{disk(other) if other else 'DUnknown'}"
        yield f"{key.split()[1]:>2}: cs:{state} ro:{roles} ds:{disks} C r-----"
        yield "    ns:0 nr:0 dw:0 dr:0 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0"


def disk(device: dict[str, str]) -> str:
    """The state of an end's disk."""
    return "UpToDate" if "data" in device else "Diskless"


def shown(device: dict[str, str], minor: str) -> str:
    """What ``show`` prints. Ganeti wants a line for each statement."""
    lines = [f"resource resource{minor} {{"]
    if "local" in device:
        lines += ["_remote_host {", f"address ipv4 {device['remote'].removeprefix('ipv4:')};", "}"]
    lines += ["_this_host {"]
    if "local" in device:
        lines += [f"address ipv4 {device['local'].removeprefix('ipv4:')};"]
    lines += ["volume 0 {", f"device minor {minor};"]
    if "data" in device:
        lines += [f'disk "{device["data"]}";', f'meta-disk "{device["meta"]}";']
    return "\n".join([*lines, "}", "}", "}"])


if __name__ == "__main__":
    sys.exit(main())
