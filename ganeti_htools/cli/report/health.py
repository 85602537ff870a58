"""Report of ``hcheck`` about the health of a cluster: as text, as ``KEY=VALUE`` lines and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ganeti_htools.backends.haskell import fixed
from ganeti_htools.cli.report.layout import key_lines
from ganeti_htools.engine.groups.diagnosis import GroupDiagnosis, reasons
from ganeti_htools.engine.redundancy import health as redundancy_health
from ganeti_htools.engine.redundancy.health import RedundancyHealth, Tolerance
from ganeti_htools.engine.rules.broken_rules import BrokenRule
from ganeti_htools.model.cluster import Cluster, template_not_enabled
from ganeti_htools.model.ganeti_version import rules_of
from ganeti_htools.model.state import State

# Counts: the end of the key, the title in text, and the name in JSON.
COUNTS = (
    ("N1_FAIL", "Nodes not N+1 happy", "n1_fail"),
    ("CONFLICT_TAGS", "Nodes with conflicting instances", "conflict_tags"),
    ("OFFLINE_PRI", "Instances having the primary node offline", "offline_pri"),
    ("OFFLINE_SEC", "Instances having a secondary node offline", "offline_nodes"),
    ("GN1_FAIL", "Nodes not directly evacuateable", "gn1_fail"),
)
PHASES = {"INIT": "initially", "FINAL": "after rebalancing"}


# Why redistribution would not repair an unhealthy group (row); None if it would.
Outlook = Mapping[int, str | None]


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """A node group (row): its health in counts and in words, and its score."""

    row: int
    health: RedundancyHealth
    ill: GroupDiagnosis
    score: float


@dataclass(frozen=True, slots=True)
class HealthFindings:
    """The health of each group and of all together, before or after rebalancing."""

    groups: tuple[GroupFindings, ...]
    cluster: RedundancyHealth

    @property
    def healthy(self) -> bool:
        """Whether nothing bad was counted."""
        return not any(self.cluster.counts)


def group_keys(state: State) -> str:
    """Format the UUIDs of the groups as ``KEY=VALUE`` lines."""
    uuids = [(f"GROUP_UUID_{row}", group.uuid) for row, group in enumerate(state.cluster.groups)]
    return key_lines("HCHECK", uuids)


def as_keys(findings: HealthFindings, phase: str, rebalancing: bool) -> str:
    """Format the findings of a phase (INIT or FINAL) as ``KEY=VALUE`` lines."""
    pairs: list[tuple[str, str]] = []
    for group in findings.groups:
        level = f"{phase}_GROUP_{group.row}"
        counts = zip(COUNTS, group.health.counts, strict=False)
        pairs += ((f"{level}_{key}", str(count)) for (key, *_), count in counts)
        pairs.append((f"{level}_SCORE", fixed(group.score, 8)))
    counts = zip(COUNTS, findings.cluster.counts, strict=False)
    pairs += ((f"{phase}_CLUSTER_{key}", str(count)) for (key, *_), count in counts)
    pairs.append((f"{phase}_CLUSTER_NEED_REBALANCE", str(int(rebalancing))))
    return key_lines("HCHECK", pairs)


def as_text(
    state: State,
    findings: HealthFindings,
    phase: str,
    rebalancing: bool,
    more: bool = False,
    outlook: Outlook | None = None,
) -> str:
    """Describe the findings of a phase (INIT or FINAL).

    With ``more``, also the health of each group in words, and how many nodes may be lost.
    """
    lines: list[str] = []
    for group in findings.groups:
        lines += ("", f"Statistics for group {state.cluster.groups[group.row].name} {PHASES[phase]}")
        lines += _counts(group.health)
        lines.append(f"    Group score: {fixed(group.score, 8)}")
        if more:
            lines.append(f"    {tolerated(redundancy_health.tolerance(state, state.group == group.row))}")
            lines.append(f"    Health: {group.ill.word}")
            lines += (f"        {reason}" for reason in reasons(state, group.ill))
            if group.row in (outlook or {}):
                lines.append(f"    {_mended((outlook or {})[group.row])}")
    lines += ("", f"Cluster statistics {PHASES[phase]}", *_counts(findings.cluster))
    lines.append(f"    Cluster is not healthy: {rebalancing}")
    return "".join(f"{line}\n" for line in lines)


def _counts(health: RedundancyHealth) -> Iterator[str]:
    for (_, name, _), count in zip(COUNTS, health.counts, strict=False):
        yield f"    {name}: {count}"


def _mended(why: str | None) -> str:
    told = "Redistribution (hregroup) would"
    return f"{told} repair it" if why is None else f"{told} not repair it: {why}"


def tolerated(count: Tolerance) -> str:
    told = f"Node failures survived one after the other, largest node first: {count.intact}"
    return f"{told} ({count.recreating} if data may be lost)" if count.recreating > count.intact else told


def broken_rules_text(state: State, broken: Sequence[BrokenRule]) -> str:
    lines = [f"Broken rules of instances: {len(broken)}"]
    for each in broken_rules_json(state, broken):
        lines.append(f"    {each['rule']}: {', '.join(each['instances'])} on {', '.join(each['nodes'])}")
    return "".join(f"{line}\n" for line in lines)


def broken_rules_json(state: State, broken: Sequence[BrokenRule]) -> list[dict[str, Any]]:
    return [
        {
            "rule": each.rule,
            "instances": state.instance_names(each.instances),
            "nodes": state.names(each.nodes),
        }
        for each in broken
    ]


def policies_not_enabled(cluster: Cluster) -> dict[str, list[str]]:
    """Return the disk templates that policies of node groups allow, but the cluster does not enable."""
    extra = {
        group.name: [
            each.value for each in group.ipolicy.disk_templates if template_not_enabled(cluster, each)
        ]
        for group in cluster.groups
    }
    return {name: templates for name, templates in extra.items() if templates}


def as_json(
    state: State, before: HealthFindings, after: HealthFindings | None, outlook: Outlook | None = None
) -> dict[str, Any]:
    """Describe the health before rebalancing, and after it if that was simulated, as JSON."""
    outlook = outlook or {}
    finals: Sequence[GroupFindings | None] = after.groups if after else [None] * len(before.groups)
    return {
        "healthy": all(group.ill.word == "healthy" for group in before.groups),
        "ganeti_rules": rules_of(state.cluster.ganeti).name,
        "groups": [
            {
                "name": state.cluster.groups[group.row].name,
                "uuid": state.cluster.groups[group.row].uuid,
                "tolerated_losses": tolerance.intact,
                "tolerated_losses_without_data": tolerance.recreating,
                "health": group.ill.word,
                "why": list(reasons(state, group.ill)),
                "redistribution": {"repairs": outlook[group.row] is None, "why": outlook[group.row]}
                if group.row in outlook
                else None,
                "initial": {**_counts_json(group.health), "score": group.score},
                "final": final and {**_counts_json(final.health), "score": final.score},
            }
            for group, final in zip(before.groups, finals, strict=True)
            for tolerance in [redundancy_health.tolerance(state, state.group == group.row)]
        ],
        "not_enabled": policies_not_enabled(state.cluster),
        "cluster": {"initial": _counts_json(before.cluster), "final": after and _counts_json(after.cluster)},
    }


def _counts_json(health: RedundancyHealth) -> dict[str, int]:
    return {name: count for (_, _, name), count in zip(COUNTS, health.counts, strict=False)}
