"""Reading a ledger in tests."""

from htoolsd.store.ledger import Ledger
from htoolsd.store.records import ProviderUsage


def standing(ledger: Ledger, provider: str) -> ProviderUsage:
    """Return a provider (uuid) with its inventories and usage."""
    (found,) = ledger.provider_usages(provider)
    return found
