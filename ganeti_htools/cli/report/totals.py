"""Resources of a cluster, used and free, added up over all nodes (``hspace(1)``)."""

from dataclasses import dataclass

import numpy as np

from ganeti_htools.engine.rules import choice
from ganeti_htools.engine.rules.resources import CPU_RATIO
from ganeti_htools.model.columns import Floats, by_unit
from ganeti_htools.model.state import State


@dataclass(frozen=True, slots=True)
class Resources:
    """Sums over nodes; memory and disk in MiB, disk over all storage units of nodes.

    Prefixes: ``t_`` total, ``f_`` free, ``a_`` free and not kept back, ``i_`` used by instances. ``n_mem`` is
    used by the nodes themselves, ``x_mem`` is unaccounted for. ``v_cpu`` is the largest number of virtual
    CPUs, ``n_cpu`` the used CPUs in physical ones. ``most_mem`` and ``most_dsk`` are the largest available
    amounts on one node, for disk on one unit.
    """

    t_mem: float
    t_dsk: float
    t_cpu: float
    t_spindles: int
    v_cpu: int
    f_mem: int
    f_dsk: int
    f_spindles: int
    a_mem: int
    a_dsk: int
    most_mem: int
    most_dsk: int
    i_mem: int
    i_dsk: int
    i_cpu: int
    i_spindles: int
    n_cpu: float
    n_mem: int
    x_mem: int
    instances: int
    score: float


def total(state: State) -> Resources:
    c = state.columns
    a_mem = np.maximum(c.unallocated - c.r_mem, 0)
    t_dsk, f_dsk, lo_dsk = (by_unit(c, name) for name in ("t_dsk", "f_dsk", "lo_dsk"))
    free_dsk = sum(int(free.sum()) for free in f_dsk)
    a_dsk = [np.maximum(free - kept, 0) for free, kept in zip(f_dsk, lo_dsk, strict=True)]
    with np.errstate(divide="ignore", invalid="ignore"):
        n_cpu = c.u_cpu / CPU_RATIO.bound(c, c, None)
    return Resources(
        t_mem=_in_order(c.t_mem),
        t_dsk=sum(map(_in_order, t_dsk)),
        t_cpu=_in_order(c.t_cpu),
        t_spindles=int(c.t_spindles.sum()),
        v_cpu=sum(int(most) for most in np.floor(-CPU_RATIO.missing(0, c, c)).tolist()),
        f_mem=int(c.unallocated.sum()),
        f_dsk=free_dsk,
        f_spindles=int(c.f_spindles.sum()),
        a_mem=int(a_mem.sum()),
        a_dsk=sum(int(room.sum()) for room in a_dsk),
        most_mem=int(a_mem.max(initial=0)),
        most_dsk=max(int(room.max(initial=0)) for room in a_dsk),
        i_mem=int(c.i_mem.sum()),
        i_dsk=sum(int(whole.astype(np.int64).sum()) for whole in t_dsk) - free_dsk,
        i_cpu=int(c.u_cpu.sum()),
        i_spindles=int((c.t_spindles - c.f_spindles).sum()),
        n_cpu=_in_order(n_cpu),
        n_mem=int(c.n_mem.sum()),
        x_mem=int(c.x_mem.sum()),
        instances=int(c.primaries.sum()),
        score=float(choice.base(state, state.everywhere).score()),
    )


def _in_order(values: Floats) -> float:
    return sum(values.tolist(), 0.0)
