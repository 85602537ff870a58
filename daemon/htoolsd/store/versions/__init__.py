"""The versions of the ledger's schema; each file moves the one before it to its own."""
