"""A new component of the score is one entry, and places that cannot take it say so.

The programs run as processes of their own, with an entry added to the source of the declaration.
"""

import subprocess
import sys
from textwrap import dedent

import pytest

from ganeti_htools.engine.rules.components import COMPONENTS
from ganeti_htools.model.columns import CHANGING

WITH_ENTRY = """
    import sys
    from importlib.util import find_spec, module_from_spec
    from pathlib import Path

    name = "ganeti_htools.engine.rules.components"
    spec = find_spec(name)
    source, end = Path(spec.origin).read_text("utf-8"), "\\n    )\\n\\n\\nclass ComponentTable"
    assert source.count(end) == 1
    module = sys.modules[name] = module_from_spec(spec)
    exec(compile(source.replace(end, "\\n    {entry}" + end), spec.origin, "exec"), module.__dict__)
"""

USED_DISK = (
    'Component("used_disk_cv", 3.0, SPREAD, ("f_dsk",), lambda c, free: 1 - free / c.t_dsk, ("t_dsk",)),'
)


def run(entry: str, program: str) -> subprocess.CompletedProcess[str]:
    """A program, with one more component."""
    code = dedent(WITH_ENTRY).replace("{entry}", entry.replace('"', '\\"')) + dedent(program)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_limits_have_different_names_and_changing_columns() -> None:
    assert len({component.name for component in COMPONENTS}) == len(COMPONENTS)
    assert {name for component in COMPONENTS for name in component.figures} <= set(CHANGING)


def test_a_new_component_counts_wherever_scores_are_computed() -> None:
    program = """
        from dataclasses import replace

        import numpy as np

        from ganeti_htools.engine.balancing.balance import rebalance, score_of
        from ganeti_htools.model.options import BalancingOptions
        from ganeti_htools.engine.capacity.fill import fill
        from ganeti_htools.engine.rules import choice, placements, settling
        from ganeti_htools.model.cluster import Cluster, Group
        from ganeti_htools.model.derive import derive
        from ganeti_htools.model.types import DiskTemplate
        from tests.support.by_hand import instance, node

        def drbd(row, pnode, snode, dsk):
            new = instance(f"i{row}", DiskTemplate.DRBD, pnode, snode, mem=200)
            return replace(new, dsk=dsk)

        nodes = tuple(node(name) for name in "abcde")
        instances = tuple(drbd(row, "ab"[row % 2], "bc"[row % 2], 9_000 * row) for row in range(1, 9))
        state = derive(Cluster((Group("group", "uuid-1"),), nodes, instances))
        everywhere = np.ones(5, np.bool_)

        assert score_of(state, everywhere) > 3 * np.std(1 - state.columns.f_dsk / state.columns.t_dsk)
        balanced, steps = rebalance(state, everywhere, BalancingOptions())
        assert steps
        assert abs(steps[-1].score - score_of(balanced, everywhere)) < 1e-9

        new = replace(instance("new", DiskTemplate.DRBD, ""), mem=200, dsk=30_000)
        bulk = state.copy()
        fill(bulk, new, np.arange(5), limit=6)
        for number in range(6):
            asked = state.requested_instance(new)
            p, s = np.nonzero(np.arange(5)[:, np.newaxis] != np.arange(5))
            trial = placements.allocate_pairs(state, asked, p, s, state.peers[p, s])
            settling.settle(state, trial.only(choice.best(state, trial, everywhere)))
        assert list(zip(bulk.pnode, bulk.snode)) == list(zip(state.pnode, state.snode))
    """
    done = run(USED_DISK, program)
    assert not done.returncode, done.stderr


SHARED = """
    import numpy as np

    from ganeti_htools.engine.balancing.balance import score_of
    from ganeti_htools.engine.balancing.shared_instances import shared_instances
    from ganeti_htools.engine.balancing.shared_storage import rebalance_shared
    from ganeti_htools.engine.rules.components import COMPONENTS
    from ganeti_htools.model.derive import derive
    from ganeti_htools.model.types import DiskTemplate
    from tests.support.by_hand import cluster, instance

    sizes = {{"a": 10_000, "b": 10_000, "c": 10_000}}
    rows = [instance(f"i{{row}}", DiskTemplate.EXT, "a") for row in range({instances})]
    state, everywhere = derive(cluster(sizes, rows)), np.ones(3, np.bool_)
    state.columns.r_mem[:] = {reserved}
    state.columns.fail_n1[:] = state.columns.unallocated <= {reserved}
    shared = shared_instances(state, np.ones({instances}, np.bool_))
    balanced, steps = rebalance_shared(state, everywhere, shared)
    assert len(steps) == {steps}
    assert abs(steps[-1].score - score_of(balanced, everywhere)) < 1e-8
    assert abs(steps[0].score - steps[1].score) > 1e-8
"""


