"""The ledger: resource providers, their inventories, and the allocations to consumers, in a database."""
