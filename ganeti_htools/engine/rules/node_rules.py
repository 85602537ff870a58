"""What happens to a node when an instance comes or goes, and when it must not come.

These functions are the only place where the figures of a node change, as :mod:`.resources` declares.
They take columns of any shapes that broadcast, so one call tries an instance on every candidate at once. Soft
limits hold unless ``force`` is set; hard limits (memory, disk and spindles that do not exist) always do.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganeti_htools.engine.rules.class_limits import all_allowed
from ganeti_htools.engine.rules.limits import PRIMARY, SECONDARY, SOURCE, Limit, Role
from ganeti_htools.engine.rules.resources import (
    RESERVE,
    InstanceOnNode,
    Resource,
    declared_limits,
    resources,
    views,
)
from ganeti_htools.engine.rules.storage_limits import disk_limits, unit_limits
from ganeti_htools.model.columns import Columns, Ints, Shape, columns_type
from ganeti_htools.model.state import RequestedInstance
from ganeti_htools.model.types import Fail

Codes = NDArray[np.int8]

FITS = 0
CODE = {fail: code for code, fail in enumerate(Fail, start=1)}
FAIL = dict(enumerate(Fail, start=1))
_CODE = {fail: np.int8(code) for fail, code in CODE.items()}


@lru_cache(maxsize=256)
def _changing(shape: Shape, role: Role, forthcoming: bool) -> tuple[tuple[Resource, tuple[int, ...]], ...]:
    """The resources that an instance changes, each with the positions of the columns."""
    names = columns_type(shape)._fields
    found = [(each, each.views(shape, forthcoming)) for each in resources(shape) if role in each.roles]
    return tuple((each, tuple(map(names.index, figures))) for each, figures in found if figures)


@lru_cache(maxsize=256)
def limits(
    shape: Shape, role: Role, forthcoming: bool, wants: tuple[bool, ...], force: bool
) -> tuple[tuple[Limit, str], ...]:
    """The limits that hold for an instance, in the order they are looked at, each with its figure."""
    counted, declared = views(shape), declared_limits(shape)
    if forthcoming and force:  # what is free is not looked at, but without its units it can never be made
        declared += unit_limits(shape)
    held = [
        each
        for each in declared
        if role in each.roles and (each.of is None or wants[each.of]) and not (force and each.soft)
    ]
    plain = [(each, each.figure) for each in held if not forthcoming or each.fixed]
    if force:
        return tuple(plain)
    counting = [(each, counted[each.figure]) for each in held if each.figure in counted and not each.settled]
    return (*plain, *counting)


def _changed(columns: Columns, change: InstanceOnNode, sign: int, role: Role) -> tuple[Columns, Ints | None]:
    """The columns after an instance has come (1) or gone (-1); and unless it is forthcoming, ``unallocated``.

    Columns that equal each other and change by the same amount are equal again.
    """
    forthcoming, new, firsts = change.asked.forthcoming, list(columns), columns.firsts
    done: dict[int, tuple[Any, Any]] = {}
    apart = []
    for resource, figures in _changing(columns.shape, role, forthcoming):
        amount, after = resource.amount(columns, change), resource.after
        for view in figures:
            first = firsts[view]
            if first in done and done[first][0] is after and _same(done[first][1], amount):
                new[view] = new[first]
                continue
            if first != view:
                apart.append(columns._fields[view])
            new[view] = after(columns, columns[view], amount, sign)
            done[view] = after, amount
    made = columns.made(new, apart)
    if forthcoming:
        return made, None
    unallocated = made.unallocated
    return made._replace(fail_n1=fails_n1(unallocated, made.r_mem)), unallocated


def fails_n1(unallocated: Any, r_mem: Any) -> Any:
    """Whether nodes fail N+1: they have too little memory for what they keep free for their peers (MiB)."""
    return RESERVE.relation.broken(unallocated, r_mem)


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(np.all(np.equal(one, other)))


def first_reason(codes: Codes, *later: Codes) -> Codes:
    """The first reason against, of several parts of a placement in order: FITS where none has any.

    Arrays broadcast against each other.
    """
    for more in later:
        codes = np.where(codes == FITS, more, codes)
    return codes


def _codes(
    old: Columns,
    new: Columns,
    unallocated: Any,
    asked: RequestedInstance,
    role: Role,
    force: bool,
    ignored: tuple[Limit, ...] = (),
) -> Codes:
    """The code of the first broken limit, element by element; FITS where none is."""

    def figure(name: str) -> Any:
        return unallocated if name == "unallocated" else getattr(new, name)

    codes: Any = np.zeros(old.offline.shape, np.int8)
    for limit, name in reversed(limits(old.shape, role, asked.forthcoming, asked.wants, force)):
        if limit in ignored if name == limit.figure else new.aliases.get(name) == limit.figure:
            continue  # the view with forthcoming instances equals the plain one
        codes = np.where(limit.broken(figure(name), old, new, asked), _CODE[limit.fail], codes)
    return np.asarray(codes)


def remove_primary(columns: Columns, asked: RequestedInstance, conflicts: Any, location: Any) -> Columns:
    """The columns once a primary is gone. ``conflicts``, ``location``: see :class:`.InstanceOnNode`."""
    return _changed(columns, InstanceOnNode(asked, conflicts, location), -1, PRIMARY)[0]


def add_primary(
    columns: Columns, asked: RequestedInstance, conflicts: Any, location: Any, force: bool = False
) -> tuple[Columns, Codes]:
    """The columns once a primary has come, and for each candidate why it must not (FITS if it may).

    ``conflicts``, ``location``: see :class:`.InstanceOnNode`.
    """
    new, free = _changed(columns, InstanceOnNode(asked, conflicts, location), 1, PRIMARY)
    return new, _codes(columns, new, free, asked, PRIMARY, force)


def remove_secondary(
    columns: Columns, asked: RequestedInstance, r_mem: Any, kept: Sequence[Any] = ()
) -> Columns:
    """The columns once a secondary is gone; ``r_mem`` (MiB) is the largest reservation that remains there,
    ``kept`` that of each custom class.
    """
    return _changed(
        columns, InstanceOnNode(asked, reserved=r_mem, kept=_concerned(asked, kept)), -1, SECONDARY
    )[0]


def add_secondary(
    columns: Columns,
    asked: RequestedInstance,
    peer_mem: Any,
    force: bool = False,
    ignore_disk: bool = False,
    peers: Sequence[Any] = (),
) -> tuple[Columns, Codes]:
    """The columns once a secondary has come, and for each candidate why it must not. Only DRBD has one.

    ``peer_mem`` (MiB) is what the candidate keeps free already for the same primary, ``peers`` the same of
    each custom class, nothing unless given. With ``ignore_disk`` a full disk is no obstacle, nor what amounts
    the node gives of custom classes: the instance's disk is there, its primary was lost.
    """
    together = [kept + own for kept, own in zip(peers or (0,) * len(asked.kept), asked.kept, strict=True)]
    reserved = peer_mem + asked.secondary_mem
    change = InstanceOnNode(asked, reserved=reserved, kept=_concerned(asked, together))
    new, free = _changed(columns, change, 1, SECONDARY)
    ignored: tuple[Limit, ...] = ()
    if ignore_disk:
        ignored = (*disk_limits(columns.shape), *unit_limits(columns.shape), *all_allowed(columns.shape))
    codes = _codes(columns, new, free, asked, SECONDARY, force, ignored)
    return new, codes if asked.mirrored else np.full_like(codes, CODE[Fail.DISK])


def _concerned(asked: RequestedInstance, kept: Sequence[Any]) -> Sequence[Any]:
    """What is kept of each custom class, None of those of which an instance takes nothing."""
    wanted = asked.wants[len(asked.wants) - len(kept) :]
    return [amount if wants else None for amount, wants in zip(kept, wanted, strict=True)] if kept else ()


def copy_codes(columns: Columns, asked: RequestedInstance) -> Codes:
    """For each node why disks must not be copied from it to a new secondary, which nothing forces."""
    return _codes(columns, columns, None, asked, SOURCE, force=False)