def test_a_new_component_counts_on_shared_storage() -> None:
    entry = 'Component("cpus_cv", 9.0, SPREAD, ("u_cpu",), lambda c, used: used / c.t_cpu, ("t_cpu",)),'
    done = run(entry, SHARED.format(instances=7, reserved=0, steps=4))
    assert not done.returncode, done.stderr


def test_a_new_count_that_only_primaries_change_counts_in_bulk_allocation() -> None:
    """It is all that tells nodes apart: primaries go where there are most CPUs."""
    program = """
        import numpy as np

        from ganeti_htools.engine.capacity.fill import fill
        from ganeti_htools.model.cluster import Cluster, Group
        from ganeti_htools.model.derive import derive
        from ganeti_htools.model.types import DiskTemplate
        from tests.support.by_hand import instance, node

        nodes = tuple(node(name, t_cpu=cpus) for name, cpus in zip("abc", (8.0, 64.0, 16.0)))
        for template in (DiskTemplate.DRBD, DiskTemplate.EXT):
            state = derive(Cluster((Group("group", "uuid-1"),), nodes, ()))
            fill(state, instance("new", template, "", mem=200), np.arange(3), limit=3)
            assert state.pnode.tolist() == [1, 1, 1], (template, state.pnode)
    """
    entry = 'Component("cpu_cnt", 900.0, COUNT, ("u_cpu",), lambda c, used: used / c.t_cpu, ("t_cpu",)),'
    done = run(entry, program)
    assert not done.returncode, done.stderr


def test_bulk_allocation_refuses_another_use_of_shared_locations() -> None:
    entry = 'Component("apart_cv", 1.0, SPREAD, ("location",), lambda c, shared: shared + 0.0),'
    done = run(entry, "import ganeti_htools.engine.capacity.bulk_pairs")
    assert done.returncode == 1
    assert "bulk allocation does not know what shared locations do to apart_cv" in done.stderr


def test_another_count_of_failing_nodes_counts_on_shared_storage() -> None:
    entry = 'Component("failing_cnt", 1.0, COUNT, ("fail_n1",), lambda c, failing: failing + 0.0),'
    done = run(entry, SHARED.format(instances=6, reserved=6500, steps=4))
    assert not done.returncode, done.stderr


@pytest.mark.parametrize(
    "entry",
    [
        'Component("odd", 1.0, COUNT, ("fail_n1",), lambda c, fails: fails * c.t_mem),',
        'Component("odd", 1.0, LOST, ("u_cpu",), lambda c, used: used),',
        'Component("odd", 1.0, SPREAD, ("u_cpu", "i_mem"), lambda c, used, mem: used + mem),',
        'Component("odd", 1.0, SPREAD, ("i_mem",), lambda c, mem: mem * mem, proportional=False),',
    ],
)
def test_balancing_of_shared_storage_refuses_components_it_cannot_foresee(entry: str) -> None:
    done = run(entry, "import ganeti_htools.engine.balancing.shared_instances")
    assert done.returncode == 1
    assert "balancing of shared storage does not know what changes odd" in done.stderr


def test_simulated_losses_refuse_a_component_that_is_not_proportional() -> None:
    entry = 'Component("full_cnt", 1.0, COUNT, ("f_dsk",), lambda c, free: free < 1, proportional=False),'
    done = run(entry, "import ganeti_htools.engine.redundancy.simulate")
    assert done.returncode == 1
    assert "the simulation of lost nodes does not know what changes full_cnt" in done.stderr


def test_a_component_made_of_a_column_that_never_changes_is_refused() -> None:
    done = run('Component("odd", 1.0, SPREAD, ("t_mem",), lambda c, total: total),', "")
    assert done.returncode == 1
    assert "AssertionError" in done.stderr
