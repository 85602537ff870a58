"""Who is who in the ledger: names and their uuids, the same in whichever daemon makes them."""

from uuid import NAMESPACE_URL, uuid5

_PROVIDERS = uuid5(NAMESPACE_URL, "urn:htoolsd:resource-provider")
_CONSUMERS = uuid5(NAMESPACE_URL, "urn:htoolsd:consumer")


def full_name(cluster: str, name: str) -> str:
    """The name in the ledger of what a cluster has: a node, a pool (TYPE/KEY), an instance."""
    return f"{cluster}/{name}"


def plan_name(cluster: str, plan: str) -> str:
    """The name in the ledger of a plan; a second slash stands in no name of an instance."""
    return full_name(cluster, f"plan/{plan}")


def provider_uuid(name: str) -> str:
    """The uuid of the resource provider of that name; a pool that clusters share has a name of its own."""
    return str(uuid5(_PROVIDERS, name))


def consumer_uuid(name: str) -> str:
    """The uuid of the consumer of that name, ``full_name`` of an instance."""
    return str(uuid5(_CONSUMERS, name))
