"""What happens to a node when an instance comes or goes, and when it must not come.

These four functions are the only place where the figures of a node change. They take columns of any
shapes that broadcast, so one call tries an instance on every candidate at once. The rules are those
of Ganeti's htools (``Node.hs``; ``hbal(1)``): soft limits (reserved disk, spindle and CPU ratios,
N+1, exclusion tags) hold unless ``force`` is set; hard limits (memory, disk and spindles that do not
exist) always do.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganeti_htools.model.columns import Columns, Ints
from ganeti_htools.model.state import Asked
from ganeti_htools.model.types import Fail

Codes = NDArray[np.int8]

FITS = 0
CODE = {fail: code for code, fail in enumerate(Fail, start=1)}
FAIL = dict(enumerate(Fail, start=1))


def _first_broken(columns: Columns, rules: Sequence[tuple[Any, Fail]]) -> Codes:
    """The code of the first broken rule, element by element; FITS where none is."""
    codes: Any = np.zeros(columns.offline.shape, np.int8)
    for broken, fail in reversed(rules):
        codes = np.where(broken, np.int8(CODE[fail]), codes)
    return np.asarray(codes)


def _views(columns: Columns, asked: Asked, name: str, change: Callable[[Any], Any]) -> dict[str, Any]:
    """A figure changed in the views that count the instance: forthcoming ones change only one."""
    plain, forth = getattr(columns, name), getattr(columns, name + "_forth")
    if asked.forthcoming:
        return {name + "_forth": change(forth)}
    changed = change(plain)
    return {name: changed, name + "_forth": changed if forth is plain else change(forth)}


def _storage(columns: Columns, asked: Asked, sign: int) -> dict[str, Any]:
    """Disk and spindles after the instance comes (1) or goes (-1).

    Without exclusive storage free spindles count 0 and instances' spindle use is added up; with it,
    an instance that does not say how many it needs cannot come (-1) and gives nothing back.
    """
    dsk = sign * asked.dsk if asked.local else 0
    use = np.where(columns.excl_stor, 0.0, sign * 1.0 * asked.spindle_use)

    def free_spindles(free: Ints) -> Ints:
        if asked.spindles is not None:
            exclusive = free - sign * asked.spindles
        else:
            exclusive = np.full_like(free, -1) if sign > 0 else free
        return np.where(columns.excl_stor, exclusive, 0)

    return {
        **_views(columns, asked, "f_dsk", lambda free: free - dsk),
        **_views(columns, asked, "f_spindles", free_spindles),
        **_views(columns, asked, "inst_spindles", lambda used: used + use),
    }


def _storage_rules(
    columns: Columns, new: Columns, asked: Asked, view: str, force: bool
) -> list[tuple[Any, Fail]]:
    if not asked.local:
        return []
    if view and new.f_dsk_forth is new.f_dsk and new.inst_spindles_forth is new.inst_spindles:
        return []  # the same figures have been looked at
    f_dsk = getattr(new, "f_dsk" + view)
    soft = [(f_dsk < columns.lo_dsk, Fail.DISK)]
    crowded = [(getattr(new, "inst_spindles" + view) > columns.hi_spindles, Fail.DISK)]
    return [
        (f_dsk <= 0, Fail.DISK),
        *([] if force else soft),
        (columns.excl_stor & (getattr(new, "f_spindles" + view) < 0), Fail.SPINDLES),
        *([] if force else crowded),
    ]


def _primary(columns: Columns, asked: Asked, sign: int, conflicts: Any, location: Any) -> Columns:
    """Figures after a primary comes or goes, N+1 aside."""
    row = asked.row
    new = _storage(columns, asked, sign)
    new |= _views(columns, asked, "u_cpu", lambda used: used + sign * asked.vcpus)
    new["f_mem_forth"] = columns.f_mem_forth - sign * asked.mem
    new["conflicts"] = columns.conflicts + sign * conflicts
    if not asked.forthcoming:
        load_cpu = columns.load_cpu + sign * row.load.cpu
        new["load_cpu"] = load_cpu
        for kind, amount in (("load_mem", row.load.mem), ("load_net", row.load.net)):
            load = getattr(columns, kind)
            same = load is columns.load_cpu and np.all(np.equal(amount, row.load.cpu))
            new[kind] = load_cpu if same else load + sign * amount
        new["load_dsk"] = columns.load_dsk + sign * row.load.dsk
        new["i_mem"] = columns.i_mem + sign * asked.record_mem
        new["primaries"] = columns.primaries + sign
        new["location"] = columns.location + sign * location
    return columns.changed(**new)


def remove_primary(columns: Columns, asked: Asked, conflicts: Any, location: Any) -> Columns:
    """Take a primary off. ``conflicts``: how many of its exclusion tags others there have too;
    ``location``: its location score plus unmet desired locations there.
    """
    new = _primary(columns, asked, -1, conflicts, location)
    return new if asked.forthcoming else new.changed(fail_n1=new.unallocated <= new.r_mem)


def add_primary(
    columns: Columns, asked: Asked, conflicts: Any, location: Any, force: bool = False
) -> tuple[Columns, Codes]:
    """Put a primary on: new figures, and for each candidate why it must not (FITS if it may).

    ``conflicts``: how many of its exclusion tags instances there have already; ``location``: its
    location score plus unmet desired locations there.
    """
    new = _primary(columns, asked, 1, conflicts, location)
    rules: list[tuple[Any, Fail]] = []
    if not asked.forthcoming:
        free = new.unallocated
        new = new.changed(fail_n1=free <= new.r_mem)
        rules += [(free <= 0, Fail.MEM), *_storage_rules(columns, new, asked, "", force)]
        if not force:
            rules += [
                (new.fail_n1 & ~columns.fail_n1, Fail.MEM),
                (_overcommitted(columns, new.u_cpu), Fail.CPU),
                (np.asarray(conflicts) > 0, Fail.TAGS),
            ]
    if not force:
        rules += [
            (new.f_mem_forth <= 0, Fail.MEM),
            *_storage_rules(columns, new, asked, "_forth", force),
        ]
        if new.u_cpu_forth is not new.u_cpu:
            rules += [(_overcommitted(columns, new.u_cpu_forth), Fail.CPU)]
    return new, _first_broken(columns, rules)


def _overcommitted(columns: Columns, u_cpu: Ints) -> Any:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return (columns.vcpu_ratio >= 0) & (columns.vcpu_ratio < u_cpu / columns.t_cpu)


def remove_secondary(columns: Columns, asked: Asked, r_mem: int) -> Columns:
    """Take a secondary off; ``r_mem`` (MiB) is the largest reservation that remains on the node."""
    new = _secondary(columns, asked, -1)
    if asked.forthcoming:
        return new
    return new.changed(r_mem=np.full_like(columns.r_mem, r_mem), fail_n1=new.unallocated <= r_mem)


def add_secondary(
    columns: Columns, asked: Asked, peer_mem: Any, force: bool = False, ignore_disk: bool = False
) -> tuple[Columns, Codes]:
    """Put a secondary on: new figures, and for each candidate why it must not. Only DRBD has one.

    ``peer_mem`` (MiB) is what the candidate keeps free already for the same primary. With
    ``ignore_disk`` a full disk is no obstacle: the instance's disk is there, its primary was lost.
    """
    new = _secondary(columns, asked, 1)
    rules: list[tuple[Any, Fail]] = [] if asked.mirrored else [(True, Fail.DISK)]
    if not asked.forthcoming:
        free = columns.unallocated
        r_mem = np.maximum(columns.r_mem, peer_mem + asked.secondary_mem)
        new = new.changed(r_mem=r_mem, fail_n1=free <= r_mem)
        storage = _storage_rules(columns, new, asked, "", force)
        rules += storage[1:] if ignore_disk else storage
        if not force:
            rules += [
                (asked.secondary_mem >= free, Fail.MEM),
                (new.fail_n1 & ~columns.fail_n1, Fail.MEM),
            ]
    if not force:
        rules += [
            *_storage_rules(columns, new, asked, "_forth", force),
            (asked.secondary_mem >= columns.f_mem_forth, Fail.MEM),
        ]
    return new, _first_broken(columns, rules)


def _secondary(columns: Columns, asked: Asked, sign: int) -> Columns:
    new = _storage(columns, asked, sign)
    if not asked.forthcoming:
        new["load_dsk"] = columns.load_dsk + sign * asked.row.load.dsk
        new["secondaries"] = columns.secondaries + sign
    return columns.changed(**new)
