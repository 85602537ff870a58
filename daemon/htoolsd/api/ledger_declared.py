"""The methods about the ledger, after Placement's API: generations go in, and a conflict (409) comes out."""

from htoolsd.api.ledger import LedgerMethods
from htoolsd.socket.methods import Method

_PROVIDER = "its uuid, its name (CLUSTER/NODE), or the node of this cluster, or the beginning up to a dot"
_CONSUMER = "its uuid, its name (CLUSTER/INSTANCE), or the instance of this cluster"
_GENERATION = (
    "the generation of the consumer as it was told, null for one who has nothing yet; optional, then it may"
    " have any"
)


def of_ledger(ledger: LedgerMethods) -> tuple[Method, ...]:
    """The methods about the ledger: see :func:`.methods.declared`."""
    return (
        Method(
            "providers",
            1,
            "Lists the resource providers (nodes and pools), each with its generation, which grows with"
            " every change of what it has or of what is allocated of it.",
            {},
            ledger.providers,
        ),
        Method(
            "inventory",
            1,
            "Tells what resource providers have, by resource class; sizes are MiB.",
            {"provider": f"only of this one: {_PROVIDER}; optional"},
            ledger.inventory,
        ),
        Method(
            "set_inventory",
            1,
            "Sets what a provider has of a resource class. What is not given stays as it is. Of what Ganeti"
            " counts (MEMORY_MB, VCPU, CUSTOM_SPINDLES, CUSTOM_DISK_MIB_...), total and allocation_ratio"
            " follow Ganeti. Refused as a conflict if the generation has passed, or if what is removed is in"
            " use.",
            {
                "provider": _PROVIDER,
                "generation": "of the provider, as it was told",
                "resource_class": "MEMORY_MB, VCPU, or CUSTOM_ and capitals, digits and underscores",
                "total": "how much there is; needed for what is new",
                "reserved": "of that, what is not to be allocated; optional (0)",
                "min_unit": "the smallest amount; optional (1)",
                "max_unit": "the largest amount at once, null for no limit; optional (null)",
                "step_size": "what other amounts are multiples of; optional (1)",
                "allocation_ratio": "how often the rest may be allocated; optional (1.0)",
                "remove": "true for none of it; optional",
            },
            ledger.set_inventory,
        ),
        Method(
            "usage",
            1,
            "Tells how much of each resource class is allocated of resource providers, and their capacity.",
            {"provider": f"only of this one: {_PROVIDER}; optional"},
            ledger.usage,
        ),
        Method(
            "allocations",
            1,
            "Tells what consumers have been allocated, and of which providers. promised: the daemon did so"
            " in a decision. beyond: it was more than there was.",
            {"consumer": f"only of this one: {_CONSUMER}, or the beginning up to a dot; optional"},
            ledger.allocations,
        ),
        Method(
            "claim",
            1,
            "Allocates resources to a consumer, all or nothing, instead of what it had claimed before."
            " Refused as a conflict if somebody else was first, as no-capacity if there is not enough.",
            {
                "consumer": _CONSUMER,
                "allocations": "object: by provider, an object of amounts by resource class",
                "generations": "object: by provider, the generation on which this was decided; optional for"
                " each, then it may have any",
                "consumer_generation": _GENERATION,
                "seconds": "after which it ends by itself; optional",
            },
            ledger.claim,
        ),
        Method(
            "release",
            1,
            "Ends a claim, and tells what it was. What exists in Ganeti cannot be released.",
            {
                "consumer": f"{_CONSUMER}, or the beginning up to a dot",
                "consumer_generation": _GENERATION,
            },
            ledger.release,
        ),
    )
