"""Following: the ledger is brought in step with Ganeti, and decisions with what the ledger reserves."""
