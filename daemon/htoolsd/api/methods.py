"""All methods of the socket, by subject; ``htoolsctl methods`` lists them.

What carries them out stands in one module per subject. A new subject is a module beside this one, an argument
of :func:`declared` and a section there.
"""

from ganeti_htools.client.plan_changes import LONGEST
from ganeti_htools.planning.options import names
from ganeti_htools.planning.tools import TOOLS
from htoolsd.api.cluster import ClusterMethods
from htoolsd.api.decisions import Decisions
from htoolsd.api.history import HistoryMethods
from htoolsd.api.ledger import LedgerMethods
from htoolsd.api.ledger_declared import of_ledger
from htoolsd.api.plans import PlanMethods
from htoolsd.api.policies import PolicyMethods
from htoolsd.policies.remedies import POLICIES
from htoolsd.socket.methods import Handler, Method

_NAMES = " or ".join(TOOLS)
_OPTIONS = "; ".join(f"for {name} {', '.join(names(tool.options))}" for name, tool in TOOLS.items())
_POLICIES = " or ".join(POLICIES)
_PLAN = "id of a plan, or its beginning"


def declared(
    decisions: Decisions,
    cluster: ClusterMethods,
    plans: PlanMethods,
    policies: PolicyMethods,
    history: HistoryMethods,
    ledger: LedgerMethods,
    status: Handler,
) -> tuple[Method, ...]:
    """The methods: name, version, what they do, their arguments, and what carries them out."""
    return (
        # The daemon
        Method("status", 1, "Tells how the daemon is and what it has done since it was started.", {}, status),
        # Decisions
        Method(
            "decide",
            1,
            "Decides an iallocator request. The result is what the iallocator program is to write to"
            " stdout and stderr, its exit status, how old what is known of the cluster is, in seconds, and"
            " for each new instance the groups that could take it, the best first, with their policy, the"
            " score of the cluster then (or the lost allocations) and the nodes."
            " The request is an open regular file passed along with the call (SCM_RIGHTS), read from its"
            " beginning.",
            {
                "arguments": "list of strings, the --KEY=VALUE options of the request; optional",
                "request": "the text of the request, by clients that pass no file; optional",
                "claim": "true if later decisions are to count what is promised, false if not; optional,"
                " otherwise what is decided of a file that is passed counts",
            },
            decisions.run,
        ),
        # The cluster
        Method(
            "cluster",
            1,
            "Tells of the cluster: nodes, instances, groups and info as Ganeti answers them over LUXI"
            " (nodes that are in use but do not report as offline); how old each kind of data is, in"
            " seconds, and whether it is older than it should be, or than asked for; how often each table"
            " has changed; the nodes whose figures may be of a time when they had other instances"
            " (updating); and what nodes that do not report had when they last did, without their instances,"
            " in the text format (standby).",
            {"fresh": "true to have the configuration asked for anew before; optional"},
            cluster.cluster,
        ),
        Method(
            "storage",
            1,
            "Tells of the storage: the units of nodes and the pools, with total and free space in MiB where"
            " that is known, the nodes that see each pool, and how old each kind of data is, in seconds.",
            {},
            cluster.storage,
        ),
        Method(
            "refresh",
            1,
            "Asks Ganeti for everything anew, and then tells how old each kind of data is, in seconds.",
            {},
            cluster.refresh,
        ),
        # Plans
        Method(
            "plan",
            2,
            f"Makes the plan that {_NAMES} makes, which can be executed then. The result is the"
            " plan, and in found what the tool needs to make it again.",
            {
                "tool": _NAMES,
                "options": f"object of options, each of them optional: {_OPTIONS}",
                "generations": "of the cluster, as told by cluster; optional, the newest otherwise",
            },
            plans.make,
        ),
        Method(
            "execute",
            1,
            "Begins to carry out a plan, and does not wait for its end.",
            {
                "plan": _PLAN,
                "on_change": "replan or stop, where it does not fit the cluster any more; optional",
                "wait_for_nodes": "true to wait for nodes that are in use but do not report; optional",
            },
            plans.execute,
        ),
        Method(
            "plans",
            1,
            "Lists the plans, the oldest first, with how many jobs are done.",
            {},
            plans.summaries,
        ),
        Method(
            "follow",
            1,
            f"Tells of a plan: at once, or when it has changed, or after {LONGEST:g} s.",
            {"plan": _PLAN, "serial": "the serial of the plan when it was told last; optional"},
            plans.follow,
        ),
        Method(
            "cancel",
            1,
            "Stops a plan after the set of jobs that is under way.",
            {"plan": _PLAN, "now": "true to leave the jobs alone at once, which go on; optional"},
            plans.cancel,
        ),
        # Policies
        Method(
            "policies",
            1,
            "Lists the policies: the mode of each, what it decided last in each node group and why, when it"
            " is considered next, what the budgets of the day leave, and how many plans failed in a row.",
            {},
            policies.summaries,
        ),
        Method(
            "explain",
            1,
            "Tells what a policy would do now in each node group, and which conditions hold it back.",
            {"policy": _POLICIES},
            policies.explain,
        ),
        Method(
            "run",
            1,
            "Has a policy considered at once, and does not wait for that. Tells whether this is the master"
            " node, where alone policies are considered, and the policy's mode.",
            {
                "policy": _POLICIES,
                "forget_failures": "true to go on where plans that failed have switched it off; optional",
            },
            policies.run,
        ),
        # The history
        Method(
            "history",
            1,
            "Tells of decisions, of plans that were made or have ended, and of what policies have decided,"
            " the newest last.",
            {
                "instance": "only what names this instance, or its beginning up to a dot; optional",
                "node": "the same for a node; optional",
                "since": "only what happened since then, in seconds of the epoch; optional",
                "most": "how many at most, the newest (100); optional",
            },
            history.history,
        ),
        Method(
            "why",
            1,
            "Tells why an instance is where it is: which decision or plan has brought it there, and what"
            " moving it elsewhere would do to the score as it is now.",
            {"instance": "the name of the instance, or its beginning up to a dot"},
            history.why,
        ),
        *of_ledger(ledger),
    )
